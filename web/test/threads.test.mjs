/** WebAssembly on several threads under Node, with weights of real size: it has as many workers as the pool needs. */
import assert from 'node:assert/strict';
import {before, describe, test} from 'node:test';
import {Tern} from '../lib/index.js';
import {missing} from './support/built.mjs';
import {REAL_WEIGHTS, makeRealWeights, nativeReply, noRealWeights, visible} from './support/real-weights.mjs';

const PROMPT = 'a';
const greedy = {temperature: 0, maxTokens: 6};

describe('threads and weights of real size', {skip: missing('wasm/tern-threads.wasm') || noRealWeights()}, () => {
  let expected;
  before(() => {
    makeRealWeights();
    expected = nativeReply(PROMPT, greedy.maxTokens);
  });

  for (const options of [{threads: 1}, {threads: 2}, {threads: 3, activations: 'int8'}, {}])
    test(`the native text with ${JSON.stringify(options)}`, async () => {
      const tern = await Tern.load(REAL_WEIGHTS, {backend: 'cpu', contextLength: 64, ...options});
      assert.equal(visible(await tern.generate(PROMPT, greedy).text()), expected);
      await tern.dispose();
    });
});
