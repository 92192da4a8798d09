/** What the place that this runs in offers. */
import {TernError} from './errors.js';

export const isNode = typeof process === 'object' && Boolean(process.versions?.node);

/**
 * A module that only Node has: bundlers for browsers leave it alone.
 * @param {string} name @returns {Promise<any>}
 */
export const importUnderNode = (name) => import(/* webpackIgnore: true */ /* @vite-ignore */ name);

/** Whether a script lies on another server than the page, which no worker may be made of. @param {string} url */
export const isElsewhere = (url) => /^https?:/.test(url) && new URL(url).origin !== globalThis.location.origin;

/** Why no worker for the core can be made here; null: one can. */
export function whyNoWorker() {
  if (isNode || typeof Worker === 'function') return null;
  const scope = globalThis.constructor.name;
  return new TernError(
    'UNSUPPORTED',
    `no worker can be made here (Worker is not defined in ${scope}): load the model in a page, in a worker that a ` +
      'page has made, or in the offscreen document of an extension'
  );
}

/** More threads than this do not help a model that waits for memory. */
const MOST_THREADS = 16;

/** Whether WebAssembly can have threads: shared memory, which pages have when they are cross-origin isolated. */
export const threadsAvailable = () =>
  typeof SharedArrayBuffer === 'function' && (isNode || globalThis.crossOriginIsolated === true);

/** Of the CPU, for the core; 1 where there are no threads. */
export async function defaultThreads() {
  if (!threadsAvailable()) return 1;
  const cores = isNode
    ? (await importUnderNode('node:os')).availableParallelism()
    : globalThis.navigator?.hardwareConcurrency;
  return Math.max(1, Math.min(MOST_THREADS, cores || 1));
}

export const isIsolated = () => isNode || globalThis.crossOriginIsolated === true;

/** @returns {import('./index.js').DeviceInfo} of the CPU */
export function cpuInfo(threads) {
  return {
    backend: 'cpu',
    vendor: '',
    architecture: isNode ? process.arch : '',
    description: 'WebAssembly with SIMD128',
    features: [],
    limits: {},
    threads,
    crossOriginIsolated: isIsolated(),
    bandwidth: null
  };
}

/**
 * @param {{vendor: string, architecture: string, description: string, features: string[], limits: Record<string,
 *   number>}} info
 */
export function gpuInfo(info, threads) {
  return {backend: 'webgpu', ...info, threads, crossOriginIsolated: isIsolated(), bandwidth: null};
}
