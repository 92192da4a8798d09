/** The API under Node on the GPU: Dawn, on SwiftShader where there is no other. The same text as on the CPU. */
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {existsSync, mkdtempSync, renameSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {fileURLToPath} from 'node:url';
import {after, before, describe, test} from 'node:test';
import {Gpu, findAdapter, softwareName} from '../lib/gpu.js';
import {Tern} from '../lib/index.js';
import {MODEL, missing} from './support/built.mjs';

const SWIFTSHADER = '/usr/lib/chromium/vk_swiftshader_icd.json';
const NATIVE = process.env.TERN_NATIVE ?? fileURLToPath(new URL('../../build/release/tern', import.meta.url));
const PROMPT = 'Once upon a time';
const greedy = {temperature: 0, maxTokens: 12};

if (existsSync(SWIFTSHADER)) process.env.VK_DRIVER_FILES ??= SWIFTSHADER;

async function absent() {
  const skip = missing('wasm/tern.wasm', 'kernels.js');
  if (skip) return skip;
  return findAdapter().then(
    () => false,
    (error) => error.message
  );
}

describe('the API on the GPU', {skip: await absent()}, () => {
  let tern, gpu;
  before(async () => {
    const {open} = Gpu;
    Gpu.open = async (options) => (gpu = await open.call(Gpu, options));
    tern = await Tern.load(MODEL, {backend: 'webgpu', contextLength: 64});
    Gpu.open = open;
  });
  after(() => tern.dispose());

  test('"auto" takes a GPU alone: one that the processor plays is refused by its name', async () => {
    const software = softwareName(await findAdapter());
    const {webgpu, reason, message} = await Tern.probe();
    const auto = await Tern.load(MODEL, {contextLength: 64});
    await auto.dispose();
    assert.deepEqual([webgpu, auto.backend], software ? [false, 'cpu'] : [true, 'webgpu']);
    if (software) assert.equal(reason, 'NO_ADAPTER');
    if (software) assert.ok(message.includes(software) && auto.notice.message.startsWith(message), message);
    const info = {vendor: 'acme', description: 'Acme One'};
    assert.equal(softwareName({info}), '');
    assert.equal(softwareName({info: {...info, isFallbackAdapter: true}}), 'Acme One');
    assert.equal(softwareName({info, isFallbackAdapter: true}), 'Acme One');
  });

  test('a package by expert: the same text with few experts on the GPU, also after a stop and a miss', async (t) => {
    if (!existsSync(NATIVE) && !process.env.TERN_WEB_REQUIRED) return t.skip(`no ${NATIVE}`);
    const folder = mkdtempSync(join(tmpdir(), 'tern-'));
    const [file, dir, away] = ['m.gguf', 'p', 'away'].map((name) => join(folder, name));
    const text = (from) => from.generate(PROMPT, {...greedy, maxTokens: 6}).text();
    try {
      execFileSync(NATIVE, ['synth', '--preset', 'mixtral-tiny', '-o', file], {stdio: 'pipe'});
      execFileSync(NATIVE, ['package', file, '-o', dir], {stdio: 'pipe'});
      const cpu = await Tern.load(file, {backend: 'cpu', threads: 1, contextLength: 64, activations: 'f32'});
      assert.equal(cpu.model.activations, 'f32');
      const expected = await text(cpu);
      await cpu.dispose();
      const few = await Tern.load(dir, {backend: 'webgpu', contextLength: 64, experts: 2});
      assert.equal(few.backend, 'webgpu');
      assert.equal(await text(few), expected);
      const {held, experts, misses, prefetched, evictions, hits, fetched} = await few.experts();
      assert.ok(held < experts && hits > 0 && evictions > 0, `${hits} hits, ${evictions} out`);
      assert.ok(misses + prefetched - evictions <= held);
      assert.equal(misses + prefetched, fetched);
      for await (const piece of few.generate('Another time', greedy)) if (piece) break;
      renameSync(dir, away);
      await assert.rejects(text(few), {code: 'NOT_FOUND', message: /expert \d of layer \d: \S+: \S+ cannot be read/});
      renameSync(away, dir);
      assert.equal(await text(few), expected);
      await few.dispose();
    } finally {
      rmSync(folder, {recursive: true});
    }
  });

  test('keys and values in fewer bits: less memory, and the text of the CPU with the same', async () => {
    const [gpu8, cpu8, gpu4] = [
      await Tern.load(MODEL, {backend: 'webgpu', contextLength: 64, kv: 'q8_0'}),
      await Tern.load(MODEL, {backend: 'cpu', threads: 1, contextLength: 64, kv: 'q8_0'}),
      await Tern.load(MODEL, {backend: 'webgpu', contextLength: 64, kv: 'q4_0'})
    ];
    assert.ok(gpu8.memory.cache === cpu8.memory.cache && gpu8.memory.cache * 64 === tern.memory.cache * 17);
    assert.equal(gpu4.memory.cache * 64, tern.memory.cache * 9);
    const text = await gpu8.generate(PROMPT, greedy).text();
    assert.equal(text, await cpu8.generate(PROMPT, greedy).text());
    assert.ok((await gpu4.generate(PROMPT, greedy).text()).length > 0);
    for (const each of [gpu8, cpu8, gpu4]) await each.dispose();
    await assert.rejects(Tern.load(MODEL, {kv: 'q5_0'}), /kv is "q5_0", expected "auto" or "f16" or "f32" or "q8_0"/);
  });

  test('the GPU says which it is', () => {
    assert.deepEqual(
      [tern.backend, tern.notice, tern.device.backend, tern.device.threads],
      ['webgpu', null, 'webgpu', 1]
    );
    assert.ok(tern.device.limits.maxBufferSize >= 1 << 28);
    assert.ok(Array.isArray(tern.device.features));
  });

  test('the text is that of the CPU', async () => {
    const cpu = await Tern.load(MODEL, {backend: 'cpu', threads: 1, contextLength: 64});
    const expected = await cpu.generate(PROMPT, greedy).text();
    await cpu.dispose();
    const stream = tern.generate(PROMPT, greedy);
    assert.equal(await stream.text(), expected);
    const {tokens, reason} = await stream.result;
    assert.deepEqual([tokens, reason], [12, 'length']);
  });

  test('vectors of texts are those of the CPU, and a reader that goes away stops them', async () => {
    const texts = ['a cat', 'the sea and the sky over it'];
    const cpu = await Tern.load(MODEL, {backend: 'cpu', threads: 1, contextLength: 64});
    for (const pooling of ['last', 'mean', 'cls']) {
      const want = await cpu.embed(texts, {pooling});
      const got = await tern.embed(texts, {pooling});
      got.forEach(({vector, tokens}, i) => {
        assert.equal(tokens, want[i].tokens);
        const cosine = vector.reduce((sum, x, k) => sum + x * want[i].vector[k], 0);
        assert.ok(cosine > 0.999, `${pooling}, ${texts[i]}: ${cosine}`);
      });
    }
    await cpu.dispose();
    const {data} = await tern.embeddings.create({input: texts});
    assert.deepEqual(data.map(({embedding}) => embedding.length), [tern.model.embedding, tern.model.embedding]);
    const control = new AbortController();
    const given = tern.embed(Array(50).fill(texts[1]), {signal: control.signal});
    setTimeout(() => control.abort(), 50);
    await assert.rejects(given, {code: 'CANCELLED'});
    assert.equal((await tern.embed(texts[0]))[0].vector.length, tern.model.embedding);
  });

  test('leaving the loop stops, and the next generation is right', async () => {
    const text = [];
    for await (const piece of tern.generate(PROMPT, {...greedy, maxTokens: 50})) if (text.push(piece.text) === 3) break;
    const again = await tern.generate(PROMPT, {...greedy, maxTokens: 3}).text();
    assert.equal(text.join(''), again);
  });

  test('limits that the adapter does not have', async () => {
    const device = {requiredLimits: {maxBufferSize: 2 ** 50}};
    await assert.rejects(Tern.load(MODEL, {backend: 'webgpu', device}), {
      code: 'UNSUPPORTED',
      message: /maxBufferSize/
    });
  });

  test('a lost device: the generation fails, `lost` resolves, later calls say the same', async () => {
    const stream = tern.generate(PROMPT, {...greedy, maxTokens: 50});
    await assert.rejects(
      async () => {
        for await (const piece of stream) if (piece) gpu.device.destroy();
      },
      (error) => error.code === 'DEVICE_LOST' && /device lost/.test(error.message)
    );
    assert.match(await tern.lost, /device lost/);
    await assert.rejects(stream.result, {code: 'DEVICE_LOST'});
    await assert.rejects(tern.generate(PROMPT, greedy).text(), {code: 'DEVICE_LOST', message: /device lost/});
  });
});
