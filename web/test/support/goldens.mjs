// Numbers of other implementations, as the fixtures have them.
import fs from 'node:fs';
import {fileURLToPath} from 'node:url';

/** The models of tests/data/goldens with their outputs, which `npm test` has made first. */
export const FIXTURES = fileURLToPath(new URL('../../../build/web/goldens/fixtures', import.meta.url));

/** The tensors of a safetensors file: {name: {shape, data}}. */
export function safetensors(file) {
  const bytes = fs.readFileSync(file), n = Number(bytes.readBigUInt64LE(0));
  const head = JSON.parse(bytes.subarray(8, 8 + n).toString());
  const kinds = {F32: Float32Array, I32: Int32Array};
  return Object.fromEntries(Object.entries(head).filter(([name]) => name !== '__metadata__').map(([name, t]) => {
    const [from, to] = t.data_offsets.map((at) => bytes.byteOffset + 8 + n + at);
    return [name, {shape: t.shape, data: new kinds[t.dtype](bytes.buffer.slice(from, to))}];
  }));
}

/** The log-probabilities of the last position of an input. */
export function lastLogprobs(golden, input) {
  const {shape: [n, vocabulary], data} = golden[`${input}.logits`];
  const logits = Array.from(data.subarray((n - 1) * vocabulary, n * vocabulary)), most = Math.max(...logits);
  const total = most + Math.log(logits.reduce((sum, x) => sum + Math.exp(x - most), 0));
  const mean = logits.reduce((sum, x) => sum + x, 0) / vocabulary;
  const deviation = Math.sqrt(logits.reduce((sum, x) => sum + (x - mean) ** 2, 0) / vocabulary);
  return {logprobs: logits.map((x) => x - total), deviation};
}

/** How far the highest log-probabilities of a piece are from the golden's: rms, as a share of its logits' deviation. */
export function errorOf(piece, {logprobs, deviation}) {
  const squares = piece.top.reduce((sum, each) => sum + (each.logprob - logprobs[each.id]) ** 2, 0);
  return Math.sqrt(squares / piece.top.length) / deviation;
}
