#!/usr/bin/env node
// How fast a model decodes under Node, on a GPU through Dawn (npm webgpu) or on the CPU; or in headless Chromium.
import fs from 'node:fs';
import {open} from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import {parseArgs} from 'node:util';

import {Core} from '../lib/core.js';
import {Gpu} from '../lib/gpu.js';
import {measureInChromium} from './chromium.mjs';
import {measure} from './measure.js';

const HELP = `usage: decode.mjs MODEL [options]
Generates greedily and prints tokens a second, dispatches of a token and the share of the device's read bandwidth.
  --tokens N        to generate (128), after a warm-up of at most 16
  --repeat N        times; the best counts (3)
  --steps N         tokens that the device chooses before the host looks again, 1 to 128 (32)
  --context N       positions (prompt and tokens, rounded up)
  --prompt TEXT     ("Once upon a time"); ignored where the model has no tokenizer
  --prompt-tokens N any N tokens in its place, to measure how fast a prompt is read
  --backend NAME    webgpu or cpu (webgpu)
  --threads N       of the CPU (1)
  --activations A   auto, f32 or int8 (auto)
  --browser         in headless Chromium, not under Node
  --flags A;B       of Dawn: enable-dawn-features=..., backend=...
  --json            one line of JSON
`;
const OPTIONS = {
  tokens: {type: 'string', default: '128'},
  repeat: {type: 'string', default: '3'},
  steps: {type: 'string', default: '32'},
  context: {type: 'string'},
  prompt: {type: 'string', default: 'Once upon a time'},
  'prompt-tokens': {type: 'string', default: '0'},
  backend: {type: 'string', default: 'webgpu'},
  threads: {type: 'string', default: '1'},
  activations: {type: 'string', default: 'auto'},
  browser: {type: 'boolean'},
  flags: {type: 'string'},
  json: {type: 'boolean'},
  help: {type: 'boolean', short: 'h'},
};

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
    const {backend, contextLength, activations} = options;
    return await core.load({size, read}, {backend, contextLength, activations});
  } finally {
    await handle.close();
  }
}

const now = () => performance.now() / 1000;

async function measureHere(file, options, say) {
  const start = now();
  const gpu = await openGpu(options), core = await Core.create({gpu, threads: options.threads});
  if (gpu) say(`device      ${JSON.stringify({...gpu.info, limits: undefined})}`);
  const engine = await loadEngine(core, file, options);
  await gpu?.flush();
  say(`loaded      ${(fs.statSync(file).size / 2 ** 20).toFixed(0)} MiB in ${(now() - start).toFixed(2)} s`);
  const best = await measure(engine, options, say);
  const found = gpu && {device: gpu.info.description || gpu.info.vendor, features: gpu.info.features};
  engine.dispose();
  gpu?.destroy();
  return {best, gpu: found, browser: null};
}

async function main() {
  const {values, positionals} = parseArgs({options: OPTIONS, allowPositionals: true});
  if (values.help || positionals.length !== 1) return void process.stdout.write(HELP);
  const options = {...values};
  for (const name of ['steps', 'tokens', 'repeat', 'threads']) options[name] = Number(values[name]);
  options.promptTokens = Number(values['prompt-tokens']);
  options.contextLength = Number(values.context ?? Math.ceil((options.tokens + options.promptTokens + 64) / 32) * 32);
  const say = (text) => options.json || console.log(text);
  if (options.browser) await makeKernels();
  const there = options.browser ? measureInChromium : measureHere;
  report(positionals[0], options, await there(positionals[0], options, say));
}

/** Where and when: what a record of a measurement needs to be compared with another. */
function machineOf({gpu, browser}) {
  const node = browser ? null : process.version;
  return {os: `${os.type()} ${os.release()} ${os.arch()}`, date: new Date().toISOString(), node, browser,
    features: gpu?.features ?? []};
}

function report(file, options, found) {
  const {best} = found;
  if (options.json) {
    const {ids, ...numbers} = best, {steps, threads, activations} = options;
    const about = {model: path.basename(file), device: found.gpu?.device ?? 'cpu', machine: machineOf(found)};
    console.log(JSON.stringify({...about, steps, threads, activations, tokens: ids.length, ...numbers}));
    return;
  }
  if (found.browser) console.log(`in          ${found.browser}`);
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
