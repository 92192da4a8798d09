/** What an error means to the person, and what can be done: pure text by error code. */

export const TITLES = {
  INVALID_ARGUMENT: 'That cannot be used',
  OUT_OF_MEMORY: 'There is not enough memory',
  IO: 'Reading failed',
  NOT_FOUND: 'Not found',
  MALFORMED: 'This file is damaged, or no model',
  UNSUPPORTED: 'Tern cannot run this',
  LIMIT: 'This device is too small for the model',
  CONTEXT_FULL: 'The context is full',
  CANCELLED: 'Stopped',
  INTERNAL: 'Tern failed',
  NOT_FINITE: 'The model made numbers that are none',
  NETWORK: 'The download failed',
  CORRUPT: 'The bytes are not those that were promised',
  NO_WEBGPU: 'This browser has no WebGPU',
  INSECURE_CONTEXT: 'This page was not opened securely',
  NO_ADAPTER: 'WebGPU found no GPU that it can use',
  DEVICE_LOST: 'The GPU was lost',
  NO_STORAGE: 'The model cannot be kept in this browser',
};

const ADVICE = {
  OUT_OF_MEMORY: 'Close other tabs, choose a shorter context, or a smaller model.',
  LIMIT: 'Choose a shorter context, a smaller model, or the CPU.',
  CONTEXT_FULL: 'Begin a new conversation, shorten it, or load the model with a longer context.',
  NETWORK: 'What has arrived is kept where this browser can store it: loading again goes on there.',
  CORRUPT: 'The damaged part is fetched again when you load again.',
  NO_WEBGPU: 'The CPU runs the model instead, slower. The device panel lists browsers with WebGPU.',
  INSECURE_CONTEXT:
    'Browsers give the GPU, storage and offline use to https:// and http://localhost alone. Open the page that way, ' +
    'as `make web-serve` does; until then the CPU runs the model.',
  NO_ADAPTER:
    'The driver may be too old, or blocked by the browser: chrome://gpu says why. The CPU runs the model, slower.',
  DEVICE_LOST:
    'The driver was restarted, or the GPU ran out of memory. The conversation is still here: load the model again.',
  NO_STORAGE: 'Free space under "In this browser", or go on without keeping it.',
  NOT_FINITE: 'The file may be damaged, or the GPU may compute wrongly: load the model on the CPU to see which.',
  INTERNAL: 'This is a defect of Tern: the text under Device, "Copy as text", helps to mend it.',
};

/** What a load says besides, and goes on. */
const HINTS = {
  NETWORK: 'The network did not answer: the stored copy is used',
  BUSY: 'Another tab is loading this model',
  CHANGED: 'The model has changed since it was stored',
  NO_STORAGE: 'The model is not kept in this browser',
  CORRUPT: 'A stored part was damaged',
  UNSUPPORTED: 'The CPU runs the model',
};
export const hintTitle = (code) => HINTS[code] ?? TITLES[code] ?? 'Note';

/** @param {{code?: string, message?: string}} error @returns {{title: string, text: string, advice: string}} */
export function explain(error) {
  const code = error?.code ?? 'INTERNAL';
  const title = error?.title ?? TITLES[code] ?? TITLES.INTERNAL;
  return {title, text: String(error?.message ?? error), advice: ADVICE[code] ?? ''};
}

/** Whether loading the same again can help. */
export const canRetry = (code) =>
  ['NETWORK', 'CORRUPT', 'IO', 'DEVICE_LOST', 'OUT_OF_MEMORY', 'NO_STORAGE', 'INTERNAL'].includes(code);

/** Whether the CPU may do what the GPU did not. */
export const cpuHelps = (code) =>
  ['NO_WEBGPU', 'INSECURE_CONTEXT', 'NO_ADAPTER', 'DEVICE_LOST', 'LIMIT', 'OUT_OF_MEMORY'].includes(code);
