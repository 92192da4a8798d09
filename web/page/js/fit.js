/** Whether a model of so many bytes fits this device. No document here. */

/** What WebAssembly can address, and what pages are given of a GPU without trouble. */
const CPU_BYTES = 4e9;
const GPU_BYTES = 8e9;
/** Beside the weights: caches, activations, the program. */
const REST_BYTES = 150e6;

/**
 * @param {number} bytes of weights
 * @param {{gpu: boolean, memory?: number}} device `memory`: GB as navigator.deviceMemory has them, at most 8; a page is
 *   given about half of what there is
 * @returns {{fits: boolean, text: string}}
 */
export function fit(bytes, {gpu, memory}) {
  const room = Math.min(gpu ? GPU_BYTES : CPU_BYTES, memory && memory < 8 ? memory * 0.5e9 : Infinity);
  const fits = bytes * 1.05 + REST_BYTES <= room;
  return {fits, text: fits ? 'fits this device' : 'too large for this device'};
}
