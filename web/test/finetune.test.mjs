/**
 * Fine-tuning in WebAssembly: on the CPU the losses of `tern finetune --lora`, on WebGPU (Dawn on SwiftShader) within
 * what a GPU may differ; the adapter changes what the model says.
 */
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {after, before, test} from 'node:test';
import {fileURLToPath} from 'node:url';
import {Tern} from '../lib/index.js';
import {MODEL, missing} from './support/built.mjs';
import {Gpu, greedy, noDawn, openEngine} from './support/dawn.mjs';

const TERN = fileURLToPath(new URL('../../build/release/tern', import.meta.url));
const TEXT = readFileSync(new URL('../../examples/finetune/logbook.txt', import.meta.url), 'utf8').slice(0, 2400);
const OPTIONS = {rank: 4, steps: 6, batch: 2, sequence: 32, seed: 3, learningRate: 0.01};
const PROMPT = 'The lamp';
const skip = missing('wasm/tern.wasm', 'kernels.js');
const native = !existsSync(TERN) && !process.env.TERN_WEB_REQUIRED ? 'no build/release/tern: make build' : skip;

let engine, /** @type {any[]} */ onCpu, /** @type {Uint8Array} */ adapter;
const opened = [];

/** @returns {Promise<{adapter: Uint8Array, steps: any[]}>} */
async function tune(on, text = TEXT, options = OPTIONS) {
  const steps = [];
  const bytes = await on.finetune(text, {...options, onStep: (step) => steps.push(step)});
  return {adapter: bytes, steps};
}

/** Steps and validations of the native command. */
function finetuneNatively() {
  const folder = mkdtempSync(join(tmpdir(), 'tern-finetune-')), data = join(folder, 'text.txt');
  try {
    writeFileSync(data, TEXT);
    const args = ['finetune', '-m', MODEL, '--data', data, '-o', join(folder, 'adapter.gguf'), '--lora', '4',
      '--steps', '6', '-b', '2', '--seq', '32', '--seed', '3', '--lr', '0.01', '--json', '--log-every', '1'];
    const lines = execFileSync(TERN, args, {encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore']}).trim();
    return lines.split('\n').map((line) => JSON.parse(line));
  } finally {
    rmSync(folder, {recursive: true});
  }
}

before(async () => {
  if (skip) return;
  engine = await openEngine(null);
  const tuned = await tune(engine);
  onCpu = tuned.steps;
  adapter = tuned.adapter;
});

after(() => {
  engine?.dispose();
  for (const gpu of opened) gpu.destroy();
  if (opened.length) setImmediate(() => process.exit()); // Dawn keeps Node alive
});

test('steps say where they are', {skip}, () => {
  assert.deepEqual(onCpu.map(({step, steps}) => [step, steps]), [1, 2, 3, 4, 5, 6].map((step) => [step, 6]));
  for (const {loss, norm, validationLoss, tokensPerSecond} of onCpu) {
    assert.ok(loss > 0 && norm > 0 && validationLoss > 0 && tokensPerSecond > 0);
  }
  assert.ok(onCpu[5].validationLoss < 0.9 * onCpu[0].validationLoss, 'it learns');
});

test('the losses are those of the native command', {skip: native}, () => {
  const lines = finetuneNatively();
  const steps = lines.filter(({event}) => event === 'step');
  const evaluated = lines.filter(({event, step}) => event === 'evaluation' && step > 0);
  assert.equal(steps.length, 6);
  const shown = ({loss, norm, validationLoss}) => [loss, norm, validationLoss].map((x) => Number(x.toPrecision(9)));
  assert.deepEqual(onCpu.map(shown), steps.map(({loss, grad_norm: norm}, i) => [loss, norm, evaluated[i].loss]));
});

test('the adapter changes what the model says, and goes again', {skip}, async () => {
  const plain = await greedy(engine, PROMPT, 16);
  const lora = await engine.loadLora([{name: 'adapter.gguf', bytes: adapter}]);
  assert.equal(lora.rank, 4);
  await engine.setLoras([{lora}]);
  assert.notDeepEqual(await greedy(engine, PROMPT, 16), plain);
  await engine.setLoras([]);
  assert.deepEqual(await greedy(engine, PROMPT, 16), plain);
  await lora.dispose();
});

test('a signal ends it with what was learned', {skip}, async () => {
  const control = new AbortController(), steps = [];
  const onStep = (step) => {
    steps.push(step);
    if (step.step === 2) control.abort();
  };
  const bytes = await engine.finetune(TEXT, {...OPTIONS, onStep, signal: control.signal});
  assert.equal(steps.length, 2);
  assert.equal(bytes.length, adapter.length);
  assert.notDeepEqual(bytes, adapter);
  await assert.rejects(engine.finetune(TEXT, {signal: AbortSignal.abort()}), {code: 'CANCELLED'});
  assert.equal((await greedy(engine, PROMPT, 4)).length, 4);
});

test('through the API, and the adapter goes back in', {skip}, async () => {
  const tern = await Tern.load(MODEL, {backend: 'cpu', threads: 1}), losses = [];
  const bytes = await tern.finetune(TEXT, {...OPTIONS, steps: 2, onStep: ({loss}) => losses.push(loss)});
  assert.equal(losses.length, 2);
  assert.equal(losses[0], onCpu[0].loss);
  const lora = await tern.loadLora(bytes);
  assert.deepEqual([lora.rank, lora.parameters], [4, 155648]);
  await tern.dispose();
});

test('what cannot be trained on is said', {skip}, async () => {
  await assert.rejects(engine.finetune(''), {code: 'INVALID_ARGUMENT', message: /no document/});
  const wrong = (options, message) =>
    assert.rejects(engine.finetune(TEXT, options), {code: 'INVALID_ARGUMENT', message});
  await wrong({sequence: 5000}, /5000.*1024/);
  await wrong({rank: 'x'}, /option rank: "x" found/);
  await wrong({learningRate: -1}, /learning rate -1/);
  assert.equal(engine.busy, false);
});

/** Few tokens: the GPU is one in software. What was learned there, after losses that are the CPU's but for rounding. */
async function tuneBoth(device, cpu) {
  const text = TEXT.slice(0, 280), options = {...OPTIONS, steps: 2, batch: 1, sequence: 16};
  const {steps: expected} = await tune(cpu, text, options);
  const {adapter: bytes, steps} = await tune(device, text, options);
  assert.equal(steps.length, 2);
  steps.forEach(({loss, norm, validationLoss}, i) => {
    assert.ok(Math.abs(loss - expected[i].loss) <= 0.01 * loss, `step ${i + 1}: ${loss}, ${expected[i].loss} expected`);
    assert.ok(Math.abs(norm - expected[i].norm) <= 0.05 * norm, `step ${i + 1}: ${norm}, ${expected[i].norm} expected`);
    assert.equal(validationLoss, null);
  });
  return bytes;
}

async function gpuEngine(file) {
  const gpu = await Gpu.open();
  opened.push(gpu);
  return openEngine(gpu, file, {contextLength: 32});
}

test('WebGPU: the losses are the CPU\'s, but for rounding', {skip: skip || noDawn, timeout: 600000}, async () => {
  const device = await gpuEngine(undefined), bytes = await tuneBoth(device, engine);
  assert.deepEqual(await greedy(device, PROMPT, 4), await greedy(engine, PROMPT, 4), 'all is as it was');
  const lora = await device.loadLora([{name: 'adapter.gguf', bytes}]);
  assert.equal(lora.rank, 4);
});

test('WebGPU: through experts', {skip: native || noDawn, timeout: 600000}, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tern-experts-')), file = join(folder, 'gpt-oss.gguf');
  try {
    execFileSync(TERN, ['synth', '--preset', 'gpt-oss-tiny', '-o', file], {stdio: 'ignore'});
    const cpu = await openEngine(null, file, {contextLength: 32});
    await tuneBoth(await gpuEngine(file), cpu);
    cpu.dispose();
  } finally {
    rmSync(folder, {recursive: true});
  }
});
