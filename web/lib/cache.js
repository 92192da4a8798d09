/** Models kept in the origin's private file system (OPFS): tern-models/ID/ holds meta.json and chunk_NNN.bin; adapters
 * likewise (adapter-store.js); of a package by expert also its manifest.json, and all experts in experts.bin.
 *
 * A chunk counts when meta.json has its SHA-256, which is written later: what is interrupted leaves a folder
 * that is right, where the next load goes on. One writer at a time, over all tabs (Web Locks).
 *
 * @typedef {{bytes: number, sha256: string | null, file?: string, at?: number}} ChunkMeta `file`: of an adapter; `at`:
 *   of an expert, where it begins in experts.bin
 * @typedef {{format: 1, id: string, name: string, key: string, size: number, version: Record<string, any>, chunks:
 *   ChunkMeta[], parts?: {name: string, bytes: number}[] | null, partial: Partial[], usedAt: number}} Meta `parts`: of
 *   a model whose file is split
 * @typedef {{index: number, bytes: number, sha256: string}} Partial the start of a chunk
 */

import {TernError, throwIfAborted} from './errors.js';
import {sha256} from './sha256.js';

/** What a store holds. `again`: how one that is damaged is made whole. */
const MODELS = Object.freeze({
  folder: 'tern-models',
  noun: 'model',
  again: 'it is fetched again when the model is loaded next'
});
/** Read at once. */
const PIECE_BYTES = 4 << 20;
const META = 'meta.json';
const META_NEXT = 'meta.json.next';

const MANIFEST = 'manifest.json';
const EXPERTS = 'experts.bin';

const chunkName = (index) => `chunk_${String(index).padStart(3, '0')}.bin`;

/** The id of what was loaded from `key`. @param {string} name @param {string} key */
export async function idOf(name, key) {
  const slug = name
    .toLowerCase()
    .replace(/\.(gguf|json)$/, '')
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 40);
  return `${slug || 'model'}-${(await sha256(new TextEncoder().encode(key))).slice(0, 12)}`;
}

export class ModelStore {
  /**
   * Errors: NO_STORAGE (there is no OPFS here, or the browser refuses it).
   * @param {{storage?: any, locks?: any}} [platform] navigator.storage and navigator.locks
   * @param {typeof MODELS | {folder: string, noun: string, again: string}} [kind]
   */
  static async open(platform = {}, kind = MODELS) {
    const {storage = globalThis.navigator?.storage, locks = globalThis.navigator?.locks} = platform;
    if (typeof storage?.getDirectory !== 'function') {
      throw new TernError(
        'NO_STORAGE',
        'there is no private file system here (navigator.storage.getDirectory is missing: ' +
          'not a browser, an old one, or a page that is not in a secure context), ' +
          `so that ${kind.noun}s cannot be kept`
      );
    }
    try {
      const root = await storage.getDirectory();
      return new ModelStore(await root.getDirectoryHandle(kind.folder, {create: true}), storage, locks, kind);
    } catch (error) {
      throw new TernError(
        'NO_STORAGE',
        `the browser refuses its private file system (${error.name}: ${error.message}), ` +
          `so that ${kind.noun}s cannot be kept; private windows often do`,
        {cause: error}
      );
    }
  }

  constructor(folder, storage, locks, kind) {
    this.kind = kind;
    this.folder = folder;
    this.storage = storage;
    this.locks = locks;
  }

  /** @returns {Promise<import('./index.js').StoredModel[]>} the last used first */
  async list() {
    const out = [];
    for await (const [id, handle] of this.folder.entries()) {
      if (handle.kind === 'directory') out.push(await describe(id, handle));
    }
    return out.sort((a, b) => b.usedAt.getTime() - a.usedAt.getTime());
  }

  /** Errors: NOT_FOUND; IO (it is being loaded, here or in another tab). @param {string} id */
  async delete(id) {
    await this.#existing(id);
    const unlock = await this.lock(id, {mode: 'exclusive', ifAvailable: true});
    const what = `the stored ${this.kind.noun} ${id}`;
    if (!unlock) throw new TernError('IO', `${what} is being loaded, here or in another tab: stop that first`);
    try {
      await this.folder.removeEntry(id, {recursive: true});
    } catch (error) {
      throw new TernError('IO', `${what} cannot be deleted: ${error.message}`, {cause: error});
    } finally {
      unlock();
    }
  }

  /** Bytes in use and allowed, for all of this origin. */
  async estimate() {
    const {usage = 0, quota = 0} = await this.storage.estimate();
    return {usage, quota};
  }

  /**
   * Waits for the lock of a model.
   * @param {string} id @param {{mode: 'exclusive' | 'shared', ifAvailable?: boolean, signal?: AbortSignal}} options
   * @returns {Promise<(() => void) | null>} gives it back; null: not available
   */
  lock(id, options) {
    if (!this.locks) return Promise.resolve(() => {});
    const {signal, ...rest} = options;
    const {noun} = this.kind;
    return new Promise((resolve, reject) => {
      const held = (lock) => (lock ? new Promise((release) => resolve(() => release(undefined))) : resolve(null));
      const how = signal && !rest.ifAvailable ? {...rest, signal} : rest;
      this.locks.request(`tern-${noun} ${id}`, how, held).catch((error) => {
        const cancelled = () => new TernError('CANCELLED', `waiting for the stored ${noun} ${id} was cancelled`);
        reject(signal?.aborted ? cancelled() : error);
      });
    });
  }

  /** What is stored under an id, or null. Errors: NO_STORAGE. @param {string} id */
  async find(id) {
    const handle = await this.#folderOf(id);
    const meta = handle && (await readMeta(handle));
    return meta ? new StoredChunks(this, handle, meta) : null;
  }

  /** As find; NOT_FOUND where there is none. */
  async get(id) {
    await this.#existing(id);
    const found = await this.find(id);
    if (found) return found;
    throw new TernError(
      'NOT_FOUND',
      `the stored ${this.kind.noun} ${id} has no readable ${META}: delete it, and load it again from where it came from`
    );
  }

  /**
   * A folder for this model, empty but for what meta.json says.
   * @param {Omit<Meta, 'format' | 'partial' | 'usedAt'>} meta @param {string | null} [manifest] of a package by expert
   */
  async create(meta, manifest = null) {
    await this.remove(meta.id);
    const stored = new StoredChunks(this, null, {format: 1, partial: [], usedAt: Date.now(), ...meta});
    await stored.saving(async () => {
      stored.handle = await this.folder.getDirectoryHandle(meta.id, {create: true});
      if (manifest !== null) await writeFile(stored.handle, MANIFEST, new TextEncoder().encode(manifest));
      await stored.save();
    });
    return stored;
  }

  async remove(id) {
    if (await this.#folderOf(id)) await this.folder.removeEntry(id, {recursive: true});
  }

  async #folderOf(id) {
    return this.folder.getDirectoryHandle(id).catch(() => null);
  }

  async #existing(id) {
    if (typeof id === 'string' && id !== '' && (await this.#folderOf(id))) return;
    const ids = (await this.list()).map((model) => model.id).join(', ');
    const {noun} = this.kind;
    throw new TernError('NOT_FOUND', `there is no stored ${noun} ${JSON.stringify(id)}; stored are: ${ids || 'none'}`);
  }
}

export class StoredChunks {
  /** @param {ModelStore} store @param {any} handle @param {Meta} meta */
  constructor(store, handle, meta) {
    this.store = store;
    this.handle = handle;
    this.meta = meta;
    /** Ends when what was written before is there. */
    this.turn = Promise.resolve();
  }

  /** One after the other: what changes meta.json. @template T @param {() => Promise<T>} action @returns {Promise<T>} */
  #inTurn(action) {
    const result = this.turn.then(action);
    this.turn = result.then(
      () => {},
      () => {}
    );
    return result;
  }

  get complete() {
    return this.meta.chunks.every((chunk) => chunk.sha256 !== null);
  }

  has(index) {
    return this.meta.chunks[index].sha256 !== null;
  }

  /** The file of a chunk, and where it begins there; -1: it is all of it. */
  #place(index) {
    const {at} = this.meta.chunks[index];
    return at === undefined ? {name: chunkName(index), at: -1} : {name: EXPERTS, at};
  }

  /** The text of a package's manifest, or null. */
  async manifest() {
    const handle = await this.handle.getFileHandle(MANIFEST).catch(() => null);
    return handle && (await (await handle.getFile()).text());
  }

  /**
   * All experts, to be read without waiting; the caller's to close.
   * @returns {Promise<{read(into: Uint8Array, where: {at: number}): number, close(): void} | null>} null: not a worker,
   *   or somebody else has the file open and the browser knows no shared access
   */
  async openExperts() {
    const handle = await this.handle.getFileHandle(EXPERTS).catch(() => null);
    return handle && readAccess(handle);
  }

  /** Bytes of whole chunks that are stored. */
  get stored() {
    return this.meta.chunks.reduce((sum, chunk) => sum + (chunk.sha256 === null ? 0 : chunk.bytes), 0);
  }

  /** Fills `into` with a stored chunk and compares its sum. Errors: CORRUPT; the chunk is no longer stored then. */
  async read(index, into, {signal, onBytes} = {}) {
    const expected = this.meta.chunks[index];
    const found = await readFile(this.handle, this.#place(index), into, {signal, onBytes}).catch((error) => {
      if (error instanceof TernError) throw error;
      return `it cannot be read (${error.message})`;
    });
    const fault = found ?? (await compare(into, expected.sha256));
    if (fault === null) return;
    await this.forget(index);
    throw new TernError(
      'CORRUPT',
      `chunk ${index} of ${this.meta.chunks.length} of the stored ${this.store.kind.noun} ${this.meta.id} is ` +
        `damaged: ${fault}; ${this.store.kind.again}`
    );
  }

  /** Errors: NO_STORAGE. @param {number} index @param {Uint8Array} bytes @param {string} sum */
  async write(index, bytes, sum) {
    await this.#saveChunk(index, bytes, () => {
      this.meta.chunks[index].sha256 = sum;
    });
  }

  /** Keeps the start of a chunk. Errors: NO_STORAGE. */
  async writePartial(index, bytes) {
    const sum = await sha256(bytes);
    await this.#saveChunk(index, bytes, () => this.#notePartial(index, [{index, bytes: bytes.length, sha256: sum}]));
  }

  #notePartial(index, those) {
    this.meta.partial = [...this.meta.partial.filter((each) => each.index !== index), ...those];
  }

  #saveChunk(index, bytes, note) {
    return this.#inTurn(() => this.#saveNow(index, bytes, note));
  }

  /** What could not be written whole does not stay. */
  async #saveNow(index, bytes, note) {
    try {
      await this.saving(async () => {
        const {name, at} = this.#place(index);
        await writeFile(this.handle, name, bytes, at);
        note();
        await this.save();
      }, bytes.length);
    } catch (error) {
      this.meta.chunks[index].sha256 = null;
      if (this.#place(index).at < 0) await this.handle.removeEntry(chunkName(index)).catch(() => {});
      if (this.stored === 0) await this.discard().catch(() => {});
      throw error;
    }
  }

  /**
   * How many bytes of the chunk's start were kept; they are in `into` then. What does not match its sum counts as
   * none.
   */
  readPartial(index, into) {
    return this.#inTurn(() => this.#readPartialNow(index, into));
  }

  async #readPartialNow(index, into) {
    const partial = this.meta.partial.find((each) => each.index === index);
    if (!partial || partial.bytes > into.length) return 0;
    const start = into.subarray(0, partial.bytes);
    const fault = await readFile(this.handle, this.#place(index), start).catch((error) => error.message);
    return (fault ?? (await compare(start, partial.sha256))) === null ? partial.bytes : 0;
  }

  async forget(index) {
    this.meta.chunks[index].sha256 = null;
    await this.#inTurn(() => this.save());
  }

  async discard() {
    await this.store.remove(this.meta.id);
  }

  /** Used now. A failure costs the date alone. */
  async touch() {
    this.meta.usedAt = Date.now();
    await this.save().catch(() => {});
  }

  /** meta.json appears whole: written beside it and moved. */
  async save() {
    const text = new TextEncoder().encode(JSON.stringify(this.meta));
    await writeFile(this.handle, META_NEXT, text);
    const next = await this.handle.getFileHandle(META_NEXT);
    if (await moved(next, META)) return;
    await writeFile(this.handle, META, text);
    await this.handle.removeEntry(META_NEXT);
  }

  /** Turns what the browser says into NO_STORAGE, with the numbers. */
  async saving(action, bytes = 0) {
    try {
      await action();
    } catch (error) {
      const {usage, quota} = await this.store.estimate().catch(() => ({usage: NaN, quota: NaN}));
      const full = error?.name === 'QuotaExceededError';
      throw new TernError(
        'NO_STORAGE',
        `${this.meta.name} cannot be stored: ${full ? 'the quota is reached' : error.message} ` +
          `(${bytes} bytes to write of ${this.meta.size} in all, ${usage} of ${quota} bytes in use by this site)`,
        {cause: error}
      );
    }
  }
}

/** @returns {Promise<string | null>} what is wrong */
async function compare(bytes, expected) {
  const found = await sha256(bytes);
  return found === expected ? null : `its SHA-256 is ${found}, expected ${expected}`;
}

/** @returns {Promise<string | null>} what is wrong */
async function readFile(folder, {name, at}, into, options = {}) {
  const handle = await folder.getFileHandle(name);
  const access = await readAccess(handle);
  if (access) return readInPlace(access, at, into, options);
  const file = await handle.getFile();
  return readStream(at < 0 ? file : file.slice(at, at + into.length), name, into, options);
}

/** In a worker, unless another tab has the file open and the browser knows no shared access; else null. */
async function readAccess(handle) {
  if (typeof handle.createSyncAccessHandle !== 'function') return null;
  return handle.createSyncAccessHandle({mode: 'read-only'}).catch(() => null);
}

function readInPlace(access, from, into, {signal, onBytes}) {
  try {
    const size = access.getSize();
    if (from < 0 && size !== into.length) return `it has ${size} bytes, expected ${into.length}`;
    for (let at = 0; at < into.length;) {
      throwIfAborted(signal, 'reading a stored chunk');
      const n = access.read(into.subarray(at, at + PIECE_BYTES), {at: Math.max(from, 0) + at});
      if (!(n > 0)) return `it ended after ${at} bytes, expected ${into.length}`;
      at += n;
      onBytes?.(n);
    }
    return null;
  } finally {
    access.close();
  }
}

async function readStream(file, name, into, {signal, onBytes}) {
  if (file.size !== into.length) return `it has ${file.size} bytes, expected ${into.length}`;
  const reader = file.stream().getReader();
  for (let at = 0; ;) {
    if (signal?.aborted) reader.cancel().catch(() => {});
    throwIfAborted(signal, `reading ${name}`);
    const {done, value} = await reader.read();
    if (done) return at === into.length ? null : `it ended after ${at} bytes, expected ${into.length}`;
    into.set(value, at);
    at += value.length;
    onBytes?.(value.length);
  }
}

/** In a worker through a handle that writes in place, else through a stream. `from` -1: the bytes are the file. */
async function writeFile(folder, name, bytes, from = -1) {
  const handle = await folder.getFileHandle(name, {create: true});
  if (typeof handle.createSyncAccessHandle === 'function')
    return writeInPlace(await handle.createSyncAccessHandle(), bytes, from);
  const stream = await handle.createWritable({keepExistingData: from >= 0});
  try {
    await stream.write(from < 0 ? bytes : {type: 'write', position: from, data: bytes});
  } catch (error) {
    await stream.abort().catch(() => {});
    throw error;
  }
  return stream.close();
}

function writeInPlace(access, bytes, from) {
  try {
    if (from < 0) access.truncate(0);
    for (let at = 0; at < bytes.length;) {
      const n = access.write(bytes.subarray(at), {at: Math.max(from, 0) + at});
      if (!(n > 0)) throw new DOMException(`${n} bytes written at ${at} of ${bytes.length}`, 'QuotaExceededError');
      at += n;
    }
    access.flush();
  } finally {
    access.close();
  }
}

/** False where the browser cannot move files, or not onto others. */
async function moved(handle, name) {
  return (
    typeof handle.move === 'function' &&
    handle.move(name).then(
      () => true,
      () => false
    )
  );
}

/** meta.json, or the one that was about to replace it; null: neither can be used. @returns {Promise<Meta | null>} */
async function readMeta(folder) {
  for (const name of [META, META_NEXT]) {
    try {
      const meta = JSON.parse(await (await (await folder.getFileHandle(name)).getFile()).text());
      if (isMeta(meta)) return {...meta, partial: [meta.partial ?? []].flat()};
    } catch {
      /* missing or cut off: the other one */
    }
  }
  return null;
}

const sumOf = (list) => list.reduce((sum, {bytes}) => sum + bytes, 0);

function isMeta(meta) {
  const {chunks, parts} = meta ?? {};
  return (
    meta?.format === 1 &&
    typeof meta.key === 'string' &&
    typeof meta.name === 'string' &&
    Array.isArray(chunks) &&
    chunks.every(
      ({bytes, sha256: sum}) => Number.isInteger(bytes) && bytes > 0 && (sum === null || typeof sum === 'string')
    ) &&
    meta.size === sumOf(chunks) &&
    (!parts || (Array.isArray(parts) && sumOf(parts) === meta.size))
  );
}

/** @returns {Promise<import('./index.js').StoredModel>} */
async function describe(id, folder) {
  const meta = await readMeta(folder);
  const stored = await sizeOf(folder);
  if (!meta) return {id, name: id, source: '', bytes: 0, complete: false, stored, usedAt: new Date(0)};
  const complete = meta.chunks.every((chunk) => chunk.sha256 !== null);
  return {id, name: meta.name, source: meta.key, bytes: meta.size, complete, stored, usedAt: new Date(meta.usedAt)};
}

async function sizeOf(folder) {
  let sum = 0;
  for await (const [name, handle] of folder.entries()) {
    if (handle.kind === 'file' && (name.startsWith('chunk_') || name === EXPERTS)) sum += (await handle.getFile()).size;
  }
  return sum;
}
