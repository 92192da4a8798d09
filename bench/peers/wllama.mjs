#!/usr/bin/env node
// Times Tern and wllama (llama.cpp in WebAssembly) on the same file in headless Chromium, in turns, and prints ratios.
import path from 'node:path';
import {parseArgs} from 'node:util';

import {measureInChromium} from '../../web/bench/chromium.mjs';
import {launch} from '../../web/test/browser/browser.mjs';
import {serve} from '../../web/test/browser/server.mjs';

const HELP = `usage: wllama.mjs MODEL.gguf --wllama FOLDER [options]
MODEL has a vocabulary, which llama.cpp asks for. Web modules of Tern are built before (make web-modules).
  --wllama FOLDER   of the npm package @wllama/wllama, 3.8 or later
  --threads N       of both (2)
  --words N         of the prompt that wllama reads (100); Tern reads as many tokens as wllama makes of it
  --tokens N        to generate (32)
  --rounds N        each engine once in a round, after one round that does not count (3)
  --activations A   of Tern: auto, f32 or int8 (auto)
`;
const OPTIONS = {
  wllama: {type: 'string'},
  threads: {type: 'string', default: '2'},
  words: {type: 'string', default: '100'},
  tokens: {type: 'string', default: '32'},
  rounds: {type: 'string', default: '3'},
  activations: {type: 'string', default: 'auto'},
  help: {type: 'boolean', short: 'h'},
};

/** In the page. A prompt is text: token ids end in a native exception, after which wllama reads its own request. */
async function measureWllama({model, threads, words, tokens}) {
  const {Wllama} = await import('/wllama/index.js');
  const wllama = new Wllama({default: new URL('/wllama/wasm/wllama.wasm', location.href).href});
  const blob = await (await fetch(model)).blob();
  await wllama.loadModel([blob], {n_threads: threads, n_gpu_layers: 0, n_ctx: 1024});
  const prompt = Array.from({length: words}, (_, i) => 'one two three four five'.split(' ')[(i * i) % 5]).join(' ');
  const {timings} = await wllama.createCompletion({prompt, max_tokens: tokens, temperature: 0, ignore_eos: true});
  if (!wllama.isMultithread() && threads > 1) throw new Error('wllama took one thread');
  return {prompt: timings.prompt_n, prefill: timings.prompt_per_second, decode: timings.predicted_per_second};
}

async function runWllama(file, options) {
  const empty = (request, response, headers) =>
    response.writeHead(200, {...headers, 'Content-Type': 'text/html'}).end('<!doctype html><title>bench</title>');
  const mounts = [['/wllama/', path.join(options.wllama, 'esm')], ['/model/', path.dirname(path.resolve(file))]];
  const server = await serve({mounts, routes: {'/': empty}}), browser = await launch({gpu: false});
  try {
    const page = await browser.newPage();
    await page.goto(server.url);
    const model = `/model/${encodeURIComponent(path.basename(file))}`;
    return {...await page.evaluate(measureWllama, {...options, model}), browser: browser.version()};
  } finally {
    await browser.close();
    await server.close();
  }
}

async function runTern(file, {threads, tokens, activations}, promptTokens) {
  const contextLength = Math.ceil((promptTokens + tokens + 64) / 32) * 32;
  const options = {threads, tokens, activations, promptTokens, contextLength, backend: 'cpu', steps: 1, repeat: 1};
  const {best} = await measureInChromium(file, options, () => {});
  return {prefill: best.prefillTokensPerSecond, decode: best.tokensPerSecond};
}

/** The middle one, with the least and the most. */
function spread(numbers, digits) {
  const sorted = [...numbers].sort((a, b) => a - b), middle = sorted[Math.floor(sorted.length / 2)];
  const [a, b, c] = [middle, sorted[0], sorted.at(-1)].map((x) => x.toFixed(digits));
  return `${a} (${b} to ${c})`;
}

function report(rounds) {
  for (const what of ['prefill', 'decode']) {
    console.log(`${what.padEnd(10)}  tern ${spread(rounds.map(({tern}) => tern[what]), 1)} tokens/s`);
    console.log(`${''.padEnd(10)}  wllama ${spread(rounds.map(({wllama}) => wllama[what]), 1)}`);
    console.log(`${''.padEnd(10)}  ratio ${spread(rounds.map(({tern, wllama}) => tern[what] / wllama[what]), 2)}`);
  }
}

async function main() {
  const {values, positionals} = parseArgs({options: OPTIONS, allowPositionals: true});
  if (values.help || positionals.length !== 1 || !values.wllama) return void process.stdout.write(HELP);
  const options = {...values}, [file] = positionals, rounds = [];
  for (const name of ['threads', 'words', 'tokens', 'rounds']) options[name] = Number(values[name]);
  for (let i = 0; i <= options.rounds; i++) {
    const wllama = await runWllama(file, options), tern = await runTern(file, options, wllama.prompt);
    if (i > 0) rounds.push({wllama, tern});
    else console.log(`Chromium ${wllama.browser}, ${options.threads} threads, ${wllama.prompt} tokens read, ` +
      `${options.tokens} written, activations ${options.activations}`);
  }
  report(rounds);
}

await main();
