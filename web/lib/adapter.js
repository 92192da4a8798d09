/**
 * The files of an adapter, whole in memory: a GGUF file, or adapter_config.json and adapter_model.safetensors as PEFT
 * writes them.
 */

import {readStoredAdapter} from './adapter-store.js';
import {TernError, bytesFor} from './errors.js';
import {openFile} from './source.js';

const PEFT = ['adapter_config.json', 'adapter_model.safetensors'];
const MOST_BYTES = 1 << 30;

/**
 * @param {string | URL | File | File[] | Uint8Array | {stored: string}} source a URL
 *   (or path) that ends in / or /adapter_config.json means both files of PEFT
 * @param {{signal?: AbortSignal, http?: object, platform?: any}} [options]
 * @returns {Promise<{name: string, bytes: Uint8Array}[]>}
 */
export async function readAdapter(source, options = {}) {
  if (source instanceof Uint8Array) return [{name: 'adapter.gguf', bytes: source}];
  if (isStored(source)) return readStoredAdapter(source.stored, options);
  const parts = partsOf(source);
  const out = [];
  for (const part of parts) out.push(await readWhole(part, options));
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
