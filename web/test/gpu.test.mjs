// The WebGPU backend under Node, with Dawn on SwiftShader: the CPU's tokens, small devices, and what goes wrong.
import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';

import {GpuHost} from '../lib/gpu-host.js';
import {missing} from './support/built.mjs';
import {greedy, Gpu, noDawn, openEngine} from './support/dawn.mjs';

const PROMPT = 'Once upon a time', N = 8; // a driver in software takes half a second for a token
const MIB = 2 ** 20;
/** What every WebGPU device has. */
const LEAST = {maxStorageBufferBindingSize: 128 * MIB, maxBufferSize: 256 * MIB, maxComputeWorkgroupStorageSize: 16384,
  maxComputeInvocationsPerWorkgroup: 256, maxComputeWorkgroupSizeX: 256, maxComputeWorkgroupsPerDimension: 65535};

let expected, cpu;
const opened = [];

/** A device that the end of the test closes. */
async function open(options) {
  const gpu = await Gpu.open(options);
  opened.push(gpu);
  return gpu;
}

const built = missing('wasm/tern.wasm', 'kernels.js');
const suite = {skip: built || noDawn, timeout: 900000};

before(async () => {
  if (built) return;
  cpu = await openEngine(null);
  expected = await greedy(cpu, PROMPT, N);
});

after(() => {
  for (const gpu of opened) gpu.destroy();
  setImmediate(() => process.exit()); // Dawn keeps Node alive
});

test('the CPU says something', {skip: built}, () => assert.equal(expected.length, N));

/** A device that only counts dispatches and submits. */
function countingDevice() {
  const seen = {dispatches: 0, submits: []};
  const pass = {setPipeline() {}, setBindGroup() {}, dispatchWorkgroups: () => seen.dispatches++, end() {}};
  const queue = {submit() {
    seen.submits.push(seen.dispatches);
    seen.dispatches = 0;
  }};
  const device = {queue, pushErrorScope() {}, popErrorScope: async () => null,
    createCommandEncoder: () => ({beginComputePass: () => pass, finish() {}})};
  return {device, seen};
}

test('many steps are few submits, the first of them short', () => {
  for (const [n, submits] of [[1, [1]], [2, [1, 1]], [8, [1, 2, 4, 1]], [32, [1, 2, 4, 8, 16, 1]]]) {
    const {device, seen} = countingDevice(), host = new GpuHost(device, {}, {}, {});
    const program = host.programs.add({steps: [{pipeline: 1, x: 1, y: 1, z: 1}, {pipeline: 2, x: 1, y: 1, z: 1}]});
    assert.equal(host.run(program, n), submits.length);
    assert.deepEqual(seen.submits, submits.map((steps) => 2 * steps), `${n} steps`);
  }
});

test('the tokens are the CPU\'s', suite, async () => {
  const gpu = await open(), engine = await openEngine(gpu);
  assert.deepEqual(await greedy(engine, PROMPT, N), expected);
  const {dispatches, runs, pipelines, uploadedBytes, allocations} = engine.counters;
  assert.ok(runs >= N && dispatches > 20 * runs && pipelines > 5 && uploadedBytes > MIB);
  assert.deepEqual(await greedy(engine, PROMPT, N), expected);
  assert.equal(engine.counters.allocations, allocations, 'no allocation for a token');
  for await (const piece of engine.generate(PROMPT, {maxTokens: 64, temperature: 0})) {
    if (piece) break;
  }
  assert.deepEqual(await greedy(engine, PROMPT, N), expected, 'in order after a generation left in the middle');
  const bandwidth = await engine.measureBandwidth(0.05);
  assert.ok(bandwidth > 1e7 && bandwidth < 2e13, `${bandwidth}`);
});

test('a profile: times of each kernel, the same tokens, and none without timestamps', suite, async (t) => {
  const without = await openEngine(await open({withoutFeatures: ['timestamp-query']}));
  assert.throws(() => without.startProfile(), {code: 'UNSUPPORTED', message: /timestamp-query/});
  assert.throws(() => cpu.startProfile(), {code: 'UNSUPPORTED', message: /backend cpu has no timestamps/});
  const gpu = await open(), engine = await openEngine(gpu);
  if (!gpu.info.features.includes('timestamp-query')) return t.skip('Dawn has no timestamp-query here');
  assert.deepEqual(await engine.stopProfile(), [], 'none was begun');
  const before = engine.counters.dispatches, began = performance.now();
  engine.startProfile();
  assert.deepEqual(await greedy(engine, PROMPT, 4), expected.slice(0, 4));
  const rows = await engine.stopProfile(), most = performance.now() - began;
  const sum = (of) => rows.reduce((total, row) => total + of(row), 0);
  const dispatches = engine.counters.dispatches - before;
  assert.equal(sum((row) => row.n), dispatches, 'each dispatch is in it once');
  const ms = sum((row) => row.ms), names = rows.map((row) => row.kernel).join(' ');
  assert.ok(ms > 0 && ms <= most, `${ms} of ${most} ms`);
  assert.ok(rows.every((row, i) => i === 0 || row.ms <= rows[i - 1].ms), 'the longest first');
  assert.ok(/EMBED/.test(names), names);
  await greedy(engine, PROMPT, 1);
  assert.deepEqual(await engine.stopProfile(), [], 'it has ended');
});

test('a device with the least of everything', suite, async () => {
  const gpu = await open({requiredLimits: LEAST, withoutFeatures: ['subgroups']}), engine = await openEngine(gpu);
  assert.ok(!gpu.info.features.includes('subgroups'));
  assert.equal(gpu.info.limits.maxStorageBufferBindingSize, 128 * MIB);
  assert.deepEqual(await greedy(engine, PROMPT, N), expected);
});

test('weights in slices, several slices to a buffer', suite, async () => {
  const small = {maxStorageBufferBindingSize: 128 * 1024, maxBufferSize: 300 * 1024};
  const gpu = await open({requiredLimits: {...LEAST, ...small}});
  const engine = await openEngine(gpu, undefined, {contextLength: 32});
  assert.deepEqual(await greedy(engine, PROMPT, 4), expected.slice(0, 4));
});

test('a device that is too small is named with the numbers', suite, async () => {
  const gpu = await open({requiredLimits: {...LEAST, maxBufferSize: 65536, maxStorageBufferBindingSize: 65536}});
  await assert.rejects(openEngine(gpu), {code: /LIMIT|UNSUPPORTED/, message: /(bytes|MiB).*at most/});
});

test('a kernel that does not compile is named', suite, async () => {
  const {kernels} = await import('../lib/kernels.js');
  const broken = {...kernels, embed: 'fn main() { nothing(); }'};
  const engine = await openEngine(await open({kernels: broken}));
  await assert.rejects(greedy(engine, PROMPT, 4), {code: 'INTERNAL', message: /kernel EMBED.*nothing/s});
});

test('limits that the adapter does not have are refused', suite, async () => {
  const requiredLimits = {maxBufferSize: 2 ** 50};
  const message = /maxBufferSize of 1125899906842624.*the adapter has/;
  await assert.rejects(Gpu.open({requiredLimits}), {code: 'UNSUPPORTED', message});
});

test('no adapter, and WGSL without what the kernels need', async () => {
  const none = {requestAdapter: async () => null};
  await assert.rejects(Gpu.open({gpu: none}), {code: 'NO_ADAPTER'});
  const old = {requestAdapter: async () => ({features: new Set(), limits: {}}), wgslLanguageFeatures: new Set()};
  await assert.rejects(Gpu.open({gpu: old}), {code: 'UNSUPPORTED', message: /packed_4x8_integer_dot_product/});
});
