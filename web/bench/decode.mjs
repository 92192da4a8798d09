#!/usr/bin/env node
// How fast a model decodes under Node: on a GPU through Dawn (npm webgpu), or on the CPU.
import fs from 'node:fs';
import {open} from 'node:fs/promises';
import path from 'node:path';
import {parseArgs} from 'node:util';

import {Core} from '../lib/core.js';
import {Gpu} from '../lib/gpu.js';

const HELP = `usage: decode.mjs MODEL [options]
Generates greedily and prints tokens a second, dispatches of a token and the share of the device's read bandwidth.
  --tokens N        to generate (128), after a warm-up of at most 16
  --repeat N        times; the best counts (3)
  --steps N         tokens that the device chooses before the host looks again, 1 to 128 (32)
  --context N       positions (prompt and tokens, rounded up)
  --prompt TEXT     ("Once upon a time"); ignored where the model has no tokenizer
  --backend NAME    webgpu or cpu (webgpu)
  --flags A;B       of Dawn: enable-dawn-features=..., backend=...
  --json            one line of JSON
`;
const OPTIONS = {
  tokens: {type: 'string', default: '128'},
  repeat: {type: 'string', default: '3'},
  steps: {type: 'string', default: '32'},
  context: {type: 'string'},
  prompt: {type: 'string', default: 'Once upon a time'},
  backend: {type: 'string', default: 'webgpu'},
  flags: {type: 'string'},
  json: {type: 'boolean'},
  help: {type: 'boolean', short: 'h'},
};
const WARM_UP = 16;

// The kernels, as the site's build makes them, where they are not there yet.
async function makeKernels() {
  const file = new URL('../lib/kernels.js', import.meta.url);
  if (fs.existsSync(file)) return;
  const {kernelsModule} = await import('../../tools/wgsl/text.mjs');
  fs.writeFileSync(file, kernelsModule());
}

async function openGpu(options) {
  if (options.backend !== 'webgpu') return null;
  await makeKernels();
  return Gpu.open({powerPreference: 'high-performance', dawnFlags: options.flags?.split(';') ?? []});
}

async function loadEngine(core, file, options) {
  const handle = await open(file), {size} = await handle.stat();
  const read = async (offset, length) => {
    const bytes = new Uint8Array(length), {bytesRead} = await handle.read(bytes, 0, length, offset);
    return bytes.subarray(0, bytesRead);
  };
  try {
    return await core.load({size, read}, {backend: options.backend, contextLength: options.contextLength});
  } finally {
    await handle.close();
  }
}

// The engine's session with so many steps at a time.
function reopen(engine, options) {
  const {core} = engine, json = JSON.stringify({contextLength: options.contextLength, steps: options.steps});
  core.call('session_close', engine.session);
  engine.session = core.memory.withString(json, (at) => core.open('session_open', engine.handle, at));
}

function promptOf(engine, text) {
  try {
    const ids = engine.tokenize(text, {bos: true});
    if (ids.length) return ids;
  } catch (error) {
    if (error.code !== 'UNSUPPORTED' && error.code !== 'NOT_FOUND' && error.code !== 'INVALID_ARGUMENT') throw error;
  }
  return [1, 2, 3, 4];
}

async function generate(engine, prompt, maxTokens) {
  engine.core.call('session_truncate', engine.session, 0);
  const stream = engine.generate(prompt, {maxTokens, temperature: 0, ignoreEos: true}), ids = [];
  for (;;) {
    const {value, done} = await stream.next();
    if (done) return {ids, result: value};
    ids.push(value.id);
  }
}

const now = () => performance.now() / 1000;

async function main() {
  const {values, positionals} = parseArgs({options: OPTIONS, allowPositionals: true});
  if (values.help || positionals.length !== 1) return void process.stdout.write(HELP);
  const options = {...values, steps: Number(values.steps), tokens: Number(values.tokens)};
  options.contextLength = Number(values.context ?? Math.ceil((options.tokens + 64) / 32) * 32);
  const say = (text) => options.json || console.log(text);
  let start = now();
  const gpu = await openGpu(options), core = await Core.create({gpu});
  if (gpu) say(`device      ${JSON.stringify({...gpu.info, limits: undefined})}`);
  const engine = await loadEngine(core, positionals[0], options);
  reopen(engine, options);
  await gpu?.flush();
  say(`loaded      ${(fs.statSync(positionals[0]).size / 2 ** 20).toFixed(0)} MiB in ${(now() - start).toFixed(2)} s`);
  const prompt = promptOf(engine, values.prompt);
  start = now();
  const warmUp = Math.min(WARM_UP, options.tokens);
  await generate(engine, prompt, warmUp);
  say(`warm-up     ${warmUp} tokens in ${(now() - start).toFixed(2)} s, pipelines made`);
  let best = null;
  for (let i = 0; i < Number(values.repeat); i++) {
    const before = engine.counters, {ids, result} = await generate(engine, prompt, options.tokens);
    const after = engine.counters;
    const runs = after.runs - before.runs, perToken = (after.dispatches - before.dispatches) / runs;
    say(`run ${i + 1}       ${result.tokensPerSecond.toFixed(1)} tokens/s, ${perToken.toFixed(0)} dispatches a token`);
    if (!best || result.tokensPerSecond > best.tokensPerSecond) {
      const {tokensPerSecond, bytesPerToken} = result;
      best = {tokensPerSecond, dispatches: Math.round(perToken), bytesPerToken, ids};
    }
  }
  best.bandwidth = await engine.measureBandwidth(1);
  best.share = best.bandwidth ? (best.bytesPerToken * best.tokensPerSecond) / best.bandwidth : null;
  report(positionals[0], options, gpu, best);
  engine.dispose();
  gpu?.destroy();
}

function report(file, options, gpu, best) {
  if (options.json) {
    const {ids, ...numbers} = best;
    const device = gpu ? gpu.info.description || gpu.info.vendor : 'cpu';
    const about = {model: path.basename(file), device, steps: options.steps, tokens: ids.length};
    console.log(JSON.stringify({...about, ...numbers}));
    return;
  }
  console.log(`best        ${best.tokensPerSecond.toFixed(1)} tokens/s, ${options.steps} tokens at a time`);
  console.log(`read        ${(best.bytesPerToken / 1e6).toFixed(1)} MB a token`);
  if (best.bandwidth) {
    const share = (100 * best.share).toFixed(1);
    console.log(`bandwidth   ${(best.bandwidth / 1e9).toFixed(1)} GB/s measured, ${share} % of it used`);
  }
  console.log(`tokens      ${best.ids.slice(0, 16).join(' ')}${best.ids.length > 16 ? ' ...' : ''}`);
}

try {
  await main();
  process.exit(process.exitCode ?? 0); // Dawn keeps Node alive
} catch (error) {
  console.error(`${error.code ?? error.name}: ${error.message}`);
  process.exit(1);
}
