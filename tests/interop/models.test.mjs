/** GGUF files that Tern writes of each family and in each type, in llama.cpp: the same greedy tokens wherever the best
 * one is clear. */
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {rmSync} from 'node:fs';
import {join} from 'node:path';
import {before, describe, test} from 'node:test';
import {COMMAND, ROOT, absent, scratch, tern} from './support/tern.mjs';

const skip = absent();
const {openLlama} = skip ? {} : await import('./support/llama.mjs');
const {FAMILIES, N_VOCAB, writeModel} = skip ? {FAMILIES: {}} : await import('./support/models.mjs');

const PROMPT = Array.from({length: 12}, (_, i) => (i * 37 + 5) % 256);
const N_TOKENS = 24;
const MATRIX = ['f16', 'q6_k'];
const MORE = {gemma2: MATRIX, gemma3: MATRIX, mixtral: MATRIX, gptoss: [...MATRIX, 'mxfp4'], llama: [
  'f16', 'bf16', 'q6_k', 'q5_k', 'q3_k', 'q2_k', 'q5_1', 'q5_0', 'q4_1', 'q4_0', 'iq4_nl', 'mxfp4', 'q2_0',
  'q1_0', 'q4_k_m', 'q5_k_m'
]};

/** The part of a row's spread within which the best token counts as unclear: llama.cpp rounds activations to 8 bits
 * before it multiplies them with quantised weights, and to 16 before F16 and BF16. */
const UNCLEAR = {f32: 0.01, f16: 0.02, bf16: 0.1};
const UNCLEAR_QUANTISED = 0.25;
/** What is rounded on the way to a router may choose another expert: models that have one are compared with activations
 * of 8 bits here too, and so many tokens may be off. */
const N_REROUTED = N_TOKENS / 6;

/** What llama.cpp goes on with. */
async function theirTokens(llama, file) {
  const model = await llama.loadModel({modelPath: file});
  const context = await model.createContext({
    contextSize: 64, flashAttention: false, threads: 1, // more of them wait for each other in a busy loop
    experimentalKvCacheKeyType: 'F32', experimentalKvCacheValueType: 'F32'
  });
  const tokens = [];
  for await (const token of context.getSequence().evaluate(PROMPT, {temperature: 0, yieldEogToken: true})) {
    tokens.push(token);
    if (tokens.length === N_TOKENS) break;
  }
  await context.dispose();
  await model.dispose();
  return tokens;
}

/** Tern's logits of all positions: one array each. */
function ourLogits(file, ids, activations) {
  const bytes = execFileSync(COMMAND, ['logits', '-m', file, '--ids', ids.join(','), '--activations', activations], {
    maxBuffer: 1 << 28
  });
  const all = new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
  assert.equal(all.length, ids.length * N_VOCAB);
  return ids.map((_, i) => all.subarray(i * N_VOCAB, (i + 1) * N_VOCAB));
}

const spread = (row) => {
  const mean = row.reduce((a, b) => a + b) / row.length;
  return Math.sqrt(row.reduce((sum, x) => sum + (x - mean) ** 2, 0) / row.length);
};

/** Step by step on their tokens: ours is the same, or as likely but for `unclear` of the row's spread, save for so many
 * that may be off. */
function compare(file, tokens, unclear, mayBeOff, activations = 'f32') {
  const rows = ourLogits(file, [...PROMPT, ...tokens], activations);
  let same = 0;
  for (const [i, token] of tokens.entries()) {
    const row = rows[PROMPT.length - 1 + i];
    const best = Math.max(...row);
    const behind = (best - row[token]) / spread(row);
    if (behind > unclear && mayBeOff-- > 0) continue;
    assert.ok(behind <= unclear, `token ${i}: ${token} is ${behind.toFixed(3)} of the spread behind the best`);
    if (row[token] === best) same++;
  }
  assert.ok(same >= N_TOKENS / 2, `${same} of ${N_TOKENS} tokens are the same`);
  assert.ok(new Set(tokens).size > 1, `the tokens say little: ${tokens}`);
}

describe('models in llama.cpp', {skip}, () => {
  const dir = scratch();
  let llama;
  before(async () => (llama = await openLlama()));

  for (const family of Object.keys(FAMILIES))
    for (const type of ['f32', 'q8_0', 'q4_k', ...(MORE[family] ?? [])])
      test(`${family} in ${type}`, async () => {
        const file = join(dir, `${family}-${type}.gguf`);
        const folder = join(dir, 'made'); // the model's name, by which llama.cpp knows Phi-3 and asks for its tokens
        writeModel(folder, family);
        tern('convert', folder, '-o', file, '--type', type);
        const rounded = FAMILIES[family].routed && !(type in UNCLEAR);
        const tokens = await theirTokens(llama, file), unclear = UNCLEAR[type] ?? UNCLEAR_QUANTISED;
        if (rounded) compare(file, tokens, unclear, N_REROUTED, 'int8');
        else compare(file, tokens, unclear, 0);
        rmSync(file);
      });

  // What tests/model/test_parts.py opens is what llama.cpp takes for a split model, whose first part it is given.
  test('a model in parts', async () => {
    const file = join(dir, 'whole.gguf');
    const folder = join(dir, 'made');
    writeModel(folder, 'llama');
    tern('convert', folder, '-o', file, '--type', 'f32');
    execFileSync('python3', [join(ROOT, 'tests/model/cut_gguf.py'), file, join(dir, 'parts'), '3']);
    const tokens = await theirTokens(llama, join(dir, 'parts-00001-of-00003.gguf'));
    assert.deepEqual(tokens, await theirTokens(llama, file));
    compare(join(dir, 'parts-00002-of-00003.gguf'), tokens, UNCLEAR.f32, 0);
  });
});
