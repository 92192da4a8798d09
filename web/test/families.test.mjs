// Every family on WebGPU (Dawn on SwiftShader under Node): the log-probabilities and tokens of the independent goldens.
// Of windows, soft caps, two ropes, biases, norms of heads, after blocks and before ternary layers, scaled residuals,
// LongRoPE, layers without a rope, heads that are no multiple of 8, experts, sinks and clamped gates.
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import {after, test} from 'node:test';
import {fileURLToPath} from 'node:url';

import {missing} from './support/built.mjs';
import {Gpu, noDawn, openEngine} from './support/dawn.mjs';
import {FIXTURES, errorOf, lastLogprobs, safetensors} from './support/goldens.mjs';

const REPOSITORY = fileURLToPath(new URL('../..', import.meta.url));
const MADE = path.join(REPOSITORY, 'tests/data/models');
const TERN = path.join(REPOSITORY, 'build/release/tern');
const TOP = 20, N_GREEDY = 3, INPUT = 2; // of 24: a driver in software takes its time
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tern-families-'));

async function checkLogprobs(engine, golden, budget, input) {
  const ids = Array.from(golden[`${input}.input_ids`].data);
  const options = {maxTokens: 1, temperature: 0, logprobs: true, topLogprobs: TOP};
  let piece;
  for await (const p of engine.generate(ids, options)) piece ??= p;
  assert.equal(piece.top.length, TOP);
  const error = errorOf(piece, lastLogprobs(golden, input));
  assert.ok(error <= budget, `${error} of the deviation, at most ${budget} expected`);
}

async function checkGreedy(engine, golden) {
  const ids = Array.from(golden['greedy.ids'].data), margins = golden['greedy.margins'].data, prompt = ids.slice(0, 8);
  const got = [];
  for await (const p of engine.generate(prompt, {maxTokens: N_GREEDY, temperature: 0})) if (p.id >= 0) got.push(p.id);
  const tie = margins.findIndex((margin) => margin < 1e-3), n = tie < 0 ? N_GREEDY : Math.min(tie, N_GREEDY);
  assert.ok(n > 0, 'the goldens begin with clear margins');
  assert.deepEqual(got.slice(0, n), ids.slice(8, 8 + n));
}

const tools = fs.existsSync(TERN) && fs.existsSync(FIXTURES) ? false : `no ${TERN} or no ${FIXTURES}`;
const skip = missing('wasm/tern.wasm', 'kernels.js') || noDawn || (process.env.TERN_WEB_REQUIRED ? false : tools);

/** From where, and how far log-probabilities may be from the golden's: what is ternary rounds its activations. */
const families = {
  gemma2: {from: FIXTURES},
  gemma3: {from: FIXTURES},
  'gemma3-parts': {},
  bitnet: {from: FIXTURES, budget: 2e-3, input: 0}, // in the others an activation lies on the edge of two int8 levels
  llama: {from: FIXTURES},
  mixtral: {from: FIXTURES},
  'gpt-oss': {from: FIXTURES},
  qwen2: {},
  qwen3: {},
  qwen3moe: {},
  maple: {},
  mistral: {},
  qwen3_5: {from: FIXTURES},
  qwen3_5_moe: {from: FIXTURES},
  qwen3_next: {from: FIXTURES},
  granite: {},
  smollm3: {},
  phi3: {},
  'llama-heads': {},
  'qwen3-bitnet': {budget: 2e-3},
  'gemma3-bitnet': {budget: 2e-3},
};
let gpu; // one of all: a pipeline is made once
for (const [family, {from = MADE, budget = 5e-4, input = INPUT}] of Object.entries(families))
  test(`${family} on WebGPU`, {skip, timeout: 900000}, async () => {
    const file = path.join(folder, `${family}.gguf`);
    const golden = safetensors(path.join(from, family, 'golden.safetensors'));
    execFileSync(TERN, ['convert', path.join(from, family), '-o', file], {stdio: 'pipe'});
    gpu ??= await Gpu.open();
    const engine = await openEngine(gpu, file);
    await checkLogprobs(engine, golden, budget, input);
    await checkGreedy(engine, golden);
    engine.dispose();
  });

after(() => {
  fs.rmSync(folder, {recursive: true});
  setImmediate(() => process.exit()); // Dawn keeps Node alive
});
