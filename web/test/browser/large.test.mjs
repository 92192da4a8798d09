/**
 * A model of 1.2 GB (the shapes of BitNet 2B4T; with TERN_TEST_QUICK two of its layers, 0.7 GB) in Chromium: what the
 * JavaScript heaps and the WebAssembly memory take at most while it is loaded from the network into the GPU
 * (SwiftShader), and that it then generates what the native command does. The file is made once, in build/web-large.
 */
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {existsSync, mkdirSync, readFileSync, renameSync} from 'node:fs';
import {basename, join} from 'node:path';
import test from 'node:test';
import {ROOT, SITE, TERN, ask, counts, ready, says} from './browser.mjs';
import {loadUrl, skip, station} from './site.mjs';

const FOLDER = join(ROOT, 'build/web-large');
const QUICK = Boolean(process.env.TERN_TEST_QUICK);
const FILE = join(FOLDER, QUICK ? 'two-layers.gguf' : 'bitnet-2b4t.gguf');
const HEAP_LIMIT = 200e6;
const WASM_LIMIT = 400e6;

const seconds = (ms) => `${Math.round(ms / 1000)} s`;
const megabytes = (bytes) => `${Math.round(bytes / 1e6)} MB`;

function makeModel() {
  if (existsSync(FILE)) return;
  mkdirSync(FOLDER, {recursive: true});
  const layers = QUICK ? ['--layers', '2'] : [];
  execFileSync(TERN, ['synth', '--preset', 'bitnet-2b4t', ...layers, '-o', `${FILE}.part`, '-f'], {stdio: 'pipe'});
  renameSync(`${FILE}.part`, FILE);
}

/** What is to be seen of a text: without spaces and control characters, which a page shows in its own way. */
const visible = (text) => text.replace(/[^\x21-\x7e]/g, '');

/** The prompt and the native command's greedy text, on the CPU. */
const native = (prompt, n) =>
  prompt + execFileSync(TERN, ['run', '-m', FILE, '-p', prompt, '--greedy', '-n', `${n}`, '-q'], {encoding: 'utf8'});

/** Comes before the library's worker: notes every WebAssembly memory. */
const PREAMBLE = `
const memories = new Set();
globalThis.wasmBytes = () => [...memories].reduce((sum, memory) => sum + memory.buffer.byteLength, 0);
for (const name of ['instantiate', 'instantiateStreaming']) {
  const real = WebAssembly[name];
  WebAssembly[name] = async (...args) => {
    const made = await real.apply(WebAssembly, args);
    const exported = Object.values((made.instance ?? made).exports);
    for (const value of exported) if (value instanceof WebAssembly.Memory) memories.add(value);
    return made;
  };
}
const RealMemory = WebAssembly.Memory;
WebAssembly.Memory = class extends RealMemory { constructor(...args) { super(...args); memories.add(this); } };
const isMemory = (value) => RealMemory.prototype.isPrototypeOf(value);
Object.defineProperty(WebAssembly.Memory, Symbol.hasInstance, {value: isMemory});
`;

/** Asks the page and each of its workers for the size of their heaps, again and again. */
async function heapWatch(page) {
  const session = await page.context().newCDPSession(page);
  const workers = new Set();
  const waiting = new Map();
  let id = 0;
  session.on('Target.attachedToTarget', ({sessionId}) => workers.add(sessionId));
  session.on('Target.detachedFromTarget', ({sessionId}) => workers.delete(sessionId));
  session.on('Target.receivedMessageFromTarget', ({message}) => {
    const answer = JSON.parse(message);
    waiting.get(answer.id)?.(answer.result);
  });
  await session.send('Target.setAutoAttach', {autoAttach: true, waitForDebuggerOnStart: false, flatten: false});
  const heapOf = (sessionId) =>
    new Promise((resolve) => {
      const mine = ++id;
      waiting.set(mine, resolve);
      const message = JSON.stringify({id: mine, method: 'Runtime.getHeapUsage', params: {}});
      session.send('Target.sendMessageToTarget', {sessionId, message}).catch(() => resolve(null));
      setTimeout(() => resolve(null), 5000);
    });
  const size = (heap) => (heap ? heap.usedSize + heap.embedderHeapUsedSize + heap.backingStorageSize : 0);
  const peak = {heap: 0, wasm: 0, samples: 0};
  async function sample() {
    const heaps = await Promise.all([session.send('Runtime.getHeapUsage'), ...[...workers].map(heapOf)]);
    const wasm = await Promise.all(
      page.workers().map((worker) => worker.evaluate(() => globalThis.wasmBytes?.() ?? 0).catch(() => 0)),
    );
    peak.heap = Math.max(
      peak.heap,
      heaps.reduce((sum, heap) => sum + size(heap), 0),
    );
    peak.wasm = Math.max(peak.wasm, ...wasm);
    peak.samples++;
  }
  let going = true;
  const done = (async () => {
    while (going) {
      await sample();
      await new Promise((next) => setTimeout(next, 100));
    }
  })();
  return {
    peak,
    stop: () => {
      going = false;
      return done;
    },
  };
}

test('a large model is loaded in small heaps, and generates', {skip, timeout: 900000}, async (t) => {
  makeModel();
  const routes = {};
  const place = await station({routes, mounts: [['/files/', FOLDER]]});
  routes['/lib/worker.js'] = (request, response, headers) => {
    response
      .writeHead(200, {...headers, 'Content-Type': 'text/javascript'})
      .end(PREAMBLE + readFileSync(join(SITE, 'lib/worker.js'), 'utf8'));
  };
  const page = await place.open({
    settings: {'sampling.temperature': 0, 'sampling.maxTokens': 2, contextLength: 512, backend: 'webgpu'},
  });
  const watch = await heapWatch(page);
  const began = performance.now();
  await loadUrl(page, `files/${basename(FILE)}`);
  assert.equal(await ready(page, 300000), 'bitnet-2b4t · WebGPU');
  const loaded = performance.now();
  const text = await ask(page, 'a', 200000);
  const ended = performance.now();
  await watch.stop();
  const {heap, wasm, samples} = watch.peak;
  t.diagnostic(
    `loaded in ${seconds(loaded - began)}, 2 tokens in ${seconds(ended - loaded)}; ` +
      `at most ${megabytes(heap)} of heaps, ${megabytes(wasm)} of WebAssembly memory (${samples} samples)`,
  );
  await counts(page.locator('[role=alert]'), 0);
  await says(page, '.turn .tools', /2 tokens/);
  assert.equal(visible(text), visible(native('a', 2)));
  assert.ok(samples > 20, `${samples} samples`);
  assert.ok(wasm > 1e6, `${wasm} bytes of WebAssembly memory: were they seen?`);
  assert.ok(heap <= HEAP_LIMIT, `${heap} bytes of heaps`);
  assert.ok(wasm <= WASM_LIMIT, `${wasm} bytes of WebAssembly memory`);
  assert.deepEqual(page.seen.foreign, []);
  await place.close();
});
