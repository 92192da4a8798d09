/** Making an instance of the WebAssembly module: one thread or several, in a browser's worker or under Node. */
import {TernError} from './errors.js';
import {importUnderNode, isElsewhere, isNode, threadsAvailable} from './platform.js';

/** Each written out, so that bundlers find it. */
const FILES = {
  'tern.js': new URL('./wasm/tern.js', import.meta.url),
  'tern.wasm': new URL('./wasm/tern.wasm', import.meta.url),
  'tern-threads.js': new URL('./wasm/tern-threads.js', import.meta.url),
  'tern-threads.wasm': new URL('./wasm/tern-threads.wasm', import.meta.url),
  'tern-threads.worker.js': new URL('./wasm/tern-threads.worker.js', import.meta.url),
};

/** Under Node the core reads its files itself; a browser fetches them. */
async function nodeOptions(name) {
  const {readFile} = await importUnderNode('node:fs/promises');
  const {fileURLToPath} = await importUnderNode('node:url');
  return {
    wasmBinary: await readFile(FILES[`${name}.wasm`]),
    locateFile: (file) => fileURLToPath(FILES[file]).replace(/\.worker\.js$/, '.worker.cjs'),
  };
}

/** `mainScriptUrlOrBlob`: what the threads' workers import. */
const browserOptions = (name) => ({
  locateFile: (file) => (file.endsWith('.worker.js') ? ownScript(FILES[file].href) : FILES[file].href),
  mainScriptUrlOrBlob: FILES[`${name}.js`].href,
});

const scriptUrl = (text) => URL.createObjectURL(new Blob([text], {type: 'text/javascript'}));

/** What a worker of this page can be made of: neither a data: URL, as bundlers write, nor another server's script. */
function ownScript(url) {
  const [, base64] = /^data:[^,]*;base64,(.*)$/s.exec(url) ?? [];
  if (base64) return scriptUrl(atob(base64));
  return isElsewhere(url) ? scriptUrl(`importScripts(${JSON.stringify(url)});`) : url;
}

/** Threads that wait for work do not keep Node from ending. */
function letGo({PThread}) {
  for (const worker of [...(PThread?.unusedWorkers ?? []), ...(PThread?.runningWorkers ?? [])]) worker.unref?.();
}

/**
 * @param {{threads?: number, gpu?: object | null, experts?: import('./experts.js').ExpertHost | null}} [options]
 * @returns {Promise<any>} Emscripten's module
 */
export async function createModule({threads = 1, gpu = null, experts = null} = {}) {
  if (!Number.isInteger(threads) || threads < 1 || threads > 64) {
    throw new TernError('INVALID_ARGUMENT', `${threads} threads: a whole number from 1 to 64 expected`);
  }
  if (threads > 1 && !threadsAvailable()) {
    throw new TernError('UNSUPPORTED', `${threads} threads: this page is not cross-origin isolated, so there is 1`);
  }
  const name = threads > 1 ? 'tern-threads' : 'tern';
  const {default: create} = await import(/* webpackIgnore: true */ /* @vite-ignore */ FILES[`${name}.js`].href);
  const files = isNode ? await nodeOptions(name) : browserOptions(name);
  try {
    const module = await create({...files, threads, gpu, experts});
    if (isNode) letGo(module);
    return module;
  } catch (cause) {
    throw new TernError('UNSUPPORTED', `WebAssembly cannot start: ${cause?.message ?? cause}`, {cause});
  }
}
