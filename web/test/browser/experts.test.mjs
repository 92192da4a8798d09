/**
 * Packages by expert in Chromium, without the page: experts that are not all in memory come from OPFS, or by requests
 * of the worker, and the text is that of the whole model.
 */
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {existsSync, mkdtempSync, readFileSync, readdirSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {after, before, describe, test} from 'node:test';
import {TERN, launch, missing} from './browser.mjs';
import {libraryFiles, typed} from './library.mjs';
import {serve} from '../support/server.mjs';

const CORS = {'access-control-allow-origin': '*', 'cross-origin-resource-policy': 'cross-origin'};
const PACKAGE = '/p/manifest.json';
const native = process.env.TERN_WEB_REQUIRED || existsSync(TERN) ? false : `no ${TERN}`;

/** Runs in the page: loads, generates, gives what there is to know. */
async function loadThere({source, options = {}, input}) {
  const {Tern} = await import('/lib/index.js');
  const seen = {notices: []};
  const onNotice = (notice) => seen.notices.push(notice);
  const onProgress = ({loaded, total}) => Object.assign(seen, {loaded, total});
  try {
    const from = input ? [...document.getElementById(input).files] : source;
    const tern = await Tern.load(from, {backend: 'cpu', threads: 1, ...options, onNotice, onProgress});
    Object.assign(seen, {id: tern.storedAs, memory: tern.memory, backend: tern.backend, threads: tern.device.threads});
    globalThis.tern = tern;
    seen.text = await tern.generate('abc', {temperature: 0, maxTokens: 16}).text();
    seen.experts = await tern.experts();
  } catch (error) {
    Object.assign(seen, {code: error.code, message: error.message});
  }
  return seen;
}

/** Runs in the page: goes on with the Tern that is there. */
async function again(prompt) {
  try {
    return await globalThis.tern.generate(prompt, {temperature: 0, maxTokens: 16}).text();
  } catch (error) {
    return `${error.code}: ${error.message}`;
  }
}

/** Runs in the page: changes bytes of what is stored of all experts. */
async function damage(places) {
  const models = await (await navigator.storage.getDirectory()).getDirectoryHandle('tern-models');
  for await (const folder of models.values()) {
    const file = await folder.getFileHandle('experts.bin');
    const old = new Uint8Array(await (await file.getFile()).arrayBuffer());
    const stream = await file.createWritable({keepExistingData: true});
    for (const at of places) await stream.write({type: 'write', position: at, data: new Uint8Array([old[at] ^ 1])});
    await stream.close();
  }
}

describe('packages by expert in Chromium', {skip: missing() || native, timeout: 600000}, () => {
  let browser, site, models, folder, expected, shards;
  /** What the server of models does; a test may change it. */
  let behave = () => ({});

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'tern-'));
    const file = join(folder, 'm.gguf');
    const run = (...args) => execFileSync(TERN, args, {encoding: 'utf8'});
    run('synth', '--preset', 'mixtral-tiny', '--type', 'q8_0', '-o', file);
    run('package', file, '-o', join(folder, 'p'));
    const how = ['-p', 'abc', '-n', '16', '--greedy', '--json', '--quiet'];
    expected = JSON.parse(run('run', '-m', file, ...how)).text;
    const files = {};
    for (const name of readdirSync(join(folder, 'p'))) files[`/p/${name}`] = readFileSync(join(folder, 'p', name));
    shards = JSON.parse(files[PACKAGE].toString()).shards;
    browser = await launch({gpu: false});
    site = await serve(libraryFiles(), typed());
    models = await serve(files, (...args) => ({headers: CORS, ...behave(...args)}));
  });
  after(async () => {
    await browser?.close();
    await site?.close();
    await models?.close();
    rmSync(folder, {recursive: true});
  });

  async function open(context) {
    behave = () => ({});
    models.requests.length = 0;
    const page = await (context ?? (await browser.newContext())).newPage();
    await page.goto(`${site.url}/index.html`);
    return page;
  }

  const load = (page, options, source = `${models.url}${PACKAGE}`) => page.evaluate(loadThere, {source, options});
  const isExpert = (path) => shards.some(({file, type}) => type === 'expert' && path === `/p/${file}`);
  const fetched = () => models.requests.filter(({path}) => isExpert(path)).length;
  const nExperts = () => shards.filter(({type}) => type === 'expert').length;

  /** What is needed was there or was brought; what was brought came from somewhere, and is there or made way. */
  function addUp(cache) {
    assert.equal(cache.misses + cache.prefetched, cache.stored + cache.fetched);
    assert.equal(cache.copiedBytes, ((cache.stored + cache.fetched) * cache.bytes) / cache.experts);
    const there = cache.misses + cache.prefetched - cache.evictions;
    assert.ok(there > 0 && there <= cache.held, JSON.stringify(cache));
    assert.ok(cache.hits > 0, JSON.stringify(cache));
  }

  test('from OPFS, with every size of the room, with and without threads, also without the network', async () => {
    const page = await open();
    const first = await load(page, {experts: 2});
    assert.equal(first.text, expected, first.message);
    assert.deepEqual([first.loaded, first.notices], [first.total, []]);
    assert.equal(fetched(), nExperts(), 'each expert is fetched once, to be kept');
    const {held, heldBytes, bytes, experts, ...rest} = first.experts;
    assert.deepEqual([experts, held, heldBytes], [nExperts(), 4, (bytes * 4) / nExperts()]);
    addUp(first.experts);
    assert.deepEqual([rest.fetched, rest.evictions > 0], [0, true]);
    for (const options of [{experts: 3}, {experts: '1.5M'}, {experts: 'all'}, {}, {experts: 2, threads: 2}]) {
      await page.evaluate(() => globalThis.tern.dispose());
      const other = await load(page, options);
      assert.equal(other.text, expected, `${JSON.stringify(options)} ${other.message}`);
      assert.equal(other.threads, options.threads ?? 1);
      addUp(other.experts);
      assert.ok(other.experts.held >= held && other.experts.stored > 0, JSON.stringify(other.experts));
      if (!options.threads) assert.ok(other.memory.weights > first.memory.weights, 'a larger room takes more memory');
    }
    await page.evaluate(() => globalThis.tern.dispose());
    assert.equal(fetched(), nExperts(), 'nothing is fetched again');
    behave = () => ({status: 503});
    const offline = await load(page, {experts: 2}, {stored: first.id});
    assert.equal(offline.text, expected, offline.message);
    assert.equal(offline.experts.fetched, 0);
  });

  test('damaged experts are fetched, and stored again by the next load', async () => {
    const page = await open();
    const first = await load(page, {experts: 2});
    assert.equal(first.text, expected, first.message);
    await page.evaluate(() => globalThis.tern.dispose());
    const {bytes} = shards.find(({type}) => type === 'expert');
    await page.evaluate(damage, Array.from({length: nExperts()}, (_, i) => i * bytes + 1000));
    const source = {stored: first.id};
    const mended = await load(page, {experts: 'all'}, source);
    assert.equal(mended.text, expected, mended.message);
    const {fetched: n, stored} = mended.experts;
    assert.deepEqual([stored, fetched() - nExperts()], [0, n]);
    await page.evaluate(() => globalThis.tern.dispose());
    const other = await load(page, {experts: 'all'}, source);
    assert.equal(other.text, expected, other.message);
    assert.deepEqual([other.experts.fetched, fetched() - nExperts()], [0, 2 * n]);
  });

  test('an expert that cannot be had ends the step with its name, and the session goes on', async () => {
    const page = await open();
    behave = (request, {path}) => (isExpert(path) ? {status: 503} : {});
    const failed = await load(page, {experts: 2, store: false});
    assert.equal(failed.code, 'NETWORK', failed.message);
    assert.match(failed.message, /expert \d of layer \d: .*HTTP status 503, 200 expected/);
    behave = () => ({});
    assert.equal(await page.evaluate(again, 'abc'), expected);
  });

  test('without storing, by requests of the worker', async () => {
    const page = await open();
    const seen = await load(page, {experts: 2, store: false});
    assert.equal(seen.text, expected, seen.message);
    assert.equal(seen.id, null);
    addUp(seen.experts);
    assert.deepEqual([seen.experts.stored, seen.experts.fetched], [0, fetched()]);
    const other = Buffer.from(models.files[`/p/${shards.at(-1).file}`]);
    other[100] ^= 4;
    behave = (request, {path}) => (isExpert(path) ? {bytes: other} : {});
    assert.match(await page.evaluate(again, 'another'), /^CORRUPT: expert \d of layer \d: .*SHA-256 is \w+, expected/);
    behave = () => ({});
    assert.doesNotMatch(await page.evaluate(again, 'another'), /CORRUPT/);
  });

  test('picked files', async () => {
    const page = await open();
    await page.setContent('<input type=file multiple id=files>');
    await page.setInputFiles('#files', readdirSync(join(folder, 'p')).map((name) => join(folder, 'p', name)));
    const seen = await page.evaluate(loadThere, {input: 'files', options: {experts: 2}});
    assert.equal(seen.text, expected, seen.message);
    addUp(seen.experts);
  });

  test('two tabs read the same experts', async () => {
    const context = await browser.newContext();
    const [one, two] = [await open(context), await open(context)];
    assert.equal((await load(one, {experts: 2})).text, expected);
    const other = await load(two, {experts: 2});
    assert.equal(other.text, expected, other.message);
    assert.equal(other.experts.fetched, 0);
    assert.equal(await one.evaluate(again, 'abc'), expected);
  });
});
