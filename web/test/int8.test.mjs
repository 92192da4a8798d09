/** Dense layers on the CPU, whose inputs are rounded to int8 by blocks unless f32 is asked for; beside transformers'
 * logits. */
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {existsSync, mkdtempSync, readFileSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {after, before, describe, test} from 'node:test';
import {fileURLToPath} from 'node:url';
import {Core} from '../lib/core.js';
import {Tern} from '../lib/index.js';
import {MODEL, missing} from './support/built.mjs';
import {FIXTURES, errorOf, lastLogprobs, safetensors} from './support/goldens.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const TERN = process.env.TERN_NATIVE ?? join(ROOT, 'build/release/tern');
const FIXTURE = join(FIXTURES, 'llama');
const tools = [TERN, FIXTURE].find((path) => !existsSync(path));
const skip = missing('wasm/tern-threads.wasm') || (tools && !process.env.TERN_WEB_REQUIRED ? `no ${tools}` : false);
const TRAINED = join(ROOT, 'tests/data/dense/stories-dense.gguf');
const PROMPT = 'Once upon a time';
const TOP = 20;

describe('int8 activations', {skip}, () => {
  const golden = skip ? null : safetensors(join(FIXTURE, 'golden.safetensors'));
  let folder, file;

  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'tern-int8-'));
    file = join(folder, 'llama.gguf');
    execFileSync(TERN, ['convert', FIXTURE, '--type', 'q8_0', '-o', file], {stdio: 'pipe'});
  });
  after(() => rmSync(folder, {recursive: true}));

  /** The pieces that follow input 2 of the goldens. */
  async function pieces(path, activations, {threads = 1, maxTokens = 4} = {}) {
    const core = await Core.create({threads});
    const bytes = readFileSync(path);
    const reader = {size: bytes.length, read: async (at, n) => bytes.subarray(at, at + n)};
    const engine = await core.load(reader, {activations, contextLength: 96});
    assert.equal(engine.model.activations, activations === 'f32' ? 'f32' : 'int8');
    const ids = Array.from(golden['2.input_ids'].data, (id) => id % engine.model.vocabulary);
    const all = [];
    const options = {maxTokens, temperature: 0, logprobs: true, topLogprobs: TOP};
    for await (const piece of engine.generate(ids, options)) if (piece.id >= 0) all.push(piece);
    engine.dispose();
    core.dispose();
    return all;
  }

  test('a dense model: as far from f32 as decision 28 says, as near to the golden', async () => {
    const [exact] = await pieces(file, 'f32', {maxTokens: 1});
    const [rounded] = await pieces(file, 'auto', {maxTokens: 1});
    const expected = lastLogprobs(golden, 2);
    for (const piece of [exact, rounded]) {
      const error = errorOf(piece, expected);
      assert.ok(error < 0.05, `${error} of the golden's deviation; the weights are rounded, too`);
    }
    const f32 = new Map(exact.top.map(({id, logprob}) => [id, logprob]));
    const both = rounded.top.filter(({id}) => f32.has(id));
    const moved = errorOf({top: both}, {...expected, logprobs: Object.fromEntries(f32)});
    assert.ok(both.length > TOP / 2 && moved > 0.003 && moved < 0.05, `${moved} of the deviation beside f32`);
    const [chosen] = await pieces(file, 'int8', {maxTokens: 1});
    assert.deepEqual(chosen, rounded, 'of a dense model in blocks "auto" is int8');
  });

  test('the same bits with any number of threads', async () => {
    assert.deepEqual(await pieces(file, 'auto', {threads: 3}), await pieces(file, 'auto'));
  });

  test('the text of the native command, whose table is as exact', async () => {
    const args = ['run', '-m', TRAINED, '-p', PROMPT, '-n', '32', '-c', '96', '--greedy', '--head', 'exact', '--json'];
    const {text, statistics} = JSON.parse(execFileSync(TERN, args, {encoding: 'utf8', stdio: 'pipe'}));
    const tern = await Tern.load(TRAINED, {backend: 'cpu', threads: 2, contextLength: 96});
    assert.deepEqual([tern.model.activations, statistics.activations], ['int8', 'int8']);
    assert.equal(await tern.generate(PROMPT, {temperature: 0, maxTokens: 32}).text(), text);
    await tern.dispose();
  });

  test('a ternary model is left as it is', async () => {
    assert.deepEqual(await pieces(MODEL, 'int8'), await pieces(MODEL, 'auto'));
    assert.notDeepEqual(await pieces(MODEL, 'int8'), await pieces(MODEL, 'f32'));
  });
});
