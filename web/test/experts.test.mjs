/**
 * Packages by expert: reading all but the experts in order, keeping these in one file of OPFS (a double of it),
 * bringing them without waiting; and under Node, from paths, the text of the whole model with every size of the room.
 */
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {cpSync, existsSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {fileURLToPath} from 'node:url';
import {after, before, describe, test} from 'node:test';
import {ExpertShards} from '../lib/experts.js';
import {Tern} from '../lib/index.js';
import {openModel} from '../lib/open.js';
import {missing} from './support/built.mjs';
import {opfs} from './support/opfs.mjs';
import {serve} from './support/server.mjs';

const NATIVE = process.env.TERN_NATIVE ?? fileURLToPath(new URL('../../build/release/tern', import.meta.url));
const DECLARED = readFileSync(new URL('../lib/index.d.ts', import.meta.url), 'utf8');
const native = process.env.TERN_WEB_REQUIRED || existsSync(NATIVE) ? false : `no ${NATIVE}`;
const GREEDY = {temperature: 0, maxTokens: 16};
const cpu = {backend: 'cpu', threads: 1};

const code = (expected, pattern) => (error) => {
  assert.equal(error.code, expected, error.message);
  assert.match(error.message, pattern);
  return true;
};

describe('packages by expert', {skip: native}, () => {
  let folder, dir, file, manifest, server;
  /** Told of each request. */
  let asked = (path) => void path;

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'tern-'));
    [file, dir] = [join(folder, 'm.gguf'), join(folder, 'p')];
    execFileSync(NATIVE, ['synth', '--preset', 'gpt-oss-tiny', '-o', file], {stdio: 'pipe'});
    execFileSync(NATIVE, ['package', file, '-o', dir, '--shard-size', '1'], {stdio: 'pipe'});
    manifest = JSON.parse(readFileSync(join(dir, 'manifest.json'), 'utf8'));
    const files = {};
    for (const name of readdirSync(dir)) files[`/p/${name}`] = readFileSync(join(dir, name));
    server = await serve(files, (request, {path}) => void asked(path));
  });
  after(async () => {
    await server?.close();
    rmSync(folder, {recursive: true});
  });

  const url = () => `${server.url}/p/`;
  const experts = () => manifest.shards.filter(({type}) => type === 'expert');

  /** All bytes of the file that are no expert's, which the reader gives; zeros for the others. */
  async function checkRest(reader) {
    const whole = readFileSync(file);
    assert.equal(reader.size, whole.length);
    for (const {ranges} of experts()) for (const [offset, bytes] of ranges) whole.fill(0, offset, offset + bytes);
    const pieces = [];
    for (let at = 0; at < whole.length; at += 100003)
      pieces.push(Buffer.from(await reader.read(at, Math.min(100003, whole.length - at))));
    assert.ok(Buffer.concat(pieces).equals(whole), 'other bytes');
  }

  function checkExperts(shards) {
    manifest.shards.forEach(({type, file: name, bytes}, place) => {
      const into = new Uint8Array(bytes);
      if (type === 'expert') shards.bring(place, into);
      if (type === 'expert') assert.ok(readFileSync(join(dir, name)).equals(into), name);
    });
  }

  /** Loads as the host does. */
  async function load(source, platform, options = {}) {
    const {reader, name, id, experts: from} = await openModel(source, {platform, http: {pauses: [1]}, ...options});
    try {
      await reader.keepRest();
      await checkRest(reader);
      const shards = await ExpertShards.open(from.experts, {name, ...from});
      return {shards, id, meter: reader.meter.progress};
    } finally {
      await reader.close({abort: true});
    }
  }

  test('all of it is kept, experts in one file, and read from there', async () => {
    const platform = opfs();
    const first = await load(url(), platform);
    assert.deepEqual([first.meter.loaded, first.meter.total], [manifest.bytes, manifest.bytes]);
    const n = server.requests.length;
    checkExperts(first.shards);
    first.shards.close();
    const folders = [...platform.root.items.get('tern-models').items.values()];
    const names = [...folders[0].items.keys()].filter((name) => !name.startsWith('chunk_')).sort();
    assert.deepEqual(names, ['experts.bin', 'manifest.json', 'meta.json']);
    const again = await load({stored: first.id}, platform);
    assert.equal(again.meter.stored, manifest.bytes);
    checkExperts(again.shards);
    assert.deepEqual(again.shards.counts, {stored: experts().length, fetched: 0, fetchedBytes: 0});
    assert.equal(server.requests.length, n, 'nothing is fetched again');
  });

  test('what was interrupted goes on where it was', async () => {
    const platform = opfs();
    const control = new AbortController();
    const [last] = experts().slice(-1);
    asked = (path) => path === `/p/${last.file}` && control.abort();
    await assert.rejects(load(url(), platform, {signal: control.signal}), code('CANCELLED', /cancelled/));
    asked = () => {};
    const {shards, meter} = await load(url(), platform);
    assert.ok(meter.stored > 0 && meter.stored < manifest.bytes, `${meter.stored} of ${manifest.bytes}`);
    checkExperts(shards);
  });

  test('a damaged one is named, and fetched where that can be done', async () => {
    const platform = opfs();
    const {shards, id} = await load(url(), platform);
    const stored = platform.root.items.get('tern-models').items.get(id).items.get('experts.bin');
    stored.bytes[1000] ^= 1;
    assert.throws(() => checkExperts(shards), code('CORRUPT', /stored copy of \S+: its SHA-256 is \w+, expected \w+/));
    shards.readNow = (name, into) => into.set(readFileSync(join(dir, name)));
    checkExperts(shards);
    assert.equal(shards.counts.fetched, 1);
    await shards.forgotten;
    shards.close();
    const next = await load(url(), platform);
    assert.ok(next.meter.stored < manifest.bytes, 'the damaged one is stored again');
    checkExperts(next.shards);
  });

  test('where nothing can be read without waiting', async () => {
    await assert.rejects(load(url(), undefined), code('NO_STORAGE', /private file system .* requests of a worker/));
    const full = opfs({quota: manifest.bytes / 2});
    await assert.rejects(load(url(), full), code('NO_STORAGE', /private file system/));
  });

  describe('from paths', {skip: missing('wasm/tern.wasm', 'wasm/tern-threads.wasm')}, () => {
    async function textOf(source, options = {}) {
      const tern = await Tern.load(source, {...cpu, ...options});
      const text = await tern.generate('abc', GREEDY).text();
      const cache = await tern.experts();
      await tern.dispose();
      return {text, cache, memory: tern.memory};
    }

    test('the text is that of the whole model, the counters add up', async () => {
      const whole = await textOf(file);
      assert.equal(whole.cache, null);
      const sizes = [{experts: 'all'}, {experts: 4}, {experts: '5'}, {experts: 7, threads: 2}, {}];
      for (const options of sizes) {
        const {text, cache, memory} = await textOf(dir, options);
        assert.equal(text, whole.text, JSON.stringify(options));
        const {misses, prefetched, evictions, hits, held, bytes, heldBytes} = cache;
        assert.equal(misses + prefetched, cache.fetched);
        assert.equal(cache.copiedBytes, cache.fetchedBytes);
        assert.ok(misses + prefetched - evictions <= held && hits > 0, JSON.stringify(cache));
        assert.equal(whole.memory.weights - memory.weights, bytes - heldBytes);
        if (!options.threads) assert.equal(held < cache.experts, Number(options.experts ?? NaN) < 8);
      }
    });

    test('of a file all is in memory, and a notice says so', async () => {
      const notices = [];
      const {cache} = await textOf(file, {experts: 4, onNotice: (notice) => notices.push(notice)});
      assert.deepEqual([cache, notices.length, notices[0].about], [null, 1, 'experts']);
      assert.match(notices[0].message, /m\.gguf is no package by expert/);
    });

    test('what is counted is what is declared', async () => {
      const {cache} = await textOf(dir, {experts: 4});
      const [, body] = /export interface ExpertCache \{\n([^]*?)\n\}/.exec(DECLARED);
      const declared = [...body.matchAll(/^ {2}(\w+):/gm)].map((each) => each[1]);
      assert.deepEqual(Object.keys(cache).sort(), declared.sort());
    });

    test('a missing, cut or other expert ends the step with its name, and the session goes on', async () => {
      const copy = join(folder, 'copy');
      cpSync(dir, copy, {recursive: true});
      const tern = await Tern.load(copy, {...cpu, experts: 4});
      const text = () => tern.generate('abc', GREEDY).text();
      const {text: expected} = await textOf(file);
      const away = join(folder, 'away');
      renameSync(copy, away);
      await assert.rejects(text(), code('NOT_FOUND', /expert \d of layer 0: \S+: \S+ cannot be read/));
      cpSync(away, copy, {recursive: true});
      for (const {file: name} of experts()) writeFileSync(join(copy, name), readFileSync(join(dir, name)).subarray(1));
      await assert.rejects(text(), code('CORRUPT', /expert \d of layer 0: \S+: \S+ has \d+ bytes, the manifest says/));
      for (const {file: name} of experts()) writeFileSync(join(copy, name), readFileSync(join(dir, name)).reverse());
      await assert.rejects(text(), code('CORRUPT', /expert \d of layer 0: .*its SHA-256 is/));
      for (const {file: name} of experts()) writeFileSync(join(copy, name), readFileSync(join(dir, name)));
      assert.equal(await text(), expected);
      await tern.dispose();
    });

    test('what is refused', async () => {
      const load = (source, options) => Tern.load(source, {...cpu, ...options});
      await assert.rejects(load(dir, {experts: 3}), code('INVALID_ARGUMENT', /a token takes 4 .*room for 4 /));
      await assert.rejects(load(dir, {experts: '9K'}), code('INVALID_ARGUMENT', /room for 4 of them at least/));
      const shown = /experts is "many", expected a number for each layer, bytes .* or "all"/;
      await assert.rejects(load(dir, {experts: 'many'}), code('INVALID_ARGUMENT', shown));
      await assert.rejects(load(url(), {experts: 4}), code('NO_STORAGE', /gpt-oss-tiny: its experts are read when/));
    });
  });
});
