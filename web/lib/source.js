/**
 * Where a model's bytes come from: a URL, a package, picked files, or (under Node) a path. Whatever it is becomes a
 * list of chunks.
 *
 * @typedef {{index: number, name: string, offset: number, bytes: number, sha256: string | null,
 *   read(into: Uint8Array, from: number, options: {signal?: AbortSignal, onBytes?: (n: number) => void}):
 *   Promise<void>}} Chunk `read` fills `into` (all of the chunk) from its byte `from` on.
 * @typedef {{kind: 'url' | 'package' | 'file' | 'package of files', key: string, name: string, local: boolean,
 *   storable: boolean}} Address `key` names the source; `storable`: it can be fetched again under that name; `local`:
 *   its bytes are on this machine already.
 * @typedef {Address & {size: number, version: Record<string, string | number | null>, chunks: Chunk[],
 *   manifest: string | null, close(): Promise<void>}} OpenSource `manifest`: the text of a package's
 */

import {TernError} from './errors.js';
import {HttpFile} from './http.js';
import {hubUrl, isHub, parseHub} from './hub.js';
import {readManifest} from './manifest.js';
import {isNode} from './platform.js';
import {sha256} from './sha256.js';

/** Of files that have no shards of their own. */
export const CHUNK_BYTES = 32 << 20;
const MANIFEST_BYTES = 16 << 20;

const isFile = (value) => typeof Blob !== 'undefined' && value instanceof Blob;

/** What the source is called, without looking at it. @param {import('./index.js').Source} source @returns {Address} */
export function addressOf(source) {
  if (Array.isArray(source)) return addressOfFiles(source);
  if (isFile(source)) return addressOfFiles([source]);
  if (source === 'bundled') return addressOfUrl(new URL('../models/chat.gguf', import.meta.url));
  if (source instanceof URL) return addressOfUrl(source);
  if (typeof source === 'string' && source !== '') return addressOfText(source);
  throw new TernError(
    'INVALID_ARGUMENT',
    `source is ${show(source)}, expected "bundled", a URL, "hf:ORG/NAME", a File, the files of a package, ` +
      'or {stored: id}'
  );
}

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
      key: `path:${text}`,
      name: baseName(text),
      local: true,
      storable: false
    };
  const base = globalThis.document?.baseURI ?? globalThis.location?.href;
  return addressOfUrl(parseUrl(text, base));
}

/** The hub's own name is the key: where its file lies is asked when it is opened. */
function addressOfHub(text) {
  const {repository, file} = parseHub(text);
  return {kind: 'url', key: text, name: baseName(file || repository), local: false, storable: true};
}

function parseUrl(text, base) {
  try {
    return new URL(text, base);
  } catch (error) {
    throw new TernError('INVALID_ARGUMENT', `"${text}" is no URL`, {cause: error});
  }
}

function addressOfUrl(url) {
  if (!/^(https?|file|blob|data):$/.test(url.protocol)) {
    throw new TernError(
      'INVALID_ARGUMENT',
      `the URL ${url.href} has the scheme "${url.protocol}", expected http, https, file, blob or data`
    );
  }
  if (url.protocol === 'file:' && !isNode) {
    throw new TernError('INVALID_ARGUMENT', `a page cannot read ${url.href}: serve it over HTTP, or pick the file`);
  }
  const plain = new URL(url.href);
  plain.hash = '';
  const web = /^https?:$/.test(url.protocol);
  const name = web || url.protocol === 'file:' ? baseName(readable(url.pathname)) : url.protocol.slice(0, -1);
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
  const first = manifest ?? files[0];
  if (files.length > 1 && !manifest) {
    throw new TernError(
      'INVALID_ARGUMENT',
      `${files.length} files were picked, none of them manifest.json: pick one GGUF file, or all of a package`
    );
  }
  const name = first.name ?? 'file';
  return {
    kind: manifest ? 'package of files' : 'file',
    key: `file:${name}:${first.size}:${first.lastModified ?? 0}`,
    name,
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
  if (address.kind === 'file')
    return wholeFile(address, blobFile(/** @type {Blob} */ (files[0]), address.name), options);
  if (address.kind === 'package of files') return packageOfFiles(address, files, options);
  const where = address.key.replace(/^path:/, '');
  if (isNode && (address.key.startsWith('path:') || where.startsWith('file:')))
    return openPath(address, where, options);
  if (address.kind === 'package') return packageOfUrl(address, where, options);
  const url = isHub(where) ? await hubUrl(where, options) : where;
  return wholeFile(address, await webFile(url, options), options);
}

async function webFile(url, options) {
  const file = new HttpFile(url, options.http);
  await file.probe(options);
  return {
    size: file.size,
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

/** One file, cut into ranges. */
function wholeFile(address, file, {chunkBytes = CHUNK_BYTES}) {
  if (file.size === 0) throw new TernError('MALFORMED', `${address.name} is empty: 0 bytes`);
  const chunks = [];
  for (let offset = 0; offset < file.size; offset += chunkBytes) {
    const bytes = Math.min(chunkBytes, file.size - offset);
    chunks.push({
      index: chunks.length,
      name: `bytes ${offset} to ${offset + bytes} of ${address.name}`,
      offset,
      bytes,
      sha256: null,
      read: (into, from, options) => file.read(offset + from, into.subarray(from), options)
    });
  }
  return {...address, size: file.size, version: file.version, chunks, manifest: null, close: file.close};
}

/**
 * The shards of a package, which one after the other are the file.
 * @param {(shard: {file: string, bytes: number}) => any} open
 */
async function wholePackage(address, text, options, open) {
  const manifest = await readManifest(text, address.key, options.checkManifest);
  const version = {manifest: await sha256(new TextEncoder().encode(text))};
  const files = [];
  const close = async () => {
    for (const file of files) await file.close();
  };
  const chunks = [];
  let offset = 0;
  try {
    for (const {file: name, bytes, sha256: sum} of manifest.shards) {
      const file = await open({file: name, bytes});
      files.push(file);
      if (file.size !== bytes)
        throw new TernError('CORRUPT', `${name} has ${file.size} bytes, the manifest says ${bytes}`);
      chunks.push({
        index: chunks.length,
        name,
        offset,
        bytes,
        sha256: sum,
        read: (into, from, how) => file.read(from, into.subarray(from), how)
      });
      offset += bytes;
    }
  } catch (error) {
    await close();
    throw error;
  }
  return {
    ...address,
    name: manifest.name ?? address.name,
    size: offset,
    version: {size: offset, ...version},
    chunks,
    manifest: text,
    close
  };
}

async function packageOfUrl(address, where, options) {
  const url = new URL(where);
  url.pathname = withManifest(url.pathname);
  const file = new HttpFile(url.href, options.http);
  await file.probe(options);
  const text = await textOf({size: file.size, read: (...args) => file.read(...args)}, url.href, options.signal);
  file.close();
  return wholePackage(
    address,
    text,
    options,
    (shard) => new HttpFile(new URL(shard.file, url).href, {...options.http, size: shard.bytes})
  );
}

async function packageOfFiles(address, files, options) {
  const manifest =
    files.find((file) => file.name === 'manifest.json') ?? files.find((file) => /\.json$/.test(file.name ?? ''));
  const text = await textOf(blobFile(manifest, manifest.name), manifest.name, options.signal);
  return wholePackage(address, text, options, (shard) => {
    const file = files.find((each) => each.name === shard.file);
    if (!file)
      throw new TernError(
        'NOT_FOUND',
        `${shard.file}, which ${manifest.name} names, is not among the ${files.length} files picked`
      );
    return blobFile(file, shard.file);
  });
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
  const {dirname, join} = await import('node:path');
  const {openDisk} = await import('./disk.js');
  const {path, manifest, file} = await openDisk(where);
  const named = {...address, name: baseName(path.replaceAll('\\', '/'))};
  if (manifest === null) return wholeFile(named, file, options);
  const text = await textOf(file, manifest, options.signal).finally(file.close);
  const package_ = {...named, key: manifest, kind: 'package'};
  return wholePackage(
    package_,
    text,
    options,
    async (shard) => (await openDisk(join(dirname(manifest), shard.file))).file
  );
}
