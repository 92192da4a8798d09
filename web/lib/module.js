/** Making an instance of the WebAssembly module: one thread or several, in a browser's worker or under Node. */
import {TernError} from './errors.js';

const here = new URL('./wasm/', import.meta.url);
const underNode = typeof process === 'object' && Boolean(process.versions?.node);

/** Under Node the core reads its files itself; a browser fetches them. */
async function nodeOptions(name) {
  const {readFile} = await import('node:fs/promises');
  const {fileURLToPath} = await import('node:url');
  return {
    wasmBinary: await readFile(new URL(`${name}.wasm`, here)),
    locateFile: (file) => fileURLToPath(new URL(file.replace(/\.worker\.js$/, '.worker.cjs'), here)),
  };
}

/** Whether WebAssembly can have threads here: shared memory, which pages have when they are cross-origin isolated. */
export function threadsAvailable() {
  return typeof SharedArrayBuffer === 'function' && (underNode || globalThis.crossOriginIsolated === true);
}

/** Threads that wait for work do not keep Node from ending. */
function letGo({PThread}) {
  for (const worker of [...(PThread?.unusedWorkers ?? []), ...(PThread?.runningWorkers ?? [])]) worker.unref?.();
}

/**
 * @param {{threads?: number, gpu?: object | null}} [options]
 * @returns {Promise<any>} Emscripten's module
 */
export async function createModule({threads = 1, gpu = null} = {}) {
  if (!Number.isInteger(threads) || threads < 1 || threads > 64) {
    throw new TernError('INVALID_ARGUMENT', `${threads} threads: a whole number from 1 to 64 expected`);
  }
  if (threads > 1 && !threadsAvailable()) {
    throw new TernError('UNSUPPORTED', `${threads} threads: this page is not cross-origin isolated, so there is 1`);
  }
  const name = threads > 1 ? 'tern-threads' : 'tern';
  const {default: create} = await import(`./wasm/${name}.js`);
  const files = underNode ? await nodeOptions(name) : {locateFile: (file) => new URL(file, here).href};
  try {
    const module = await create({...files, threads, gpu});
    if (underNode) letGo(module);
    return module;
  } catch (cause) {
    throw new TernError('UNSUPPORTED', `WebAssembly cannot start: ${cause?.message ?? cause}`, {cause});
  }
}
