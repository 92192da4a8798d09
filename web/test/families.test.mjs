// Gemma 2 and 3, whose layers have windows, soft caps and two ropes, heads that are no multiple of 8, and the experts
// of Mixtral, GPT-OSS and Qwen3-MoE on WebGPU (Dawn on SwiftShader under Node): the tokens and log-probabilities of
// the independent goldens.
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import {after, test} from 'node:test';
import {fileURLToPath} from 'node:url';

import {missing} from './support/built.mjs';
import {Gpu, noDawn, openEngine} from './support/dawn.mjs';
import {errorOf, lastLogprobs, safetensors} from './support/goldens.mjs';

const REPOSITORY = fileURLToPath(new URL('../..', import.meta.url));
const FIXTURES = path.join(REPOSITORY, '../shared/fixtures');
const MADE = path.join(REPOSITORY, 'tests/data/models');
const TERN = path.join(REPOSITORY, 'build/release/tern');
const TOP = 20, N_GREEDY = 5; // of 24: a driver in software takes its time
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tern-families-'));

async function checkLogprobs(engine, golden, input) {
  const ids = Array.from(golden[`${input}.input_ids`].data);
  const options = {maxTokens: 1, temperature: 0, logprobs: true, topLogprobs: TOP};
  let piece;
  for await (const p of engine.generate(ids, options)) piece ??= p;
  assert.equal(piece.top.length, TOP);
  const error = errorOf(piece, lastLogprobs(golden, input));
  assert.ok(error <= 5e-4, `input ${input}: ${error} of the deviation, at most 5e-4 expected`);
}

async function checkGreedy(engine, golden) {
  const ids = Array.from(golden['greedy.ids'].data), margins = golden['greedy.margins'].data, prompt = ids.slice(0, 8);
  const got = [];
  for await (const p of engine.generate(prompt, {maxTokens: N_GREEDY, temperature: 0})) if (p.id >= 0) got.push(p.id);
  const tie = margins.findIndex((margin) => margin < 1e-3), n = tie < 0 ? N_GREEDY : Math.min(tie, N_GREEDY);
  assert.ok(n > 2, 'the goldens begin with clear margins');
  assert.deepEqual(got.slice(0, n), ids.slice(8, 8 + n));
}

const tools = fs.existsSync(TERN) && fs.existsSync(FIXTURES) ? false : `no ${TERN} or no ${FIXTURES}`;
const skip = missing('wasm/tern.wasm', 'kernels.js') || noDawn || (process.env.TERN_WEB_REQUIRED ? false : tools);

const families = {
  gemma2: FIXTURES,
  gemma3: FIXTURES,
  mixtral: FIXTURES,
  'gpt-oss': FIXTURES,
  qwen3moe: MADE,
  'llama-heads': MADE,
};
for (const [family, from] of Object.entries(families))
  test(`${family} on WebGPU`, {skip, timeout: 900000}, async () => {
    const file = path.join(folder, `${family}.gguf`);
    const golden = safetensors(path.join(from, family, 'golden.safetensors'));
    execFileSync(TERN, ['convert', path.join(from, family), '-o', file], {stdio: 'pipe'});
    const gpu = await Gpu.open(), engine = await openEngine(gpu, file);
    for (const input of [1, 2]) await checkLogprobs(engine, golden, input);
    await checkGreedy(engine, golden);
    gpu.destroy();
  });

after(() => {
  fs.rmSync(folder, {recursive: true});
  setImmediate(() => process.exit()); // Dawn keeps Node alive
});
