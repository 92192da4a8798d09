/**
 * Where a model's bytes come from: a URL, a package, picked files, or (under Node) a path, as a list of chunks.
 *
 * @typedef {{index: number, name: string, offset: number, bytes: number, sha256: string | null,
 *   at?: number, read(from: number, into: Uint8Array, options?: object): Promise<void>}} Chunk `at`: of an expert,
 *   where it is stored
 * @typedef {{kind: 'url' | 'package' | 'file' | 'package of files' | 'torrent', key: string, name: string,
 *   local: boolean, storable: boolean, identity?: string}} Address `key` names the source; `storable`: it can be
 *   fetched again under that name; `local`: it is on this machine; `identity`: what it is stored by, where several keys
 *   mean the same
 * @typedef {{name: string, bytes: number}} Part of a file that is split
 * @typedef {Address & {size: number, version: Record<string, string | number | null>, chunks: Chunk[],
 *   manifest: string | null, parts: Part[] | null, lanes: number, close(): Promise<void>, ordered?: number,
 *   layout?: import('./manifest.js').Layout | null, experts?: import('./experts.js').Expert[] | null,
 *   readNow?: import('./now.js').ReadNow}} OpenSource `manifest`: the text of a package's; `lanes`: so many chunks may
 *   be read at once; of a package by expert: `ordered` chunks are dense, and lie in the file as `layout` says
 */

import {TernError} from './errors.js';
import {HttpFile} from './http.js';
import {hubUrl, isHub, parseHub} from './hub.js';
import {mapInLanes} from './lanes.js';
import {MANIFEST_BYTES, readManifest} from './manifest.js';
import {blobsNow, pathsNow, urlsNow} from './now.js';
import {aboutPart, firstPart, inOrder, partPaths, partUrls, wholeName} from './parts.js';
import {importUnderNode, isNode} from './platform.js';
import {sha256} from './sha256.js';
import {isFile} from './torrent/source.js';

/** Of files that have no shards of their own. */
export const CHUNK_BYTES = 8 << 20;
/** Requests to a server at once. */
export const WEB_LANES = 4;

/** What the source is called, without looking at it. @param {import('./index.js').Source} source @returns {Address} */
export function addressOf(source) {
  if (Array.isArray(source)) return addressOfFiles(source);
  if (isFile(source)) return addressOfFiles([source]);
  if (source === 'bundled') return addressOfUrl(new URL('../models/chat.gguf', import.meta.url));
  if (source instanceof URL) return addressOfUrl(source);
  if (isOfPage(source)) return addressOfTorrent(source.torrent);
  if (typeof source === 'string' && source !== '') return addressOfText(source);
  throw new TernError(
    'INVALID_ARGUMENT',
    `source is ${show(source)}, expected "bundled", a URL, "hf:ORG/NAME", a magnet link, a File, the files of a ` +
      'package, or {stored: id}'
  );
}

/** What the page has made of a torrent (torrent/torrent.js). */
const isOfPage = (source) => typeof source?.torrent?.key === 'string';

const addressOfTorrent = ({key, identity, name}) => ({
  kind: 'torrent',
  key,
  identity,
  name,
  local: false,
  storable: true,
});

function show(value) {
  if (value === '') return 'an empty string';
  const text = typeof value === 'object' && value ? Object.prototype.toString.call(value).slice(8, -1) : String(value);
  return typeof value === 'object' && value ? `a ${text}` : text;
}

function addressOfText(text) {
  if (isHub(text)) return addressOfHub(text);
  if (/^(https?|file|blob|data):/i.test(text)) return addressOfUrl(parseUrl(text));
  if (isNode)
    return {
      kind: isManifestPath(text) ? 'package' : 'url',
      key: `path:${firstPart(text)}`,
      name: wholeName(baseName(text)),
      local: true,
      storable: false
    };
  const base = globalThis.document?.baseURI ?? globalThis.location?.href;
  return addressOfUrl(parseUrl(text, base));
}

/** The hub's own name is the key: where its file lies is asked when it is opened. */
function addressOfHub(text) {
  const {repository, file} = parseHub(text);
  const name = wholeName(baseName(file || repository));
  const key = file ? text.replace(file, () => firstPart(file)) : text;
  return {kind: 'url', key, name, local: false, storable: true};
}

function parseUrl(text, base) {
  try {
    return new URL(text, base);
  } catch (error) {
    throw new TernError('INVALID_ARGUMENT', `"${text}" is no URL`, {cause: error});
  }
}

function addressOfUrl(url) {
  const packed = /^[a-z-]+-extension:$/.test(url.protocol); /* the files of a browser's extension */
  if (!packed && !/^(https?|file|blob|data):$/.test(url.protocol)) {
    throw new TernError(
      'INVALID_ARGUMENT',
      `the URL ${url.href} has the scheme "${url.protocol}", expected http, https, file, blob, data or an extension's`
    );
  }
  if (url.protocol === 'file:' && !isNode) {
    throw new TernError('INVALID_ARGUMENT', `a page cannot read ${url.href}: serve it over HTTP, or pick the file`);
  }
  const plain = new URL(url.href);
  plain.hash = '';
  if (!/^(blob|data):$/.test(url.protocol)) plain.pathname = firstPart(plain.pathname);
  const web = /^https?:$/.test(url.protocol);
  const named = web || packed || url.protocol === 'file:';
  const name = named ? wholeName(baseName(readable(url.pathname))) : url.protocol.slice(0, -1);
  return {kind: isManifestPath(url.pathname) ? 'package' : 'url', key: plain.href, name, local: !web, storable: web};
}

/** A path as people write it, where it is one. */
function readable(path) {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

const isManifestPath = (path) => /\.json$|\/$/i.test(path);
const withManifest = (text) => (/\.json$/i.test(text) ? text : `${text}manifest.json`);

/** The last part of a path; of a manifest the folder's, which is what people call the package. */
function baseName(path) {
  const parts = path.split('/').filter(Boolean);
  const last = parts.pop() ?? '';
  return last === 'manifest.json' || path.endsWith('/')
    ? ((last === 'manifest.json' ? parts.pop() : last) ?? 'package')
    : last;
}

function addressOfFiles(files) {
  const other = files.find((file) => !isFile(file));
  if (files.length === 0) throw new TernError('INVALID_ARGUMENT', 'no file was picked');
  if (other !== undefined)
    throw new TernError('INVALID_ARGUMENT', `a list of files holds ${show(other)}, expected File objects`);
  const manifest =
    files.find((file) => file.name === 'manifest.json') ?? files.find((file) => /\.json$/.test(file.name ?? ''));
  const parts = manifest ? null : inOrder(files);
  const first = manifest ?? parts?.[0] ?? files[0];
  if (files.length > 1 && !manifest && !parts) {
    throw new TernError(
      'INVALID_ARGUMENT',
      `${files.length} files were picked, none of them manifest.json: pick one GGUF file, all of its parts ` +
        '(NAME-00001-of-00003.gguf), or all of a package'
    );
  }
  const name = first.name ?? 'file';
  return {
    kind: manifest ? 'package of files' : 'file',
    key: `file:${name}:${first.size}:${first.lastModified ?? 0}`,
    name: wholeName(name),
    local: true,
    storable: true
  };
}

/**
 * Looks at the source: sizes, version, chunks.
 * @param {import('./index.js').Source} source
 * @param {{signal?: AbortSignal, once?: boolean, http?: object, checkManifest?: (text: string) => any, chunkBytes?:
 *   number}} [options] `once`: do not try again
 * @returns {Promise<OpenSource>}
 */
export async function openSource(source, options = {}) {
  const address = addressOf(source);
  const files = Array.isArray(source) ? source : [source];
  if (address.kind === 'file') {
    const blobs = inOrder(/** @type {any[]} */ (files)) ?? files;
    return openFiles(address, blobs, options, async (blob) => blobFile(blob, blob.name ?? address.name));
  }
  if (address.kind === 'package of files') return packageOfFiles(address, files, options);
  if (address.kind === 'torrent') return packageOfTorrent(address, source.torrent, options);
  const where = address.key.replace(/^path:/, '');
  if (isNode && (address.key.startsWith('path:') || where.startsWith('file:')))
    return openPath(address, where, options);
  if (address.kind === 'package') return packageOfUrl(address, where, options);
  const url = isHub(where) ? await hubUrl(where, options) : where;
  return openFiles(address, partUrls(url), options, (each) => webFile(each, options));
}

async function webFile(url, options) {
  const file = new HttpFile(url, options.http);
  await file.probe(options);
  return {
    name: baseName(readable(new URL(url).pathname)),
    size: file.size,
    lanes: file.ranged ? WEB_LANES : 1,
    version: {size: file.size, ...file.version},
    read: (offset, into, how) => file.read(offset, into, how),
    close: async () => file.close()
  };
}

/** One file as it is, whatever its name. @param {string | URL | Blob} source */
export async function openFile(source, options = {}) {
  const address = addressOf(source);
  if (isFile(source)) return {name: address.name, ...blobFile(/** @type {Blob} */ (source), address.name)};
  const name = address.key.split(/[/\\]/).pop();
  const where = address.key.replace(/^path:/, '');
  if (address.key.startsWith('path:') || where.startsWith('file:')) {
    const {openDisk} = await import('./disk.js');
    return {name, ...(await openDisk(where)).file};
  }
  return {name, ...(await webFile(isHub(where) ? await hubUrl(where, options) : where, options))};
}

/**
 * A whole file, or all parts of one, which become one.
 * @template T
 * @param {T[]} list @param {(each: T) => Promise<any>} open
 */
async function openFiles(address, list, options, open) {
  const about = (each, i) =>
    open(each).catch((error) => {
      throw aboutPart(error, i, list.length);
    });
  const files = await mapInLanes(list, WEB_LANES, about, (file) => file.close());
  const close = async () => {
    for (const file of files) await file.close();
  };
  try {
    return {...asOne(address, files, options), close};
  } catch (error) {
    await close();
    throw error;
  }
}

/** The files one behind another, each cut into ranges. */
function asOne(address, files, {chunkBytes = CHUNK_BYTES}) {
  const named = files.map((file) => ({...file, name: files.length > 1 ? file.name : address.name}));
  const chunks = [];
  for (const file of named) cut(file, chunkBytes, chunks);
  const parts = files.length > 1 ? named.map(({name, size}) => ({name, bytes: size})) : null;
  const size = files.reduce((sum, file) => sum + file.size, 0);
  const lanes = Math.min(...files.map((file) => file.lanes ?? 1));
  return {...address, size, version: versionOf(files), chunks, parts, lanes, manifest: null};
}

/** Appends the ranges of a file to the chunks. */
function cut(file, chunkBytes, chunks) {
  if (file.size === 0) throw new TernError('MALFORMED', `${file.name} is empty: 0 bytes`);
  const before = chunks.length ? chunks[chunks.length - 1].offset + chunks[chunks.length - 1].bytes : 0;
  for (let offset = 0; offset < file.size; offset += chunkBytes) {
    const bytes = Math.min(chunkBytes, file.size - offset);
    chunks.push({
      index: chunks.length,
      name: `bytes ${offset} to ${offset + bytes} of ${file.name}`,
      offset: before + offset,
      bytes,
      sha256: null,
      read: (from, into, options) => file.read(offset + from, into, options)
    });
  }
}

/** Of a whole file its own; of parts what each says, under names that say which. */
function versionOf(files) {
  if (files.length === 1) return files[0].version;
  const all = {size: files.reduce((sum, file) => sum + file.size, 0)};
  files.forEach((file, i) => {
    for (const [what, value] of Object.entries(file.version)) all[`${what} of part ${i + 1}`] = value;
  });
  return all;
}

/**
 * The shards of a package: one after the other the file, or what of it is no expert's, then the experts.
 * @param {{open(shard: {file: string, bytes: number}): any, readNow: import('./now.js').ReadNow}} from `open`: a shard
 *   as a file; `readNow`: the same without waiting
 * @returns {Promise<OpenSource>}
 */
export async function wholePackage(address, text, options, {open, readNow}) {
  const {name, shards, ordered, layout} = await readManifest(text, address.key, options.checkManifest);
  const size = shards.reduce((sum, {bytes}) => sum + bytes, 0);
  const version = {size, manifest: await sha256(new TextEncoder().encode(text))};
  const files = [];
  const close = async () => {
    for (const file of files) await file.close();
  };
  try {
    for (const shard of shards.slice(0, ordered)) files.push(await openShard(shard, open));
  } catch (error) {
    await close();
    throw error;
  }
  return {
    ...address,
    name: name ?? address.name,
    size,
    version,
    chunks: chunksOf(shards, (shard, i) => files[i]?.read ?? ((...args) => readOnce(shard, open, args))),
    ordered,
    layout,
    experts: layout && expertsOf(shards, ordered),
    parts: null,
    lanes: address.local ? 1 : WEB_LANES,
    manifest: text,
    readNow,
    close
  };
}

function chunksOf(shards, readerOf) {
  let offset = 0;
  let experts = 0;
  return shards.map((shard, index) => {
    const {file: name, bytes, sha256: sum, expert} = shard;
    const chunk = {index, name, offset, bytes, sha256: sum, read: readerOf(shard, index)};
    offset += bytes;
    if (expert === null) return chunk;
    experts += bytes;
    return {...chunk, at: experts - bytes};
  });
}

/** @returns {import('./experts.js').Expert[]} */
function expertsOf(shards, ordered) {
  let at = 0;
  return shards.slice(ordered).map(({place, expert, file, bytes, sha256: sum}, i) => {
    at += bytes;
    return {place, key: expert, file, bytes, sha256: sum, at: at - bytes, chunk: ordered + i};
  });
}

async function openShard({file: name, bytes}, open) {
  const file = await open({file: name, bytes});
  if (file.size === bytes) return file;
  await file.close();
  throw new TernError('CORRUPT', `${name} has ${file.size} bytes, the manifest says ${bytes}`);
}

/** There are thousands of experts: each is open while it is read. */
async function readOnce(shard, open, args) {
  const file = await openShard(shard, open);
  try {
    return await file.read(...args);
  } finally {
    await file.close();
  }
}

async function packageOfUrl(address, where, options) {
  const url = new URL(where);
  url.pathname = withManifest(url.pathname);
  const file = new HttpFile(url.href, options.http);
  await file.probe(options);
  const text = await textOf({size: file.size, read: (...args) => file.read(...args)}, url.href, options.signal);
  file.close();
  const open = (shard) => {
    const {href} = new URL(shard.file, url);
    const opened = new HttpFile(href, {...options.http, size: shard.bytes});
    return {size: shard.bytes, read: (...args) => opened.read(...args), close: () => opened.close()};
  };
  return wholePackage(address, text, options, {open, readNow: urlsNow(url)});
}

/** Its files are the page's to read. */
function packageOfTorrent(address, {files, manifest}, options) {
  const sizes = new Map(files.map(({name, bytes}) => [name, bytes]));
  const open = ({file}) => ({
    size: sizes.get(file) ?? 0,
    read: (offset, into, how) => options.remote.read(file, offset, into, how),
    close: async () => {}
  });
  return wholePackage(address, manifest, options, {open, readNow: options.remote.readNow});
}

async function packageOfFiles(address, files, options) {
  const manifest =
    files.find((file) => file.name === 'manifest.json') ?? files.find((file) => /\.json$/.test(file.name ?? ''));
  const text = await textOf(blobFile(manifest, manifest.name), manifest.name, options.signal);
  const find = (name) => {
    const file = files.find((each) => each.name === name);
    if (file) return file;
    throw new TernError(
      'NOT_FOUND',
      `${name}, which ${manifest.name} names, is not among the ${files.length} files picked`
    );
  };
  const open = (shard) => blobFile(find(shard.file), shard.file);
  return wholePackage(address, text, options, {open, readNow: blobsNow(find)});
}

async function textOf(file, name, signal) {
  if (file.size > MANIFEST_BYTES) {
    throw new TernError('MALFORMED', `${name} has ${file.size} bytes, a manifest has at most ${MANIFEST_BYTES}`);
  }
  const bytes = new Uint8Array(file.size);
  await file.read(0, bytes, {signal});
  try {
    return new TextDecoder('utf-8', {fatal: true}).decode(bytes);
  } catch (error) {
    throw new TernError('MALFORMED', `${name} is not UTF-8 text`, {cause: error});
  }
}

/** A picked file. */
function blobFile(blob, name) {
  const read = async (offset, into, {signal, onBytes} = {}) => {
    const reader = blob
      .slice(offset, offset + into.length)
      .stream()
      .getReader();
    for (let at = 0; at < into.length;) {
      const piece = await pieceOf(reader, name, offset + at, signal);
      if (!piece) throw new TernError('IO', `${name} ended after ${offset + at} bytes, expected ${blob.size}`);
      into.set(piece, at);
      at += piece.length;
      onBytes?.(piece.length);
    }
  };
  return {
    name,
    size: blob.size,
    version: {size: blob.size, lastModified: blob.lastModified ?? null},
    read,
    close: async () => {}
  };
}

async function pieceOf(reader, name, at, signal) {
  if (signal?.aborted) {
    reader.cancel().catch(() => {});
    throw new TernError('CANCELLED', `reading ${name} was cancelled`);
  }
  try {
    return (await reader.read()).value;
  } catch (error) {
    throw new TernError(
      'IO',
      `${name} cannot be read at byte ${at}: ${error.message}; it may have changed since it was picked`,
      {cause: error}
    );
  }
}

/** Under Node: a file, a package's manifest or its folder. */
async function openPath(address, where, options) {
  const {dirname, join} = await importUnderNode('node:path');
  const {openDisk} = await import('./disk.js');
  const {path, manifest, file} = await openDisk(where);
  const named = {...address, name: wholeName(baseName(path.replaceAll('\\', '/')))};
  if (manifest === null) {
    await file.close();
    return openFiles(named, partPaths(path), options, async (each) => (await openDisk(each)).file);
  }
  const text = await textOf(file, manifest, options.signal).finally(file.close);
  const package_ = {...named, key: manifest, kind: 'package'};
  const folder = dirname(manifest);
  const open = async (shard) => (await openDisk(join(folder, shard.file))).file;
  return wholePackage(package_, text, options, {open, readNow: await pathsNow(folder)});
}
