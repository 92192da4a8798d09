/** Tern beside llama.cpp on the same file, in turns, on two threads each (THREADS):
 *
 *     TERN=../../build/release/tern node peer.bench.mjs FILE [TOKENS OF PROMPT [OF DECODE [TIMES]]]
 *
 * with this folder's packages installed. Prints tokens a second, best of all turns, and in brackets the ratio. Tern
 * runs with int8 activations and with f32 ones, llama.cpp has int8 alone. Caches in f16, no flash attention. */
import {execFileSync} from 'node:child_process';
import {existsSync} from 'node:fs';
import {dirname, join} from 'node:path';
import {performance} from 'node:perf_hooks';
import {fileURLToPath} from 'node:url';
import {openLlama} from './support/llama.mjs';

const [file, prompt = '512', decoded = '16', times = '2'] = process.argv.slice(2);
const threads = Number(process.env.THREADS ?? 2);
const built = join(dirname(fileURLToPath(import.meta.url)), '../../build/release/tern');
const command = process.env.TERN ?? built;
if (!file || !existsSync(file) || !existsSync(command)) {
  console.error(`found no file ${file} or no command ${command}`);
  console.error('usage: node peer.bench.mjs FILE [PROMPT [DECODE [TIMES]]]');
  process.exit(2);
}

/** Tokens a second of both phases by Tern with one kind of activations. */
function ours(activations) {
  const args = ['bench', '-m', file, '-p', prompt, '-n', decoded, '-r', '1', '-t', String(threads), '--json'];
  const all = JSON.parse(execFileSync(command, [...args, '--activations', activations], {maxBuffer: 1 << 26}));
  const run = all.results[0];
  return {prefill: run.prefill_tokens_per_second.median, decode: run.decode_tokens_per_second.median};
}

/** The same by llama.cpp: ids without meaning, greedy. */
async function theirs(model) {
  const n = Number(prompt), more = Number(decoded);
  const context = await model.createContext({
    contextSize: n + more + 8, batchSize: n, threads: {ideal: threads, min: threads}, flashAttention: false
  });
  const sequence = context.getSequence();
  const ids = Array.from({length: n}, (_, i) => (i * 37 + 5) % 256);
  let start = performance.now();
  await sequence.evaluateWithoutGeneratingNewTokens(ids);
  const prefill = n / (performance.now() - start) * 1000;
  let count = -1; // the first one's time is not that of a step
  for await (const _ of sequence.evaluate([7], {temperature: 0, yieldEogToken: true})) {
    if (++count === 0) start = performance.now();
    if (count === more) break;
  }
  const decode = more / (performance.now() - start) * 1000;
  await context.dispose();
  return {prefill, decode};
}

const best = {};
const keep = (name, rates) => {
  for (const phase of ['prefill', 'decode']) {
    best[phase] ??= {};
    best[phase][name] = Math.max(best[phase][name] ?? 0, rates[phase]);
  }
};
const llama = await openLlama((text) => console.error(text));
const model = await llama.loadModel({modelPath: file});
for (let i = 0; i < Number(times); i++) {
  keep('int8', ours('int8'));
  keep('f32', ours('f32'));
  keep('llama.cpp', await theirs(model));
}
for (const [phase, rates] of Object.entries(best)) {
  const peer = rates['llama.cpp'];
  const shown = Object.entries(rates).map(([name, rate]) => `${name} ${rate.toFixed(1)} (${(rate / peer).toFixed(2)})`);
  console.log(`${phase}: ${shown.join(', ')} tokens/s`);
}
process.exit(0);
