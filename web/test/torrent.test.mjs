/** Torrents and magnet links as strangers write them: what they say is believed only where it can be right. */
import assert from 'node:assert/strict';
import {createHash} from 'node:crypto';
import {test} from 'node:test';
import {decode} from '../lib/torrent/bencode.js';
import {TorrentFiles} from '../lib/torrent/files.js';
import {magnetOf, readMagnet, readMetainfo} from '../lib/torrent/metainfo.js';
import {isTorrent} from '../lib/torrent/source.js';
import {serve} from './support/server.mjs';

const text = (value) => Buffer.from(value);
const PIECE = 16384;

/** Bencoding, the other way. */
function encode(value) {
  if (typeof value === 'number') return text(`i${value}e`);
  if (typeof value === 'string') return encode(text(value));
  if (value instanceof Uint8Array) return Buffer.concat([text(`${value.length}:`), value]);
  if (Array.isArray(value)) return Buffer.concat([text('l'), ...value.map(encode), text('e')]);
  const keys = Object.keys(value).sort();
  return Buffer.concat([text('d'), ...keys.flatMap((key) => [encode(key), encode(value[key])]), text('e')]);
}

const file = (name, length) => ({length, path: [name]});
const filler = (length) => ({attr: 'p', length, path: ['.pad', String(length)]});

function info(more = {}) {
  return {
    files: [file('manifest.json', 100), filler(PIECE - 100), file('shard_000.bin', PIECE + 5)],
    name: 'model',
    'piece length': PIECE,
    pieces: Buffer.alloc(60, 1),
    ...more,
  };
}

const torrent = (more, beside = {}) => encode({info: info(more), ...beside});
const read = (bytes) => readMetainfo(new Uint8Array(bytes), 'x.torrent');

test('a torrent is read: files from their pieces on, without fillers, and who has them', async () => {
  const beside = {
    announce: 'wss://a.example',
    'announce-list': [['wss://a.example', 'udp://b.example:1'], ['ws://c.example']],
    'url-list': ['https://d.example/m', 'ftp://e.example/'],
  };
  const bytes = torrent({}, beside);
  const meta = await read(bytes);
  assert.equal(meta.infoHash, createHash('sha1').update(encode(info())).digest('hex'));
  assert.deepEqual([...meta.files.values()], [
    {name: 'manifest.json', bytes: 100, first: 0},
    {name: 'shard_000.bin', bytes: PIECE + 5, first: 1},
  ]);
  assert.deepEqual(meta.trackers, ['wss://a.example', 'ws://c.example']);
  assert.deepEqual(meta.webSeeds, ['https://d.example/m']);
  const magnet = readMagnet(magnetOf(meta));
  assert.deepEqual(magnet, {
    infoHash: meta.infoHash,
    name: 'model',
    trackers: meta.trackers,
    webSeeds: meta.webSeeds,
  });
});

test('what a stranger has written wrong is refused', async () => {
  const wrong = [
    [{'piece length': 1000}, /piece length/],
    [{'piece length': 1 << 30}, /piece length/],
    [{pieces: Buffer.alloc(59)}, /59 bytes/],
    [{name: '../up'}, /no name of a file/],
    [{name: ''}, /no name of a file/],
    [{files: [file('manifest.json', 100), file('shard', 5)], pieces: Buffer.alloc(20)}, /begins inside a piece/],
    [{files: [{length: 5, path: ['..', 'x']}], pieces: Buffer.alloc(20)}, /lies in a folder/],
    [{files: [file('manifest.json', -1)], pieces: Buffer.alloc(0)}, /-1 bytes/],
    [{files: [file('model.gguf', 5)], pieces: Buffer.alloc(20)}, /no manifest\.json/],
    [{files: [file('manifest.json', 0), file('manifest.json', 5)], pieces: Buffer.alloc(20)}, /named twice/],
    [{files: [file('manifest.json', 0)], pieces: Buffer.alloc(0)}, /is empty/],
    [{files: [file('manifest.json', (16 << 20) + 1)], pieces: Buffer.alloc(20 * 1025)}, /more than 16777216/],
    [{files: [file('manifest.json', 1e13)], pieces: Buffer.alloc(20)}, /at most 1073741824/],
    [{files: [{length: 9e15, path: ['a']}, {length: 9e15, path: ['b']}], pieces: Buffer.alloc(0)}, /bytes/],
  ];
  for (const [more, pattern] of wrong) await assert.rejects(read(torrent(more)), pattern);
  const broken = ['', 'd', 'i5e', 'd4:infoi5ee', 'd3:aaai01ee', 'd1:b0:1:a0:e', '5:abc', 'de ', 'l'.repeat(99)];
  for (const each of broken)
    await assert.rejects(read(text(each)), {code: 'MALFORMED'});
  const bytes = torrent();
  for (let end = 0; end < bytes.length; end++)
    assert.throws(() => decode(new Uint8Array(bytes.subarray(0, end)), 'x'), {code: 'MALFORMED'});
  await assert.rejects(read(encode({info: {name: 'one', length: 5}})), /piece length/);
  for (const link of ['magnet:', 'magnet:?xt=urn:btih:xyz', 'magnet:?dn=a'])
    assert.throws(() => readMagnet(link), {code: 'INVALID_ARGUMENT'});
});

test('torrents are told from other sources by their names', () => {
  for (const each of ['magnet:?xt=x', 'https://a.example/b.torrent', new URL('https://a.example/b.torrent?c=1')])
    assert.ok(isTorrent(each), String(each));
  for (const each of ['https://a.example/b.gguf', 'https://a.example/?f=b.torrent', 'bundled', {stored: 'x'}, null])
    assert.ok(!isTorrent(each), String(each));
});

test('web seeds give what the torrent says, whichever does', async () => {
  const shard = Buffer.alloc(PIECE * 3 + 7, 9);
  const padded = Buffer.concat([shard, Buffer.alloc(PIECE - 7)]);
  const pieces = [0, 1, 2, 3].map((i) =>
    createHash('sha1').update(padded.subarray(i * PIECE, (i + 1) * PIECE)).digest(),
  );
  const spoilt = Buffer.from(shard);
  spoilt[PIECE * 2] = 1;
  const server = await serve({'/liar/model/shard.bin': spoilt, '/good/model/shard.bin': shard});
  const meta = {
    name: 'model',
    pieceBytes: PIECE,
    sums: new Uint8Array(Buffer.concat(pieces)),
    files: new Map([['shard.bin', {name: 'shard.bin', bytes: shard.length, first: 0}]]),
    trackers: [],
    webSeeds: [`${server.url}/liar`, `${server.url}/good/`],
  };
  try {
    const files = new TorrentFiles(meta, {swarm: null});
    assert.deepEqual(Buffer.from(await files.whole('shard.bin')), shard);
    const part = [];
    for await (const run of files.read('shard.bin', PIECE + 3, PIECE * 2)) part.push(run);
    assert.deepEqual(Buffer.concat(part), shard.subarray(PIECE + 3, PIECE * 3 + 3));
    await assert.rejects(files.whole('other.bin'), {code: 'NOT_FOUND'});
    const liar = new TorrentFiles({...meta, webSeeds: [`${server.url}/liar`]}, {swarm: null});
    await assert.rejects(liar.whole('shard.bin'), /NETWORK|not what the torrent says, from byte 32768/);
  } finally {
    await server.close();
  }
});
