/** Models in OPFS, over a double of it in memory: resuming, verifying, quota, two tabs, deleting. */
import assert from 'node:assert/strict';
import {after, test} from 'node:test';
import {ModelStore, idOf} from '../lib/cache.js';
import {openModel} from '../lib/open.js';
import {opfs} from './support/opfs.mjs';
import {pattern, serve} from './support/server.mjs';

/** Of a test. */
const CHUNK_BYTES = 4 << 20;
const big = pattern(CHUNK_BYTES * 2 + 12345, 7);
const http = {pauses: [1], stallMs: 5000};
const servers = [];
after(() => Promise.all(servers.map((server) => server.close())));

async function served(files, behave) {
  const server = await serve(files, behave);
  servers.push(server);
  return server;
}

async function load(source, platform, options = {}) {
  const notices = [];
  const {reader, id} = await openModel(source, {
    platform,
    http,
    chunkBytes: CHUNK_BYTES,
    onNotice: (notice) => notices.push(notice),
    ...options
  });
  try {
    for (let at = 0; at < reader.size; at += 1 << 20) {
      const n = Math.min(1 << 20, reader.size - at);
      const found = await reader.read(at, n);
      assert.ok(
        Buffer.from(found.buffer, found.byteOffset, n).equals(Buffer.from(big.buffer, at, n)),
        `other bytes from ${at}`
      );
    }
    return {id, notices, progress: reader.meter.progress};
  } finally {
    await reader.close();
  }
}

const bodies = (server) =>
  server.requests.filter((request) => request.range !== 'bytes=0-0').map((request) => request.range);
const stored = async (platform) => (await ModelStore.open(platform)).list();

test('the second load reads what the first one stored', async () => {
  const platform = opfs();
  const server = await served({'/big.gguf': big}, () => ({headers: {etag: '"1"'}}));
  const first = await load(`${server.url}/big.gguf`, platform);
  assert.equal(first.progress.stored, 0);
  assert.equal(bodies(server).length, 3);
  const second = await load(`${server.url}/big.gguf`, platform);
  assert.deepEqual(
    [second.progress.loaded, second.progress.stored, second.progress.phase],
    [big.length, big.length, 'read']
  );
  assert.equal(bodies(server).length, 3, 'nothing is fetched again');
  const [model] = await stored(platform);
  assert.deepEqual(
    {...model, usedAt: 0},
    {
      id: first.id,
      name: 'big.gguf',
      source: `${server.url}/big.gguf`,
      bytes: big.length,
      complete: true,
      stored: big.length,
      usedAt: 0
    }
  );
  assert.match(first.id, /^big-[0-9a-f]{12}$/);
  assert.equal((await load({stored: first.id}, platform)).progress.stored, big.length);
  assert.deepEqual([first.notices, second.notices], [[], []]);
});

test('without the network the stored copy does, and says so', async () => {
  const platform = opfs();
  const server = await served({'/big.gguf': big});
  await load(`${server.url}/big.gguf`, platform);
  await server.close();
  const {notices, progress} = await load(`${server.url}/big.gguf`, platform);
  assert.equal(progress.stored, big.length);
  assert.equal(notices.length, 1);
  assert.match(notices[0].message, /no answer .*\(1 attempt\); the stored copy is used/);
});

test('pausing keeps the start of a chunk, and loading goes on there', async () => {
  const platform = opfs();
  let stop = true;
  const server = await served({'/big.gguf': big}, (request) =>
    stop && request.headers.range?.startsWith(`bytes=${CHUNK_BYTES}-`) ? {stall: 1 << 20} : {}
  );
  const controller = new AbortController();
  const {signal} = controller;
  const {reader} = await openModel(`${server.url}/big.gguf`, {platform, http, chunkBytes: CHUNK_BYTES, signal});
  await reader.read(0, 10);
  const paused = reader.read(CHUNK_BYTES, 10);
  while (reader.meter.progress.loaded < CHUNK_BYTES + (1 << 20)) await new Promise(setImmediate);
  controller.abort();
  await assert.rejects(paused, {code: 'CANCELLED'});
  await reader.close();
  const [model] = await stored(platform);
  const kept = big.length - CHUNK_BYTES + (1 << 20);
  assert.deepEqual([model.complete, model.stored], [false, kept], 'the last chunk came meanwhile');
  stop = false;
  const before = bodies(server).length;
  const {progress} = await load(`${server.url}/big.gguf`, platform);
  assert.equal(progress.stored, kept);
  assert.deepEqual(bodies(server).slice(before), [`bytes=${CHUNK_BYTES + (1 << 20)}-${2 * CHUNK_BYTES - 1}`]);
  assert.equal((await stored(platform))[0].complete, true);
});

test('pausing keeps the start of every chunk that was under way', async () => {
  const platform = opfs();
  const sizes = [1 << 20, 2 << 20, 12345];
  let stop = true;
  const server = await served({'/big.gguf': big}, (request) => {
    const at = Number(/bytes=(\d+)-(?!0$)/.exec(request.headers.range)?.[1]) / CHUNK_BYTES;
    return stop && at < 2 ? {stall: sizes[at]} : {};
  });
  const controller = new AbortController();
  const {signal} = controller;
  const {reader} = await openModel(`${server.url}/big.gguf`, {platform, http, chunkBytes: CHUNK_BYTES, signal});
  const paused = reader.read(0, 10);
  const there = sizes.reduce((sum, bytes) => sum + bytes);
  while (reader.meter.progress.loaded < there) await new Promise(setImmediate);
  controller.abort();
  await assert.rejects(paused, {code: 'CANCELLED'});
  await reader.close();
  stop = false;
  const {progress} = await load(`${server.url}/big.gguf`, platform);
  assert.equal(progress.stored, there);
  assert.equal((await stored(platform))[0].complete, true);
});

test('a model that was stored in chunks of another size is read on', async () => {
  const platform = opfs();
  const server = await served({'/big.gguf': big}, () => ({headers: {etag: '"1"'}}));
  await load(`${server.url}/big.gguf`, platform, {chunkBytes: 3 << 20});
  const {progress, notices} = await load(`${server.url}/big.gguf`, platform);
  assert.deepEqual([progress.stored, notices], [big.length, []]);
});

test('a meta.json of before, with the start of one chunk or none, is read', async () => {
  const platform = opfs();
  const server = await served({'/big.gguf': big});
  const {id} = await load(`${server.url}/big.gguf`, platform);
  const folder = await (await platform.root.getDirectoryHandle('tern-models')).getDirectoryHandle(id);
  const file = await folder.getFileHandle('meta.json');
  const meta = JSON.parse(new TextDecoder().decode(file.bytes));
  for (const partial of [null, {index: 1, bytes: 5, sha256: 'x'}]) {
    file.bytes = new TextEncoder().encode(JSON.stringify({...meta, partial}));
    assert.equal((await load(`${server.url}/big.gguf`, platform)).progress.stored, big.length);
  }
});

test('a partial chunk that was damaged is fetched whole', async () => {
  const platform = opfs();
  const server = await served({'/big.gguf': big}, (request) =>
    request.headers.range === 'bytes=0-0'
      ? {}
      : request.headers.range.startsWith('bytes=0-')
        ? {cut: 1 << 20}
        : {status: 404}
  );
  await assert.rejects(load(`${server.url}/big.gguf`, platform), {code: 'NETWORK'});
  const id = await idOf('big.gguf', `${server.url}/big.gguf`);
  const folder = await (await platform.root.getDirectoryHandle('tern-models')).getDirectoryHandle(id);
  const chunk = await folder.getFileHandle('chunk_000.bin');
  assert.ok(chunk.bytes.length >= 1 << 20);
  chunk.bytes[77] ^= 1;
  const good = await served({'/big.gguf': big});
  const {progress} = await load(`${server.url}/big.gguf`, platform, {
    http: {...http, fetch: (url, init) => fetch(url.replace(server.url, good.url), init)}
  });
  assert.equal(progress.stored, 0);
});

test('a damaged chunk is CORRUPT, and fetched again by the next load', async () => {
  const platform = opfs();
  const server = await served({'/big.gguf': big});
  const {id} = await load(`${server.url}/big.gguf`, platform);
  const folder = await (await platform.root.getDirectoryHandle('tern-models')).getDirectoryHandle(id);
  for (const damage of [
    (bytes) => {
      bytes[1000] ^= 4;
      return bytes;
    },
    (bytes) => bytes.slice(0, 99),
    () => new Uint8Array(0)
  ]) {
    const chunk = await folder.getFileHandle('chunk_001.bin');
    chunk.bytes = damage(chunk.bytes);
    await assert.rejects(load(`${server.url}/big.gguf`, platform), {
      code: 'CORRUPT',
      message: /chunk 1 of 3 of the stored model big-.* is damaged: (its SHA-256 is|it has 99 bytes|it has 0 bytes)/
    });
    const {progress} = await load(`${server.url}/big.gguf`, platform);
    assert.equal(progress.stored, big.length - CHUNK_BYTES);
  }
  await folder.removeEntry('chunk_002.bin');
  await assert.rejects(load({stored: id}, platform), {code: 'CORRUPT', message: /chunk 2 of 3 .*cannot be read/});
  assert.equal((await load({stored: id}, platform)).progress.stored, CHUNK_BYTES * 2);
});

test('a file that has changed is fetched anew, and it is said', async () => {
  const platform = opfs();
  let etag = '"1"';
  const server = await served({'/big.gguf': big}, () => ({headers: {etag}}));
  await load(`${server.url}/big.gguf`, platform);
  etag = '"2"';
  const {notices, progress} = await load(`${server.url}/big.gguf`, platform);
  assert.equal(progress.stored, 0);
  assert.deepEqual(
    notices.map(({code}) => code),
    ['CHANGED']
  );
  assert.match(notices[0].message, /etag "2", stored "1".*fetched anew/);
  assert.equal((await stored(platform)).length, 1);
});

test('no room: said with the numbers, loaded all the same', async () => {
  const server = await served({'/big.gguf': big});
  const none = await load(`${server.url}/big.gguf`, opfs({quota: 1e6}));
  assert.deepEqual(
    none.notices.map(({code}) => code),
    ['NO_STORAGE']
  );
  assert.match(
    none.notices[0].message,
    new RegExp(`big.gguf cannot be stored: it has ${big.length} bytes, and 1000000 are left`)
  );
  const platform = opfs({quota: big.length + 1000});
  const {storage} = platform;
  platform.storage = {...storage, estimate: async () => ({usage: 0, quota: 1e9})};
  platform.disk.quota = CHUNK_BYTES + 5000;
  const half = await load(`${server.url}/big.gguf`, platform);
  assert.equal(half.notices.length, 1);
  assert.match(half.notices[0].message, /the quota is reached \(\d+ bytes to write of \d+ in all, .*without storing/);
  assert.equal(half.progress.loaded, big.length);
});

test('no OPFS: silent by default, said where storing was asked for, an error for the storage itself', async () => {
  const platform = {storage: {}, locks: undefined};
  const server = await served({'/big.gguf': big});
  assert.deepEqual((await load(`${server.url}/big.gguf`, platform)).notices, []);
  const {notices} = await load(`${server.url}/big.gguf`, platform, {store: true});
  assert.deepEqual(
    notices.map(({code}) => code),
    ['NO_STORAGE']
  );
  await assert.rejects(ModelStore.open(platform), {
    code: 'NO_STORAGE',
    message: /there is no private file system here/
  });
  const refusing = {
    storage: {
      getDirectory: async () => {
        throw new DOMException('not here', 'SecurityError');
      }
    }
  };
  assert.match(
    (await load(`${server.url}/big.gguf`, refusing)).notices[0].message,
    /refuses its private file system \(SecurityError: not here\)/
  );
});

test('picked files are stored only when asked', async () => {
  const platform = opfs();
  const file = new File([big], 'picked.gguf', {lastModified: 5});
  await load(file, platform);
  assert.equal((await stored(platform)).length, 0);
  const {id} = await load(file, platform, {store: true});
  assert.equal((await load({stored: id}, platform)).progress.stored, big.length);
});

test('store: false leaves nothing', async () => {
  const platform = opfs();
  const server = await served({'/big.gguf': big});
  assert.equal((await load(`${server.url}/big.gguf`, platform, {store: false})).id, null);
  assert.equal(platform.root.items.size, 0);
});

test('two tabs: the second waits, says so, and reads what the first one stored', async () => {
  const platform = opfs();
  let go;
  const hold = new Promise((resolve) => {
    go = resolve;
  });
  const server = await served({'/big.gguf': big}, (request) => (request.headers.range === 'bytes=0-0' ? {} : {hold}));
  const first = load(`${server.url}/big.gguf`, platform);
  while (bodies(server).length === 0) await new Promise(setImmediate);
  const waiting = [];
  const second = load(`${server.url}/big.gguf`, platform, {
    onNotice: (notice) => {
      waiting.push(notice);
      go();
    }
  });
  assert.equal((await first).progress.stored, 0);
  assert.equal((await second).progress.stored, big.length);
  assert.deepEqual(
    waiting.map(({code}) => code),
    ['BUSY']
  );
});

test('waiting for another tab can be cancelled', async () => {
  const platform = opfs();
  const server = await served({'/big.gguf': big});
  const {reader} = await openModel(`${server.url}/big.gguf`, {platform, http, chunkBytes: CHUNK_BYTES});
  const controller = new AbortController();
  const second = load(`${server.url}/big.gguf`, platform, {
    signal: controller.signal,
    onNotice: () => controller.abort()
  });
  await assert.rejects(second, {code: 'CANCELLED', message: /waiting for the stored model big-/});
  await reader.close();
});

test('deleting: what is there, what is not, what is in use', async () => {
  const platform = opfs();
  const server = await served({'/big.gguf': big});
  const {id} = await load(`${server.url}/big.gguf`, platform);
  const store = await ModelStore.open(platform);
  assert.ok((await store.estimate()).usage > big.length);
  await assert.rejects(store.delete('none'), {
    code: 'NOT_FOUND',
    message: `there is no stored model "none"; stored are: ${id}`
  });
  await assert.rejects(store.delete(/** @type {any} */ (undefined)), {code: 'NOT_FOUND'});
  const {reader} = await openModel({stored: id}, {platform});
  await assert.rejects(store.delete(id), {code: 'IO', message: /is being loaded/});
  await reader.close();
  await store.delete(id);
  assert.deepEqual(await store.list(), []);
  await assert.rejects(load({stored: id}, platform), {code: 'NOT_FOUND', message: /stored are: none/});
});

test('what turned out to be no model is let go of', async () => {
  const platform = opfs();
  const server = await served({'/big.gguf': big});
  const {reader} = await openModel(`${server.url}/big.gguf`, {platform, http, chunkBytes: CHUNK_BYTES});
  await reader.read(0, 100);
  await reader.close({discard: true});
  assert.deepEqual(await stored(platform), []);
});

test('a meta.json that was cut off: listed, deleted, loaded anew', async () => {
  const platform = opfs();
  const server = await served({'/big.gguf': big});
  const {id} = await load(`${server.url}/big.gguf`, platform);
  const folder = await (await platform.root.getDirectoryHandle('tern-models')).getDirectoryHandle(id);
  const meta = await folder.getFileHandle('meta.json');
  meta.bytes = meta.bytes.slice(0, 40);
  const [model] = await stored(platform);
  assert.deepEqual([model.id, model.complete, model.stored], [id, false, big.length]);
  await assert.rejects(load({stored: id}, platform), {code: 'NOT_FOUND', message: /no readable meta\.json/});
  assert.equal((await load(`${server.url}/big.gguf`, platform)).progress.stored, 0);
  assert.equal((await stored(platform))[0].complete, true);
});

test('outside of a worker, and where another tab has the file open, streams do', async () => {
  const platform = opfs();
  const server = await served({'/big.gguf': big});
  const {id} = await load(`${server.url}/big.gguf`, platform);
  const folder = await (await platform.root.getDirectoryHandle('tern-models')).getDirectoryHandle(id);
  const chunk = await folder.getFileHandle('chunk_001.bin');
  chunk.open = true;
  assert.equal((await load({stored: id}, platform)).progress.stored, big.length);
  chunk.bytes[9] ^= 1;
  await assert.rejects(load({stored: id}, platform), {code: 'CORRUPT'});
  const proto = Object.getPrototypeOf(chunk);
  const {createSyncAccessHandle} = proto;
  proto.createSyncAccessHandle = undefined;
  try {
    assert.equal((await load(`${server.url}/big.gguf`, platform)).progress.stored, big.length - CHUNK_BYTES);
    assert.equal((await load({stored: id}, platform)).progress.stored, big.length);
  } finally {
    proto.createSyncAccessHandle = createSyncAccessHandle;
  }
});

test('a browser that cannot move files keeps meta.json all the same', async () => {
  const platform = opfs();
  const proto = Object.getPrototypeOf(await platform.root.getFileHandle('x', {create: true}));
  const {move} = proto;
  proto.move = async () => {
    throw new DOMException('no', 'InvalidModificationError');
  };
  try {
    const server = await served({'/big.gguf': big});
    const {id} = await load(`${server.url}/big.gguf`, platform);
    assert.equal((await load({stored: id}, platform)).progress.stored, big.length);
  } finally {
    proto.move = move;
  }
});
