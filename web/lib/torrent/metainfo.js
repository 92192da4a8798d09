/**
 * What a torrent or a magnet link says of a package (docs/guides/models.md): its files, their pieces, and from where
 * they come. Whoever wrote it is a stranger.
 */

import {TernError} from '../errors.js';
import {EXPERT_BYTES, FILE_NAME, MANIFEST_BYTES} from '../manifest.js';
import {sha1} from '../sha1.js';
import {decode} from './bencode.js';

const MANIFEST = 'manifest.json';
const SUM_BYTES = 20;
const MOST_PIECE = 64 << 20;

/**
 * @typedef {{name: string, bytes: number, first: number}} TorrentFile `first`: its first piece; it begins there
 * @typedef {{name: string, infoHash: string, pieceBytes: number, sums: Uint8Array, files: Map<string, TorrentFile>,
 *   trackers: string[], webSeeds: string[]}} Metainfo `sums`: SHA-1 of each piece, 20 bytes each; `webSeeds`: folders
 *   that hold the package's
 * @typedef {{infoHash: string, name: string | null, trackers: string[], webSeeds: string[]}} Magnet
 */

/**
 * Errors: MALFORMED, UNSUPPORTED (no torrent of version 1, which pages know).
 * @param {Uint8Array} bytes @param {string} where for messages @returns {Promise<Metainfo>}
 */
export async function readMetainfo(bytes, where) {
  const {value, spans} = decode(bytes, where);
  const all = dictionary(value, where, 'it');
  const info = dictionary(all.get('info'), where, '"info"');
  const span = /** @type {[number, number]} */ (spans.get('info'));
  const pieceBytes = info.get('piece length');
  if (!Number.isInteger(pieceBytes) || pieceBytes < 16384 || pieceBytes > MOST_PIECE || pieceBytes & (pieceBytes - 1))
    throw malformed(where, `"piece length" is ${pieceBytes}, expected a power of 2, 16384 to ${MOST_PIECE}`);
  if (!(info.get('pieces') instanceof Uint8Array) || !Array.isArray(info.get('files')))
    throw new TernError('UNSUPPORTED', `${where}: expected a torrent of several files and of version 1, or of both`);
  const name = fileName(info.get('name'), where);
  const files = readFiles(info.get('files'), pieceBytes, where);
  const sums = info.get('pieces');
  if (sums.length !== SUM_BYTES * files.pieces)
    throw malformed(where, `"pieces" has ${sums.length} bytes, its files ${files.pieces} pieces of ${SUM_BYTES}`);
  return {
    name,
    infoHash: await sha1(bytes.subarray(...span)),
    pieceBytes,
    sums,
    files: files.named,
    trackers: addresses([...flat(all.get('announce')), ...flat(all.get('announce-list'))], /^wss?:/i),
    webSeeds: addresses(flat(all.get('url-list')), /^https?:/i)
  };
}

/** A package is flat: the manifest and its shards, each from a piece's beginning, with fillers between them. */
function readFiles(list, pieceBytes, where) {
  const named = new Map();
  let at = 0;
  for (const entry of list) {
    const file = dictionary(entry, where, 'an entry of "files"');
    const bytes = file.get('length');
    const path = file.get('path');
    if (!Number.isSafeInteger(bytes) || bytes < 0 || bytes > EXPERT_BYTES)
      throw malformed(where, `a file has ${bytes} bytes, expected at most ${EXPERT_BYTES}`);
    if (!Array.isArray(path)) throw malformed(where, 'a file has no path');
    if (!isFiller(file)) {
      const name = path.length === 1 ? fileName(path[0], where) : null;
      if (name === null || named.has(name)) throw malformed(where, 'a file lies in a folder, or is named twice');
      if (at % pieceBytes) throw malformed(where, `${name} begins inside a piece`);
      named.set(name, {name, bytes, first: at / pieceBytes});
    }
    at += bytes;
  }
  const empty = [...named.values()].find(({bytes}) => bytes === 0);
  if (empty) throw malformed(where, `${empty.name} is empty`);
  if (!named.has(MANIFEST)) throw malformed(where, `it is no package of Tern: it has no ${MANIFEST}`);
  if (named.get(MANIFEST).bytes > MANIFEST_BYTES)
    throw malformed(where, `${MANIFEST} has more than ${MANIFEST_BYTES} bytes`);
  return {named, pieces: Math.ceil(at / pieceBytes)};
}

function isFiller(file) {
  const attributes = file.get('attr');
  return attributes instanceof Uint8Array && attributes.includes(0x70);
}

/**
 * Errors: INVALID_ARGUMENT.
 * @param {string} text @returns {Magnet}
 */
export function readMagnet(text) {
  const params = new URLSearchParams(text.replace(/^magnet:\??/i, ''));
  const hash = params
    .getAll('xt')
    .map((topic) => /^urn:btih:([0-9a-f]{40})$/i.exec(topic)?.[1])
    .find(Boolean);
  if (!hash)
    throw new TernError('INVALID_ARGUMENT', 'the magnet link has no xt=urn:btih: with 40 hexadecimal digits');
  return {
    infoHash: hash.toLowerCase(),
    name: params.get('dn'),
    trackers: addresses(params.getAll('tr'), /^wss?:/i),
    webSeeds: addresses(params.getAll('ws'), /^https?:/i)
  };
}

/** The link that means this torrent, whatever page it came to. @param {Metainfo} meta */
export function magnetOf({infoHash, name, trackers, webSeeds}) {
  const list = (key, values) => values.map((value) => `&${key}=${encodeURIComponent(value)}`).join('');
  const dn = `&dn=${encodeURIComponent(name)}`;
  return `magnet:?xt=urn:btih:${infoHash}${dn}${list('tr', trackers)}${list('ws', webSeeds)}`;
}

/** Where the package's files are on a web seed. @param {string} seed @param {string} name */
export const folderOn = (seed, name) => new URL(`${encodeURIComponent(name)}/`, seed.replace(/\/?$/, '/')).href;

/** Pages reach no other trackers. */
function addresses(list, scheme) {
  const right = list.filter((text) => scheme.test(text) && URL.canParse(text));
  return [...new Set(right)];
}

function flat(value) {
  if (value instanceof Uint8Array) return [new TextDecoder().decode(value)];
  return Array.isArray(value) ? value.flatMap(flat) : [];
}

function dictionary(value, where, what) {
  if (value instanceof Map) return value;
  throw malformed(where, `${what} is no dictionary`);
}

function fileName(value, where) {
  const name = value instanceof Uint8Array ? new TextDecoder().decode(value) : '';
  if (FILE_NAME.test(name) && name.length <= 255) return name;
  throw malformed(where, `${JSON.stringify(name.slice(0, 80))} is no name of a file`);
}

const malformed = (where, what) => new TernError('MALFORMED', `${where}: ${what}`);
