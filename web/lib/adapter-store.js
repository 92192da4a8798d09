/**
 * LoRA adapters kept in the origin's private file system, beside the models: tern-adapters/ID/ has meta.json and each
 * file of the adapter as a chunk with its SHA-256. People call them by name; the id is made of that.
 */

import {ModelStore, idOf} from './cache.js';
import {TernError} from './errors.js';
import {sha256} from './sha256.js';

const KIND = Object.freeze({
  folder: 'tern-adapters',
  noun: 'adapter',
  again: 'delete it, and store it again from where it came from'
});
const NAME_CHARACTERS = 100;

/** Errors: NO_STORAGE. @param {{storage?: any, locks?: any}} [platform] */
const open = (platform) => ModelStore.open(platform, KIND);

/** @returns {Promise<import('./index.js').StoredAdapter[]>} the last used first. Errors: NO_STORAGE. */
export async function listAdapters(platform) {
  const store = await open(platform);
  return Promise.all(
    (await store.list()).map(async (found) => describe(found, (await store.find(found.id))?.meta.chunks ?? []))
  );
}

/** One with a meta.json that cannot be read has its id for a name, and no files. */
function describe({id, name, source, bytes, complete, usedAt}, chunks) {
  const files = chunks.map(({file, bytes: size, sha256: sum}) => ({name: file, bytes: size, sha256: sum}));
  return {id, name, source, bytes, complete, files, usedAt};
}

/**
 * Keeps an adapter. The same files under the same name again are no error.
 * @param {{name: string, bytes: Uint8Array}[]} files
 * @param {{name: string, source: string}} about `source`: where it came from, for people
 * @returns {Promise<import('./index.js').StoredAdapter>}
 * Errors: INVALID_ARGUMENT (no name; another adapter has it), NO_STORAGE (nothing is left behind then), IO.
 */
export async function storeAdapter(files, {name, source}, platform) {
  checkName(name);
  const store = await open(platform);
  const id = await idOf(name, name);
  const unlock = await locked(store, id, 'exclusive');
  try {
    const sums = await Promise.all(files.map(({bytes}) => sha256(bytes)));
    const kept = await store.find(id);
    if (!kept?.complete) await write(store, {id, name, source}, files, sums);
    else if (!isSame(kept.meta, sums)) throw taken(name, kept.meta);
  } finally {
    unlock();
  }
  return /** @type {any} */ ((await listAdapters(platform)).find((each) => each.id === id));
}

function checkName(name) {
  if (typeof name === 'string' && name.trim() !== '' && name.length <= NAME_CHARACTERS) return;
  const found = typeof name === 'string' ? `a text of ${name.length} characters` : String(name);
  throw new TernError(
    'INVALID_ARGUMENT',
    `the name of the adapter is ${found}, expected a text of 1 to ${NAME_CHARACTERS} that is not blank`
  );
}

const isSame = ({chunks}, sums) =>
  chunks.length === sums.length && chunks.every((chunk, i) => chunk.sha256 === sums[i]);

function taken(name, {chunks}) {
  const sums = chunks.map((each) => each.sha256).join(', ');
  return new TernError(
    'INVALID_ARGUMENT',
    `there is another stored adapter ${JSON.stringify(name)} (SHA-256 ${sums}): delete that first, or take another name`
  );
}

/** All of it or nothing. */
async function write(store, about, files, sums) {
  const chunks = files.map(({name, bytes}) => ({file: name, bytes: bytes.length, sha256: null}));
  const size = chunks.reduce((sum, {bytes}) => sum + bytes, 0);
  const stored = await store.create({...about, key: about.source, size, version: {}, chunks});
  try {
    for (const [i, {bytes}] of files.entries()) await stored.write(i, bytes, sums[i]);
  } catch (error) {
    await stored.discard().catch(() => {});
    throw error;
  }
}

/**
 * The files of a stored adapter, compared with their sums.
 * @param {string} name or its id @param {{signal?: AbortSignal, platform?: any}} [options]
 * @returns {Promise<{name: string, bytes: Uint8Array}[]>} Errors: NOT_FOUND, CORRUPT, NO_STORAGE, IO, CANCELLED.
 */
export async function readStoredAdapter(name, {signal, platform} = {}) {
  const store = await open(platform);
  const id = await find(store, name);
  const unlock = await locked(store, id, 'shared');
  try {
    const stored = await store.get(id);
    if (!stored.complete)
      throw new TernError('NOT_FOUND', `the stored adapter ${JSON.stringify(name)} is not complete: ${KIND.again}`);
    const files = stored.meta.chunks.map((chunk) => ({name: chunk.file, bytes: new Uint8Array(chunk.bytes)}));
    for (const [i, {bytes}] of files.entries()) await stored.read(i, bytes, {signal});
    await stored.touch();
    return files;
  } finally {
    unlock();
  }
}

/** Errors: NOT_FOUND; IO (it is being read or written); NO_STORAGE. @param {string} name or its id */
export async function deleteAdapter(name, platform) {
  const store = await open(platform);
  await store.delete(await find(store, name));
}

/** The id of what is called so. Errors: NOT_FOUND, with the names that there are. */
async function find(store, name) {
  const all = await store.list();
  const found = all.find((each) => each.name === name) ?? all.find((each) => each.id === name);
  if (found) return found.id;
  const names = all.map((each) => JSON.stringify(each.name)).join(', ');
  throw new TernError(
    'NOT_FOUND',
    `there is no stored adapter ${JSON.stringify(name)}; stored are: ${names || 'none'}`
  );
}

async function locked(store, id, mode) {
  const unlock = await store.lock(id, {mode, ifAvailable: true});
  if (unlock) return unlock;
  throw new TernError('IO', `the stored adapter ${id} is in use, here or in another tab: try again then`);
}
