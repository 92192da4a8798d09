/** GGUF files in parts: from servers, the hub, picked files, paths and OPFS; and what is said when parts are wrong. */
import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import {mkdtemp, rm, writeFile} from 'node:fs/promises';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {pathToFileURL} from 'node:url';
import {after, before, describe, test} from 'node:test';
import {Core} from '../lib/core.js';
import {chooseFile, parseHub} from '../lib/hub.js';
import {Tern} from '../lib/index.js';
import {openModel} from '../lib/open.js';
import {inOrder, partOf, partPaths, partUrls, wholeName} from '../lib/parts.js';
import {addressOf} from '../lib/source.js';
import {MODEL, missing} from './support/built.mjs';
import {opfs} from './support/opfs.mjs';
import {serve} from './support/server.mjs';
import {split} from './support/split.mjs';

const http = {pauses: [1], stallMs: 5000};

test('names of parts', () => {
  assert.deepEqual(partOf('a/m-Q8_0-00002-of-00003.gguf'), {stem: 'a/m-Q8_0', part: 2, count: 3, ending: '.gguf'});
  for (const none of ['m.gguf', 'm-00001-of-00001.gguf', 'm-00000-of-00002.gguf', 'm-00003-of-00002.gguf',
    '-00001-of-00002.gguf', 'm-0001-of-0002.gguf', 'm-00001-of-00002.gguf.txt'])
    assert.equal(partOf(none), null, none);
  assert.throws(() => partOf('m-00001-of-04097.gguf'), {code: 'LIMIT', message: /4097 parts, at most 4096/});
  assert.deepEqual(partPaths('m-00002-of-00002.GGUF'), ['m-00001-of-00002.GGUF', 'm-00002-of-00002.GGUF']);
  assert.deepEqual(partPaths('m.gguf'), ['m.gguf']);
  assert.deepEqual(partUrls('https://x/m%20n-00002-of-00002.gguf?a=1'), [
    'https://x/m%20n-00001-of-00002.gguf?a=1',
    'https://x/m%20n-00002-of-00002.gguf?a=1'
  ]);
  assert.equal(wholeName('m-00002-of-00002.gguf'), 'm.gguf');
  assert.equal(inOrder([{name: 'm.gguf'}]), null);
});

test('any part is the same model', () => {
  for (const part of ['00001', '00002']) {
    const {key, name} = addressOf(`https://x/d/m-${part}-of-00002.gguf`);
    assert.deepEqual([key, name], ['https://x/d/m-00001-of-00002.gguf', 'm.gguf']);
    const hub = addressOf(`hf:a/b/d/m-${part}-of-00002.gguf@v1`);
    assert.deepEqual([hub.key, hub.name], ['hf:a/b/d/m-00001-of-00002.gguf@v1', 'm.gguf']);
  }
});

test('of the hub a file in parts is one, if all are there', () => {
  const name = {...parseHub('hf:a/b')};
  const files = ['m-Q4_0-00001-of-00002.gguf', 'm-Q4_0-00002-of-00002.gguf', 'm-Q8_0.gguf'];
  assert.equal(chooseFile(files, name), files[0]);
  assert.equal(chooseFile(files, {...name, tag: 'q4_0'}), files[0]);
  assert.throws(() => chooseFile([files[0], files[2]], name), {
    code: 'NOT_FOUND',
    message: 'm-Q4_0-00002-of-00002.gguf: part 2 of 2 is not there'
  });
});

describe('a model in three parts', {skip: missing('wasm/tern.wasm')}, () => {
  let parts, files, server, folder;
  /** What the server does with a request, by its path. */
  let instead = {};

  before(async () => {
    parts = split(readFileSync(MODEL), 3);
    files = Object.fromEntries(parts.map(({name, bytes}) => [`/p/${name}`, bytes]));
    for (const {name, bytes} of parts) files[`/org/m/resolve/main/${name}`] = bytes;
    const siblings = parts.map(({name}) => ({rfilename: name}));
    files['/api/models/org/m/revision/main'] = Buffer.from(JSON.stringify({siblings}));
    server = await serve(files, (request, {path}) => instead[path] ?? {headers: {etag: `"${path}"`}});
    process.env.HF_ENDPOINT = server.url;
    folder = await mkdtemp(join(tmpdir(), 'tern-'));
    for (const {name, bytes} of parts) await writeFile(join(folder, name), bytes);
  });
  after(async () => {
    delete process.env.HF_ENDPOINT;
    await server?.close();
    await rm(folder, {recursive: true});
  });

  const picked = () => parts.map(({name, bytes}) => new File([bytes], name, {lastModified: 1}));

  async function textOf(source) {
    const tern = await Tern.load(source, {backend: 'cpu', threads: 1});
    try {
      return await tern.generate('Once upon a time', {temperature: 0, maxTokens: 16}).text();
    } finally {
      await tern.dispose();
    }
  }

  /** As the host does, with a store. */
  async function loadWith(platform, source, options = {}) {
    const progress = [];
    const notices = [];
    const opened = await openModel(source, {
      platform,
      http,
      onProgress: (each) => progress.push(each),
      onNotice: (each) => notices.push(each),
      ...options
    });
    const core = await Core.create();
    try {
      const engine = await core.load(opened.reader, {signal: options.signal});
      engine.dispose();
      await opened.reader.close();
    } catch (error) {
      await opened.reader.close({abort: true});
      throw error;
    } finally {
      core.dispose();
    }
    return {id: opened.id, name: opened.name, notices, progress: progress.at(-1)};
  }

  async function refused(source, code, message) {
    await assert.rejects(textOf(source), (error) => {
      assert.equal(error.code, code, error.message);
      assert.match(error.message, message);
      return true;
    });
  }

  async function refusedWith(path, how, code, message) {
    instead = {[path]: how};
    try {
      await refused(`${server.url}/p/${parts[0].name}`, code, message);
    } finally {
      instead = {};
    }
  }

  test('any part, by address, by name, picked, as a path, gives the text of the whole file', async () => {
    const whole = await textOf(MODEL);
    const [first, second, third] = parts.map(({name}) => name);
    for (const source of [
      `${server.url}/p/${first}`,
      `${server.url}/p/${third}`,
      'hf:org/m',
      `hf:org/m/${second}`,
      picked().reverse(),
      join(folder, second),
      pathToFileURL(join(folder, third))
    ])
      assert.equal(await textOf(source), whole, String(source));
  });

  test('from OPFS, whichever part was asked for; all bytes are counted once', async () => {
    const platform = opfs();
    const size = parts.reduce((sum, {bytes}) => sum + bytes.length, 0);
    const source = (i) => `${server.url}/p/${parts[i].name}`;
    const first = await loadWith(platform, source(1), {chunkBytes: 100000});
    assert.deepEqual([first.progress.loaded, first.progress.total, first.progress.stored], [size, size, 0]);
    const asked = server.requests.length;
    const again = await loadWith(platform, source(2), {chunkBytes: 100000});
    assert.deepEqual([again.id, again.name, again.progress.stored, again.notices], [first.id, 'm.gguf', size, []]);
    const ranges = server.requests.slice(asked).map(({range}) => range);
    assert.deepEqual(ranges, ['bytes=0-0', 'bytes=0-0', 'bytes=0-0'], 'only sizes and versions are asked for');
    assert.equal((await loadWith(platform, {stored: first.id})).progress.stored, size);
    const one = await loadWith(platform, picked(), {store: true});
    assert.equal((await loadWith(platform, {stored: one.id})).name, 'm.gguf');
  });

  test('a part that changes on the server is fetched anew with the others', async () => {
    const platform = opfs();
    const source = `${server.url}/p/${parts[0].name}`;
    await loadWith(platform, source);
    instead = {[`/p/${parts[1].name}`]: {headers: {etag: '"new"'}}};
    const {notices} = await loadWith(platform, source);
    instead = {};
    assert.equal(notices[0].code, 'CHANGED');
    assert.match(notices[0].message, /etag of part 2 "new", stored "/);
  });

  test('a part that is missing is named', async () => {
    const [first, second] = parts.map(({name}) => name);
    const gone = /part 2 of the model's 3: .*m-00002-of-00003\.gguf: HTTP status 404/;
    await refusedWith(`/p/${second}`, {status: 404}, 'NETWORK', gone);
    const missed = /^m-00003-of-00003\.gguf, part 3 of the model's 3, is missing: it is not among the 2 files picked/;
    await refused(picked().slice(0, 2), 'NOT_FOUND', missed);
    await refused(picked()[1], 'NOT_FOUND', /m-00001-of-00003\.gguf, part 1 .* is missing: pick all parts together/);
    const notes = [...picked(), new File(['x'], 'notes.txt')];
    await refused(notes, 'INVALID_ARGUMENT', /^notes\.txt is no part of the same model as m-00001/);
    await rm(join(folder, second));
    const closed = /^part 2 of the model's 3: .*m-00002-of-00003\.gguf cannot be opened/;
    await refused(join(folder, first), 'NOT_FOUND', closed);
    await writeFile(join(folder, second), parts[1].bytes);
  });

  test('a part that is cut short, of another model, or in another place is named', async () => {
    const path = `/p/${parts[1].name}`;
    const named = (text) => new RegExp(`^m-00002-of-00003\\.gguf: part 2 of 3: ${text}`);
    const {bytes} = parts[1];
    const short = bytes.subarray(0, bytes.length - 5000);
    await refusedWith(path, {bytes: short}, 'MALFORMED', named('blk\\..* are outside the file'));
    await refusedWith(path, {bytes: bytes.subarray(0, 100)}, 'MALFORMED', named('header: .* do not fit'));
    await refusedWith(path, {bytes: parts[2].bytes}, 'MALFORMED', named('split\\.no 2 found, 1 expected'));
    const four = split(readFileSync(MODEL), 4);
    await refusedWith(path, {bytes: four[1].bytes}, 'MALFORMED', named('split\\.count 4 found, 3 expected'));
    await refusedWith(path, {bytes: Buffer.from('no GGUF'.repeat(99))}, 'MALFORMED', named('.*'));
  });

  test('names that say another number of parts than the files', async () => {
    const two = split(readFileSync(MODEL), 2).map((part) => part.bytes);
    const files = [...two, parts[2].bytes].map((bytes, i) => new File([bytes], `n-0000${i + 1}-of-00003.gguf`));
    await refused(files, 'INVALID_ARGUMENT', /^n\.gguf: 3 of its parts found, all 2 expected/);
  });

  test('a part alone under another name says that all are needed', async () => {
    await refused(new File([parts[0].bytes], 'm.gguf'), 'UNSUPPORTED', /m\.gguf: only part 1 of 3 found, all parts/);
  });

  test('cancelling while parts are fetched ends all of them', async () => {
    const control = new AbortController();
    instead = {[`/p/${parts[2].name}`]: {stall: 5000, headers: {etag: `"/p/${parts[2].name}"`}}};
    const platform = opfs();
    const source = `${server.url}/p/${parts[0].name}`;
    const loading = loadWith(platform, source, {signal: control.signal, chunkBytes: 100000});
    setTimeout(() => control.abort(), 300);
    await assert.rejects(loading, {code: 'CANCELLED'});
    instead = {};
    assert.equal((await loadWith(platform, source, {chunkBytes: 100000})).notices.length, 0);
  });
});
