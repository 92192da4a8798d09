/** Conversations kept in this browser (IndexedDB; where there is none, until the page is closed). */

const DATABASE = 'tern-conversations';
const STORE = 'conversations';
/** @type {Map<string, import('./conversation.js').Kept>} */
const here = new Map();

const settled = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

function openDatabase() {
  const request = indexedDB.open(DATABASE, 1);
  request.onupgradeneeded = () => request.result.createObjectStore(STORE, {keyPath: 'id'});
  return settled(request);
}

/** @type {Promise<IDBDatabase> | null} */
let database = null;

async function ask(mode, action, instead) {
  try {
    const opened = await (database ??= openDatabase());
    return await settled(action(opened.transaction(STORE, mode).objectStore(STORE)));
  } catch {
    return instead();
  }
}

/** Title and time of each, the newest first. */
export async function list() {
  const all = await ask(
    'readonly',
    (store) => store.getAll(),
    () => [...here.values()],
  );
  return all.sort((a, b) => b.changed - a.changed).map(({id, title, changed}) => ({id, title, changed}));
}

/** @returns {Promise<import('./conversation.js').Kept | undefined>} */
export const get = (id) =>
  ask(
    'readonly',
    (store) => store.get(id),
    () => here.get(id),
  );

/** @param {import('./conversation.js').Kept} kept */
export const put = (kept) =>
  ask(
    'readwrite',
    (store) => store.put(kept),
    () => here.set(kept.id, kept),
  );

export const remove = (id) =>
  ask(
    'readwrite',
    (store) => store.delete(id),
    () => here.delete(id),
  );
