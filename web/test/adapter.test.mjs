/** Files of adapters: by themselves, in packages on a server, on the disk or picked, and from torrents. */
import assert from 'node:assert/strict';
import {createHash} from 'node:crypto';
import {mkdtemp, rm, writeFile} from 'node:fs/promises';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {test} from 'node:test';
import {readAdapter} from '../lib/adapter.js';
import {openModel} from '../lib/open.js';
import {openTorrent} from '../lib/torrent/torrent.js';
import {pattern, serve} from './support/server.mjs';

const sum = (bytes) => createHash('sha256').update(bytes).digest('hex');
const text = (value) => Buffer.from(value);
const http = {pauses: [1, 1, 1]};
const config = text('{"peft_type": "LORA"}');
const weights = pattern(70000, 5);

/** A package as `tern package` writes them. */
function packageOf(files, more = {}) {
  const shards = Object.entries(files).map(([file, bytes]) => ({file, bytes: bytes.length, sha256: sum(bytes)}));
  const manifest = {format: 'tern-package', version: 1, kind: 'adapter', shards, ...more};
  return {'manifest.json': text(JSON.stringify(manifest)), ...files};
}

const peft = () => packageOf({'adapter_config.json': config, 'adapter_model.safetensors': weights});
const gguf = () => packageOf({'adapter.gguf': weights});
const inFolder = (files, folder) =>
  Object.fromEntries(Object.entries(files).map(([name, bytes]) => [`/${folder}/${name}`, bytes]));

function same(found, package_) {
  const {'manifest.json': unused, ...files} = package_;
  assert.deepEqual(
    found.map(({name}) => name),
    Object.keys(files),
  );
  for (const {name, bytes} of found) assert.ok(Buffer.from(bytes).equals(Buffer.from(files[name])), name);
}

test('a package is read from a server, a folder and picked files', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'tern-'));
  for (const made of [peft(), gguf()]) {
    const server = await serve(inFolder(made, 'a'));
    try {
      same(await readAdapter(`${server.url}/a/manifest.json`, {http}), made);
      same(await readAdapter(new URL(`${server.url}/a/manifest.json?v=1`), {http}), made);
      for (const [name, bytes] of Object.entries(made)) await writeFile(join(folder, name), bytes);
      same(await readAdapter(join(folder, 'manifest.json')), made);
      const picked = Object.entries(made).map(([name, bytes]) => new File([bytes], name));
      same(await readAdapter(picked), made);
      const missing = picked.filter(({name}) => name === 'manifest.json');
      await assert.rejects(readAdapter(missing), {code: 'NOT_FOUND', message: /is not among the 1 files picked/});
    } finally {
      await server.close();
    }
  }
  await rm(folder, {recursive: true});
});

test('what is not as the manifest says is refused', async () => {
  const spoilt = Uint8Array.from(weights);
  spoilt[5] ^= 1;
  const damaged = {...gguf(), 'adapter.gguf': spoilt};
  const cut = {...gguf(), 'adapter.gguf': weights.subarray(1)};
  const {'adapter.gguf': unused, ...without} = gguf();
  const up = packageOf({'../adapter.gguf': weights});
  const cases = [
    [damaged, 'CORRUPT', /adapter\.gguf: its SHA-256 is [0-9a-f]{64}, expected/],
    [cut, 'CORRUPT', /adapter\.gguf has 69999 bytes, the manifest says 70000/],
    [without, 'NETWORK', /adapter\.gguf/],
    [up, 'MALFORMED', /expected the name of a file beside the manifest/],
    [packageOf({}), 'MALFORMED', /"shards" is \[\]/],
    [packageOf({'shard_000.bin': weights}, {kind: undefined}), 'UNSUPPORTED', /of a model, that of an adapter/],
    [{'manifest.json': text('{')}, 'MALFORMED', /is no manifest/],
  ];
  for (const [files, code, message] of /** @type {any[]} */ (cases)) {
    const server = await serve(inFolder(files, 'a'));
    await assert.rejects(readAdapter(`${server.url}/a/manifest.json`, {http}), {code, message}).finally(server.close);
  }
});

test('an adapter is no model', async () => {
  const server = await serve(inFolder(gguf(), 'a'));
  const message = /the package of an adapter \(LoRA\), that of a model expected/;
  await assert
    .rejects(openModel(`${server.url}/a/manifest.json`, {http}), {code: 'UNSUPPORTED', message})
    .finally(server.close);
});

/** A torrent of version 1 of a package, of pieces of 16 KiB, with fillers. */
function torrentOf(files, webSeed) {
  const piece = 16384;
  const key = (value) => Buffer.concat([text(`${value.length}:`), value]);
  const number = (n) => text(`i${n}e`);
  const entries = [];
  const parts = [];
  for (const [name, bytes] of Object.entries(files)) {
    const fill = (piece - (bytes.length % piece)) % piece;
    const path = (each) => Buffer.concat([text('4:pathl'), key(text(each)), text('e')]);
    entries.push(text('d6:length'), number(bytes.length), path(name), text('e'));
    if (fill) entries.push(text('d4:attr1:p6:length'), number(fill), path(`pad${fill}`), text('e'));
    parts.push(bytes, Buffer.alloc(fill));
  }
  const all = Buffer.concat(parts);
  const sums = [];
  for (let at = 0; at < all.length; at += piece)
    sums.push(createHash('sha1').update(all.subarray(at, at + piece)).digest());
  return Buffer.concat([
    text('d4:infod5:filesl'),
    ...entries,
    text('e4:name1:a12:piece length'),
    number(piece),
    text('6:pieces'),
    key(Buffer.concat(sums)),
    text('e8:url-list'),
    key(text(webSeed)),
    text('e'),
  ]);
}

test('a torrent gives its files, checked with its sums and with the manifest', async () => {
  for (const [made, served, expected] of /** @type {any[]} */ ([
    [peft(), peft(), null],
    [gguf(), gguf(), null],
    [gguf(), {...gguf(), 'adapter.gguf': Buffer.alloc(70000)}, {code: 'NETWORK', message: /not what the torrent says/}],
    [{...gguf(), 'adapter.gguf': Buffer.alloc(70000)}, null, {code: 'CORRUPT', message: /its SHA-256 is/}],
    [packageOf({'shard_000.bin': weights}, {kind: undefined}), null, {code: 'UNSUPPORTED', message: /of a model/}],
  ])) {
    const server = await serve(inFolder(served ?? made, 'a'));
    try {
      const torrent = await openTorrent(new File([torrentOf(made, server.url)], 'a.torrent'), {http});
      if (expected) await assert.rejects(async () => torrent.adapterFiles(), expected);
      else same(await torrent.adapterFiles(), made);
      await torrent.stop();
    } finally {
      await server.close();
    }
  }
});
