/** Where bytes come from: servers of every kind, packages, files, and what is said when they misbehave. */
import assert from 'node:assert/strict';
import {createHash} from 'node:crypto';
import {mkdtemp, rm, writeFile} from 'node:fs/promises';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {pathToFileURL} from 'node:url';
import {after, test} from 'node:test';
import {HttpFile} from '../lib/http.js';
import {openModel} from '../lib/open.js';
import {ChunkReader} from '../lib/reader.js';
import {CHUNK_BYTES, WEB_LANES, addressOf, openSource} from '../lib/source.js';
import {sha256, sha256Plain} from '../lib/sha256.js';
import {pattern, serve} from './support/server.mjs';

const quick = {pauses: [1, 1, 1], stallMs: 2000};
const sum = (bytes) => createHash('sha256').update(bytes).digest('hex');
const servers = [];
after(() => Promise.all(servers.map((server) => server.close())));

async function served(files, behave) {
  const server = await serve(files, behave);
  servers.push(server);
  return server;
}

/** All bytes of a source, read as the core reads: in pieces. */
async function readAll(source, options = {}, piece = 1 << 20) {
  const {reader} = await openModel(source, {http: quick, ...options});
  try {
    const out = new Uint8Array(reader.size);
    for (let at = 0; at < reader.size; at += piece)
      out.set(await reader.read(at, Math.min(piece, reader.size - at)), at);
    return out;
  } finally {
    await reader.close();
  }
}

const same = (found, expected) => assert.ok(Buffer.from(found).equals(Buffer.from(expected)), 'other bytes');

/** Three shards and their manifest. */
function packageOf(bytes, cuts) {
  const shards = cuts.map((from, i) => {
    const part = bytes.subarray(from, cuts[i + 1] ?? bytes.length);
    return {file: `shard_00${i}.bin`, bytes: part.length, sha256: sum(part), part};
  });
  const manifest = {name: 'three', shards: shards.map(({part, ...rest}) => rest)};
  const files = {'/p/manifest.json': new TextEncoder().encode(JSON.stringify(manifest))};
  for (const shard of shards) files[`/p/${shard.file}`] = shard.part;
  return {manifest, files};
}

const small = pattern(100000);
const big = pattern(CHUNK_BYTES * 2 + 12345, 7);

test('SHA-256 in JavaScript gives what others give', async () => {
  for (const n of [0, 1, 55, 56, 63, 64, 65, 119, 120, 1000, 65537]) {
    const bytes = pattern(n + 3, n + 1).subarray(3);
    assert.equal(sha256Plain(bytes), sum(bytes), `${n} bytes`);
    assert.equal(await sha256(bytes), sum(bytes));
  }
});

test('a server with ranges: a request for each chunk', async () => {
  const {url, requests} = await served({'/m.gguf': big}, () => ({headers: {etag: '"1"'}}));
  same(await readAll(`${url}/m.gguf`), big);
  assert.deepEqual(
    new Set(requests.map((r) => r.range)),
    new Set([
      'bytes=0-0',
      `bytes=0-${CHUNK_BYTES - 1}`,
      `bytes=${CHUNK_BYTES}-${2 * CHUNK_BYTES - 1}`,
      `bytes=${2 * CHUNK_BYTES}-${big.length - 1}`
    ])
  );
  assert.equal(requests.length, 4);
});

test('chunks come at once, and are read in their order', async () => {
  const chunkBytes = 1000;
  const waiting = [];
  const {url, requests} = await served({'/m.gguf': small}, (request) => {
    if (request.headers.range === 'bytes=0-0') return {};
    return {hold: new Promise((resolve) => waiting.push(resolve))};
  });
  const seen = [];
  const onProgress = ({loaded}) => seen.push(loaded);
  const {reader} = await openModel(`${url}/m.gguf`, {http: quick, chunkBytes, onProgress});
  const reading = reader.read(0, 10);
  while (waiting.length < WEB_LANES) await new Promise(setImmediate);
  assert.equal(requests.length, 1 + WEB_LANES, 'no more than that at once');
  waiting.reverse().forEach((go) => go());
  same(await reading, small.subarray(0, 10));
  waiting.push = (go) => go();
  for (let at = 10; at < small.length; at += 990) {
    const n = Math.min(990, small.length - at);
    same(await reader.read(at, n), small.subarray(at, at + n));
  }
  await reader.close();
  assert.deepEqual(seen, [...seen].sort((a, b) => a - b));
  assert.equal(seen.at(-1), small.length);
  assert.equal(requests.length, 1 + small.length / chunkBytes, 'each of them once');
});

test('a chunk that fails is an error where it is read, not before', async () => {
  const chunkBytes = 10000;
  const {url} = await served({'/m.gguf': small}, (request) =>
    request.headers.range === 'bytes=20000-29999' ? {status: 410} : {}
  );
  const {reader} = await openModel(`${url}/m.gguf`, {http: quick, chunkBytes});
  same(await reader.read(0, 10000), small.subarray(0, 10000));
  same(await reader.read(10000, 10000), small.subarray(10000, 20000));
  await assert.rejects(reader.read(20000, 1), {code: 'NETWORK', message: /HTTP status 410/});
  await reader.close({abort: true});
});

test('closing with abort does not wait for what is under way', async () => {
  const {url} = await served({'/m.gguf': small}, (request) =>
    request.headers.range === 'bytes=0-9999' || request.headers.range === 'bytes=0-0' ? {} : {stall: 10}
  );
  const {reader} = await openModel(`${url}/m.gguf`, {http: {pauses: [], stallMs: 1e6}, chunkBytes: 10000});
  await reader.read(0, 10);
  await reader.close({abort: true});
  await assert.rejects(reader.read(0, 10), {code: 'CANCELLED'});
});

test('what is in memory at once is bounded', async () => {
  const file = (bytes) => ({index: 0, name: 'x', offset: 0, bytes, sha256: null, read: async () => {}});
  const slots = (bytes, lanes) => new ChunkReader([file(bytes)], {lanes}).slots.length;
  assert.deepEqual([slots(CHUNK_BYTES, 4), slots(CHUNK_BYTES, 1)], [5, 2]);
  assert.deepEqual([slots(64 << 20, 4), slots(16 << 20, 4)], [2, 4]);
});

test('a server without ranges: one answer, read through', async () => {
  const {url, requests} = await served({'/m.gguf': big}, () => ({ranges: false}));
  same(await readAll(`${url}/m.gguf`), big);
  assert.equal(requests.length, 1);
});

test('a server that does not say how long the file is', async () => {
  const {url} = await served({'/m.gguf': small}, () => ({ranges: false, chunked: true}));
  same(await readAll(`${url}/m.gguf`), small);
});

test('a server that hides Content-Range: its HEAD says the size', async () => {
  const {url} = await served({'/m.gguf': small});
  const hiding = async (...args) => {
    const response = await fetch(...args);
    const headers = new Headers(response.headers);
    headers.delete('content-range');
    return new Response(args[1].method === 'HEAD' ? null : response.body, {status: response.status, headers});
  };
  same(await readAll(`${url}/m.gguf`, {http: {...quick, fetch: hiding}}), small);
});

test('a connection that breaks is taken up where it broke', async () => {
  for (const ranges of [true, false]) {
    let cuts = 3;
    const {url, requests} = await served({'/m.gguf': small}, (request) => ({
      ranges,
      ...((request.headers.range !== 'bytes=0-0' || !ranges) && cuts-- > 0 ? {cut: 30000} : {})
    }));
    same(await readAll(`${url}/m.gguf`), small);
    assert.ok(requests.length >= 4, `${requests.length} requests`);
  }
});

test('a connection that always breaks is NETWORK, with what was read and expected', async () => {
  const {url} = await served({'/m.gguf': small}, (request) =>
    request.headers.range === 'bytes=0-0' ? {} : {cut: 1000}
  );
  await assert.rejects(readAll(`${url}/m.gguf`), (error) => {
    assert.equal(error.code, 'NETWORK');
    assert.match(
      error.message,
      /m\.gguf: the connection broke after 4000 bytes .*; 4000 of 100000 bytes were read \(4 attempts\)/
    );
    return true;
  });
});

test('an answer that ends early without a sign is noticed', async () => {
  const fetch = async (url, {headers}) => {
    const [, from, to] = /(\d+)-(\d+)/.exec(headers.Range).map(Number);
    const body = small.slice(from, Math.min(to + 1, 5000));
    return new Response(body, {status: 206, headers: {'content-range': `bytes ${from}-${to}/100000`}});
  };
  await assert.rejects(readAll('http://x/m.gguf', {http: {...quick, fetch}}), {
    code: 'NETWORK',
    message: /ended after 5000 bytes; 5000 of 100000/
  });
});

test('HTTP errors: 404 at once, 503 after attempts, no server', async () => {
  const {url, requests} = await served({}, (request, {path}) => (path === '/busy' ? {status: 503} : {}));
  await assert.rejects(readAll(`${url}/gone.gguf`), {
    code: 'NETWORK',
    message: /gone\.gguf: HTTP status 404 Not Found, expected 200 or 206/
  });
  assert.equal(requests.length, 1);
  await assert.rejects(readAll(`${url}/busy`), {code: 'NETWORK', message: /HTTP status 503 .*\(4 attempts\)/});
  await assert.rejects(readAll('http://127.0.0.1:1/m.gguf'), {
    code: 'NETWORK',
    message: /no answer \(.+\).*4 attempts/
  });
});

test('a busy server that recovers', async () => {
  let busy = 2;
  const {url} = await served({'/m.gguf': small}, () => (busy-- > 0 ? {status: 503} : {}));
  same(await readAll(`${url}/m.gguf`), small);
});

test('a server that stalls counts as broken', async () => {
  let stalls = 1;
  const {url} = await served({'/m.gguf': small}, (request) =>
    request.headers.range !== 'bytes=0-0' && stalls-- > 0 ? {stall: 500} : {}
  );
  same(await readAll(`${url}/m.gguf`, {http: {...quick, stallMs: 100}}), small);
});

test('a file that changes while it is loaded is an error', async () => {
  const other = pattern(100000, 9);
  for (const [first, then, what] of [
    [{etag: '"1"'}, {etag: '"2"'}, /etag "2", expected "1"/],
    [
      {'last-modified': 'Sat, 21 Nov 2026 10:00:00 GMT'},
      {'last-modified': 'Sat, 21 Nov 2026 11:00:00 GMT'},
      /lastModified .*11:00:00/
    ]
  ]) {
    let n = 0;
    const {url} = await served({'/m.gguf': small}, () =>
      n++ === 0 ? {headers: first} : {headers: then, bytes: other}
    );
    await assert.rejects(readAll(`${url}/m.gguf`), {code: 'NETWORK', message: what});
  }
  let n = 0;
  const {url} = await served({'/m.gguf': small}, () => (n++ === 0 ? {} : {bytes: small.subarray(0, 60000)}));
  await assert.rejects(readAll(`${url}/m.gguf`), {
    code: 'NETWORK',
    message: /fewer bytes than promised: 60000, expected 100000/
  });
});

test('an empty file', async () => {
  for (const ranges of [true, false]) {
    const {url} = await served({'/m.gguf': new Uint8Array(0)}, () => ({ranges}));
    await assert.rejects(readAll(`${url}/m.gguf`), {code: 'MALFORMED', message: /is empty: 0 bytes/});
  }
});

test('a range that the server gets wrong', async () => {
  const fetch = async () => new Response(small, {status: 206, headers: {'content-range': 'bytes 7-99/100000'}});
  await assert.rejects(readAll('http://x/m', {http: {...quick, fetch}}), {
    code: 'NETWORK',
    message: /range "bytes 7-99\/100000", asked for was 0/
  });
});

test('aborting stops a slow download at once', async () => {
  const {url} = await served({'/m.gguf': small}, (request) =>
    request.headers.range === 'bytes=0-0' ? {} : {stall: 10}
  );
  const controller = new AbortController();
  const done = readAll(`${url}/m.gguf`, {signal: controller.signal, onProgress: () => controller.abort()});
  await assert.rejects(done, {code: 'CANCELLED'});
});

test('reading at any place, without ranges too', async () => {
  const {url} = await served({'/m.gguf': small}, () => ({ranges: false}));
  const file = new HttpFile(`${url}/m.gguf`, quick);
  await file.probe();
  for (const at of [50000, 90000, 10]) {
    const into = new Uint8Array(1000);
    await file.read(at, into);
    same(into, small.subarray(at, at + 1000));
  }
  file.close();
});

test('a package: manifest, shards, sums', async () => {
  const bytes = pattern(300000, 5);
  const {files} = packageOf(bytes, [0, 100000, 250000]);
  for (const ranges of [true, false]) {
    const {url} = await served(files, () => ({ranges}));
    same(await readAll(`${url}/p/manifest.json`), bytes);
    same(await readAll(`${url}/p/`, {}, 77777), bytes);
  }
});

test('a damaged shard is CORRUPT, with its number and both sums', async () => {
  const bytes = pattern(300000, 5);
  const {files, manifest} = packageOf(bytes, [0, 100000, 250000]);
  const damaged = files['/p/shard_001.bin'].slice();
  damaged[149999] ^= 1;
  const {url} = await served({...files, '/p/shard_001.bin': damaged});
  await assert.rejects(readAll(`${url}/p/manifest.json`), (error) => {
    assert.equal(error.code, 'CORRUPT');
    assert.ok(error.message.includes(`chunk 1 of 3 (shard_001.bin)`), error.message);
    assert.ok(error.message.includes(`${sum(damaged)}, expected ${manifest.shards[1].sha256}`), error.message);
    return true;
  });
});

test('shards that are missing or of another size', async () => {
  const bytes = pattern(300000, 5);
  const {files} = packageOf(bytes, [0, 100000, 250000]);
  const cases = [
    [undefined, /shard_001\.bin: HTTP status 404/],
    [files['/p/shard_001.bin'].subarray(0, 10), /fewer bytes than promised: 10, expected 150000/],
    [pattern(150001), /size 150001, expected 150000/]
  ];
  for (const [shard, message] of cases) {
    const {url} = await served({...files, '/p/shard_001.bin': shard});
    await assert.rejects(readAll(`${url}/p/manifest.json`), {code: 'NETWORK', message});
  }
});

test('manifests that are none', async () => {
  const shard = {file: 'shard_000.bin', bytes: 10, sha256: 'a'.repeat(64)};
  const cases = [
    ['<!doctype html>', /is no manifest: /],
    ['{}', /"shards" is undefined, expected a list/],
    ['null', /"shards" is undefined/],
    [{shards: []}, /"shards" is \[\]/],
    [{shards: [{...shard, file: '../x'}]}, /shards\[0\]: "file" is "..\/x"/],
    [{shards: [{...shard, file: 'https://other/x'}]}, /"file"/],
    [{shards: [{...shard, bytes: 0}]}, /"bytes" is 0, expected 1 to 67108864/],
    [{shards: [{...shard, bytes: 2 ** 27}]}, /"bytes" is 134217728/],
    [{shards: [{...shard, sha256: 'x'}]}, /"sha256" is "x", expected 64 hex/]
  ];
  for (const [manifest, message] of cases) {
    const text = typeof manifest === 'string' ? manifest : JSON.stringify(manifest);
    const {url} = await served({'/manifest.json': new TextEncoder().encode(text)});
    await assert.rejects(readAll(`${url}/manifest.json`), {code: 'MALFORMED', message});
  }
  const {url} = await served({'/manifest.json': Uint8Array.of(0xff, 0xfe)});
  await assert.rejects(readAll(`${url}/manifest.json`), {code: 'MALFORMED', message: /is not UTF-8 text/});
});

test('the manifest is checked by the core as well', async () => {
  const {files} = packageOf(small, [0]);
  const {url} = await served(files);
  const checkManifest = () => {
    throw Object.assign(new Error('inference.rope_theta is missing'), {code: 'MALFORMED'});
  };
  await assert.rejects(readAll(`${url}/p/`, {checkManifest}), {code: 'MALFORMED', message: /rope_theta/});
});

test('picked files: one, a package, and what is wrong with others', async () => {
  same(await readAll(new File([small], 'a.gguf')), small);
  same(await readAll([new File([small], 'a.gguf')]), small);
  const bytes = pattern(300000, 5);
  const {files} = packageOf(bytes, [0, 100000, 250000]);
  const picked = Object.entries(files).map(([path, content]) => new File([content], path.slice(3)));
  same(await readAll(picked.reverse()), bytes);
  await assert.rejects(readAll(picked.slice(1)), {
    code: 'NOT_FOUND',
    message: /shard_002\.bin, which manifest\.json names, is not among the 3 files/
  });
  await assert.rejects(readAll([new File([small], 'a'), new File([small], 'b')]), {
    code: 'INVALID_ARGUMENT',
    message: /2 files were picked/
  });
  await assert.rejects(readAll([]), {code: 'INVALID_ARGUMENT', message: /no file was picked/});
  await assert.rejects(readAll(new File([], 'empty.gguf')), {code: 'MALFORMED', message: /empty\.gguf is empty/});
});

test('paths and file: URLs under Node', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'tern-'));
  t.after(() => rm(folder, {recursive: true}));
  const {files} = packageOf(small, [0, 400]);
  for (const [path, content] of Object.entries(files)) await writeFile(join(folder, path.slice(3)), content);
  await writeFile(join(folder, 'm.gguf'), small);
  for (const source of [
    join(folder, 'm.gguf'),
    pathToFileURL(join(folder, 'm.gguf')),
    folder,
    join(folder, 'manifest.json'),
    pathToFileURL(join(folder, 'manifest.json')).href
  ]) {
    same(await readAll(source), small);
  }
  await writeFile(join(folder, 'shard_001.bin'), 'x');
  await assert.rejects(readAll(folder), {
    code: 'CORRUPT',
    message: /shard_001\.bin has 1 bytes, the manifest says 99600/
  });
  await assert.rejects(readAll(join(folder, 'none.gguf')), {code: 'NOT_FOUND', message: /none\.gguf cannot be opened/});
});

test('blob: and data: URLs', async () => {
  const blob = URL.createObjectURL(new Blob([small]));
  same(await readAll(blob), small);
  same(await readAll(`data:application/octet-stream;base64,${Buffer.from(small).toString('base64')}`), small);
});

test('sources that are none', () => {
  for (const source of [undefined, null, 3, '', {}, [1], new URL('ftp://x/y')]) {
    assert.throws(() => addressOf(/** @type {any} */ (source)), {code: 'INVALID_ARGUMENT'}, String(source));
  }
  assert.throws(() => addressOf(undefined), {message: /source is undefined, expected "bundled", a URL/});
  assert.equal(addressOf('http://x/a%20b.gguf#part').name, 'a b.gguf');
  assert.equal(addressOf('http://x/100%.gguf').name, '100%.gguf');
  assert.equal(addressOf('http://x/models/two/manifest.json').name, 'two');
  assert.throws(() => addressOf('http://'), {message: '"http://" is no URL'});
});

test('a reader goes back where it must, and not beyond the end', async () => {
  const source = await openSource(new File([big], 'big.gguf'));
  const {reader} = await openModel(new File([big], 'big.gguf'));
  assert.equal(source.chunks.length, 3);
  for (const [at, n] of [
    [0, 10],
    [CHUNK_BYTES - 5, 10],
    [CHUNK_BYTES * 2 - 1, 100],
    [5, 5],
    [big.length - 3, 3],
    [big.length, 0]
  ]) {
    same(await reader.read(at, n), big.subarray(at, at + n));
  }
  await assert.rejects(reader.read(big.length - 3, 4), {code: 'MALFORMED', message: /are wanted of a file of/});
  await reader.close();
});
