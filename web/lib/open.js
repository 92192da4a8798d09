/** From a source and what is stored of it to a reader for the core. */

import {ModelStore, idOf} from './cache.js';
import {TernError} from './errors.js';
import {urlsNow} from './now.js';
import {ChunkReader, RangeReader} from './reader.js';
import {addressOf, openSource, wholePackage} from './source.js';

/**
 * @typedef {{store?: boolean, signal?: AbortSignal, http?: object, remote?: import('./remote.js').Remote,
 *   platform?: {storage?: any, locks?: any}, checkManifest?: (text: string) => any,
 *   onProgress?: (progress: any) => void, onNotice?: (notice: any) => void}} OpenOptions
 * @typedef {{experts: import('./experts.js').Expert[], stored: import('./cache.js').StoredChunks | null,
 *   readNow: import('./now.js').ReadNow}} Experts of a package by expert, which its reader only keeps
 */

/**
 * Opens a source for reading, with what OPFS has of it. The reader holds the model's lock until it is closed.
 * @param {import('./index.js').Source} source @param {OpenOptions} options
 * @returns {Promise<{reader: ChunkReader | RangeReader, name: string, id: string | null, manifest: string | null,
 *   experts: Experts | null}>}
 */
export async function openModel(source, options = {}) {
  const {onNotice = () => {}} = options;
  if (isStored(source)) return openStored(source.stored, {...options, onNotice});
  const address = addressOf(source);
  const store = await storeFor(address, options, onNotice);
  if (!store) return readerOf(await openSource(source, options), null, {...options, onNotice}, () => {});
  const id = await idOf(address.name, address.identity ?? address.key);
  return openWithStore(source, address, id, store, {...options, onNotice});
}

const isStored = (source) => typeof source === 'object' && source !== null && Object.hasOwn(source, 'stored');

/** The store, where this model belongs into it. */
async function storeFor(address, {store, platform}, onNotice) {
  if (!(store ?? (address.storable && !address.local))) return null;
  const available = typeof (platform?.storage ?? globalThis.navigator?.storage)?.getDirectory === 'function';
  if (!available && store === undefined) return null;
  if (!address.storable) {
    onNotice({
      code: 'NO_STORAGE',
      message: `${address.name} is not kept: it cannot be fetched again from ${address.key.slice(0, 100)}`
    });
    return null;
  }
  try {
    return await ModelStore.open(platform);
  } catch (error) {
    onNotice({code: error.code ?? 'NO_STORAGE', message: `${error.message}; loading goes on without storing`});
    return null;
  }
}

/** A stored model by its id; what is missing of it comes from where it came from. */
async function openStored(id, options) {
  const store = await ModelStore.open(options.platform);
  const stored = await store.get(id);
  if (stored.complete) return openComplete(store, id, options);
  const {key} = stored.meta;
  if (!/^(https?|hf):/i.test(key)) {
    throw new TernError(
      'NOT_FOUND',
      `the stored model ${id} has ${stored.stored} of ${stored.meta.size} bytes, and the rest cannot be ` +
        `fetched from ${key}: load that again with {store: true}`
    );
  }
  return openWithStore(key, addressOf(key), id, store, options);
}

async function openComplete(store, id, options) {
  const unlock = await lockSaying(store, id, 'shared', options);
  try {
    const stored = await store.get(id);
    await stored.touch();
    return reader(await fromStore(stored, options), stored, options, unlock);
  } catch (error) {
    unlock();
    throw error;
  }
}

/** A model of which all is stored: its chunks are only read from there. */
async function fromStore(stored, options) {
  const {meta} = stored;
  const text = await stored.manifest();
  if (text === null) return {...meta, chunks: chunksOf(meta), local: true};
  const read = () => Promise.reject(damaged(meta, 'a chunk'));
  const open = ({bytes}) => ({size: bytes, read, close: async () => {}});
  const readNow = /^https?:/i.test(meta.key) ? urlsNow(meta.key) : null;
  return {...(await wholePackage(meta, text, options, {open, readNow})), name: meta.name, local: true};
}

const damaged = ({id, key}, what) =>
  new TernError('CORRUPT', `${what} of the stored model ${id} is damaged: load ${key} again`);

function chunksOf(meta) {
  let offset = 0;
  return meta.chunks.map(({bytes}, index) => {
    const chunk = {
      index,
      name: `chunk ${index} of ${meta.name}`,
      offset,
      bytes,
      sha256: null,
      read: async () => {
        throw damaged(meta, `chunk ${index}`);
      }
    };
    offset += bytes;
    return chunk;
  });
}

/** What is stored already says how large chunks are: those of a model that was stored with others are read on. */
const asStored = (stored) => (stored ? {chunkBytes: Math.max(...stored.meta.chunks.map(({bytes}) => bytes))} : {});

async function openWithStore(source, address, id, store, options) {
  const unlock = await lockSaying(store, id, 'exclusive', options);
  let open = null;
  try {
    const stored = await store.find(id);
    const how = {...options, ...asStored(stored), once: stored?.complete};
    open = await openSource(source, how).catch((error) => orStored(error, stored, options));
    if (open === null) return await withoutSource(stored, options, unlock);
    const kept = await matching(open, id, stored, store, options);
    await kept?.touch();
    if (kept?.complete) await open.close();
    return await readerOf({...open, local: address.local}, kept, options, unlock);
  } catch (error) {
    await open?.close();
    unlock();
    throw error;
  }
}

async function lockSaying(store, id, mode, {signal, onNotice}) {
  const unlock = await store.lock(id, {mode, ifAvailable: true});
  if (unlock) return unlock;
  onNotice({code: 'BUSY', message: `${id} is being loaded in another tab or worker: waiting for that`});
  return store.lock(id, {mode, signal});
}

/** Offline: what is stored does. */
function orStored(error, stored, {onNotice}) {
  if (error.code !== 'NETWORK' || !stored?.complete) throw error;
  onNotice({code: 'NETWORK', message: `${error.message}; the stored copy is used`});
  return null;
}

async function withoutSource(stored, options, unlock) {
  await stored.touch();
  return reader(await fromStore(stored, options), stored, options, unlock);
}

/** What is stored of this very version, or a new folder; null: there is no room. */
async function matching(open, id, stored, store, options) {
  if (stored && !differs(open, stored.meta)) return stored;
  if (stored) {
    const {what, found, expected} = differs(open, stored.meta);
    options.onNotice({
      code: 'CHANGED',
      message: `${open.key} is not what was stored (${what} ${found}, stored ${expected}): it is fetched anew`
    });
    await store.remove(id);
  }
  const chunks = open.chunks.map(({bytes, at}) => ({bytes, sha256: null, ...(at === undefined ? {} : {at})}));
  if (!(await hasRoom(open, store, options))) return null;
  return store
    .create(
      {id, name: open.name, key: open.key, size: open.size, version: open.version, chunks, parts: open.parts},
      open.experts ? open.manifest : null
    )
    .catch((error) => {
      options.onNotice({code: 'NO_STORAGE', message: `${error.message}; loading goes on without storing`});
      return null;
    });
}

/** The first difference between a source and what is stored of it. */
function differs(open, meta) {
  for (const what of Object.keys({...open.version, ...meta.version})) {
    const found = open.version[what] ?? null;
    const expected = meta.version[what] ?? null;
    if (found !== expected) return {what, found, expected};
  }
  const same =
    open.chunks.length === meta.chunks.length && open.chunks.every((chunk, i) => chunk.bytes === meta.chunks[i].bytes);
  return same ? null : {what: 'chunks', found: open.chunks.length, expected: meta.chunks.length};
}

async function hasRoom(open, store, {onNotice}) {
  const {usage, quota} = await store.estimate();
  if (open.size <= quota - usage) return true;
  onNotice({
    code: 'NO_STORAGE',
    message:
      `${open.name} cannot be stored: it has ${open.size} bytes, and ${Math.max(0, quota - usage)} are ` +
      `left for this site (${usage} of ${quota} in use); loading goes on without storing`
  });
  return false;
}

async function readerOf(open, stored, options, unlock) {
  const release = async () => {
    await open.close();
    unlock();
  };
  return reader(open, stored, options, release);
}

function reader(open, stored, {signal, onProgress, onNotice}, release) {
  const {local, lanes, parts, ordered, layout, experts = null, readNow = null} = open;
  const how = {stored, local, lanes, parts, ordered, signal, onProgress, onNotice, release};
  const chunks = new ChunkReader(open.chunks, how);
  return {
    name: open.name,
    id: stored?.meta.id ?? null,
    manifest: open.manifest ?? null,
    reader: layout ? new RangeReader(chunks, layout) : chunks,
    experts: experts && {experts, stored, readNow}
  };
}
