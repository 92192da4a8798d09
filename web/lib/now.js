/**
 * Reading that waits, for what the core asks for in the middle of a step: each gives a function that fills its second
 * parameter with the whole file, or null where the place cannot wait.
 */

import {TernError} from './errors.js';
import {importUnderNode} from './platform.js';

const isWorker = () => typeof globalThis.WorkerGlobalScope === 'function';

/** @typedef {((file: string, into: Uint8Array) => void) | null} ReadNow Errors: NETWORK, NOT_FOUND, IO. */

/** Files beside a manifest on a server: in a browser's worker. @param {string | URL} base @returns {ReadNow} */
export function urlsNow(base) {
  if (!isWorker() || typeof XMLHttpRequest !== 'function') return null;
  return (file, into) => fill(into, request(new URL(file, base).href), file);
}

function request(url) {
  const xhr = new XMLHttpRequest();
  xhr.open('GET', url, false);
  xhr.responseType = 'arraybuffer';
  try {
    xhr.send();
  } catch (error) {
    throw new TernError('NETWORK', `${url}: ${error.message}`, {cause: error});
  }
  if (xhr.status !== 200) throw new TernError('NETWORK', `${url}: HTTP status ${xhr.status}, 200 expected`);
  return new Uint8Array(xhr.response);
}

/** Picked files: in a browser's worker. @param {(file: string) => Blob} find @returns {ReadNow} */
export function blobsNow(find) {
  const {FileReaderSync} = /** @type {any} */ (globalThis);
  if (typeof FileReaderSync !== 'function') return null;
  return (file, into) => {
    const blob = find(file);
    try {
      fill(into, new Uint8Array(new FileReaderSync().readAsArrayBuffer(blob)), file);
    } catch (error) {
      if (error instanceof TernError) throw error;
      throw new TernError('IO', `${file} cannot be read: ${error.message}`, {cause: error});
    }
  };
}

/** Files of a folder: under Node. @param {string} folder @returns {Promise<ReadNow>} */
export async function pathsNow(folder) {
  const [{readFileSync}, {join}] = await Promise.all(['node:fs', 'node:path'].map(importUnderNode));
  return (file, into) => {
    try {
      fill(into, readFileSync(join(folder, file)), file);
    } catch (error) {
      if (error instanceof TernError) throw error;
      const code = error.code === 'ENOENT' ? 'NOT_FOUND' : 'IO';
      throw new TernError(code, `${join(folder, file)} cannot be read: ${error.message}`, {cause: error});
    }
  };
}

/** Errors: CORRUPT (another number of bytes). */
export function fill(into, bytes, file) {
  if (bytes.length !== into.length)
    throw new TernError('CORRUPT', `${file} has ${bytes.length} bytes, the manifest says ${into.length}`);
  into.set(bytes);
}
