/**
 * The files of an adapter, whole in memory: a GGUF file, or adapter_config.json and adapter_model.safetensors as PEFT
 * writes them; by themselves or in a package, whose sums are checked.
 */

import {readStoredAdapter} from './adapter-store.js';
import {TernError, bytesFor} from './errors.js';
import {readAdapterManifest} from './manifest.js';
import {sha256} from './sha256.js';
import {openFile} from './source.js';

const MANIFEST = 'manifest.json';
const PEFT = ['adapter_config.json', 'adapter_model.safetensors'];
const MOST_BYTES = 1 << 30;

/**
 * @param {string | URL | File | File[] | Uint8Array | {stored: string} | {files: {name: string, bytes: Uint8Array}[]}}
 *   source a URL (or path) that ends in / or /adapter_config.json means both files of PEFT, one that ends in
 *   manifest.json a package; `files`: what the page has of a torrent
 * @param {{signal?: AbortSignal, http?: object, platform?: any}} [options]
 * @returns {Promise<{name: string, bytes: Uint8Array}[]>}
 */
export async function readAdapter(source, options = {}) {
  if (source instanceof Uint8Array) return [{name: 'adapter.gguf', bytes: source}];
  if (isStored(source)) return readStoredAdapter(source.stored, options);
  if (Array.isArray(/** @type {any} */ (source).files)) return /** @type {any} */ (source).files;
  const manifest = manifestOf(source);
  if (manifest) return readPackage(source, manifest, options);
  const out = [];
  for (const part of partsOf(source)) out.push(await readWhole(part, options));
  return out;
}

/** That of a package, where the source is one. */
function manifestOf(source) {
  if (Array.isArray(source)) return source.find(({name}) => name === MANIFEST) ?? null;
  const text = source instanceof URL ? source.href : source;
  return typeof text === 'string' && /(^|[/\\])manifest\.json([?#]|$)/.test(text) ? text : null;
}

async function readPackage(source, manifest, options) {
  const {name, bytes} = await readWhole(manifest, options);
  const read = (file) => readWhole(Array.isArray(source) ? picked(source, file) : beside(manifest, file), options);
  return adapterFiles(new TextDecoder().decode(bytes), name, async (file) => (await read(file)).bytes);
}

const beside = (manifest, file) => manifest.replace(/manifest\.json(?=[?#]|$)/, file);

function picked(files, name) {
  const file = files.find((each) => each.name === name);
  if (file) return file;
  throw new TernError('NOT_FOUND', `${name}, which ${MANIFEST} names, is not among the ${files.length} files picked`);
}

/**
 * The files that an adapter's manifest names, compared with their sums.
 * @param {string} manifest @param {string} where for messages @param {(file: string) => Promise<Uint8Array>} read
 * @returns {Promise<{name: string, bytes: Uint8Array}[]>} Errors: those of readAdapterManifest and `read`, CORRUPT.
 */
export async function adapterFiles(manifest, where, read) {
  const out = [];
  for (const {file, bytes: size, sha256: expected} of readAdapterManifest(manifest, where)) {
    const bytes = await read(file);
    const found = bytes.length === size ? await sha256(bytes) : '';
    if (found === '') throw new TernError('CORRUPT', `${file} has ${bytes.length} bytes, the manifest says ${size}`);
    if (found !== expected)
      throw new TernError('CORRUPT', `${file}: its SHA-256 is ${found}, expected ${expected}`);
    out.push({name: file, bytes});
  }
  return out;
}

/** Whether it is {stored: name}. */
const isStored = (source) => typeof source === 'object' && source !== null && Object.hasOwn(source, 'stored');

function partsOf(source) {
  if (Array.isArray(source)) return source;
  const text = source instanceof URL ? source.href : source;
  if (typeof text !== 'string' || !/(\/|adapter_config\.json)$/.test(text)) return [source];
  const folder = text.replace(/adapter_config\.json$/, '');
  return PEFT.map((name) => folder + name);
}

async function readWhole(source, options) {
  const file = await openFile(source, options);
  try {
    if (file.size > MOST_BYTES)
      throw new TernError('LIMIT', `the adapter ${file.name} has ${file.size} bytes, expected at most ${MOST_BYTES}`);
    const bytes = bytesFor(file.size, file.name);
    await file.read(0, bytes, options);
    return {name: file.name, bytes};
  } finally {
    await file.close();
  }
}
