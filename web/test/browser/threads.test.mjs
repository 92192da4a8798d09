/** The page on several threads of the CPU, with weights of real size: the text as natively. */
import assert from 'node:assert/strict';
import {basename, dirname} from 'node:path';
import test from 'node:test';
import {ask, ready} from './browser.mjs';
import {loadUrl, skip, station} from './site.mjs';
import {REAL_WEIGHTS, makeRealWeights, nativeReply, noRealWeights, visible} from '../support/real-weights.mjs';

const PROMPT = 'a';

test('a model with weights of real size on all cores', {skip: skip || noRealWeights(), timeout: 180000}, async () => {
  makeRealWeights();
  const place = await station({gpu: false, isolated: true, mounts: [['/files/', dirname(REAL_WEIGHTS)]]});
  const settings = {mode: 'complete', 'sampling.temperature': 0, 'sampling.maxTokens': 4, contextLength: 64};
  const page = await place.open({settings: {...settings, threads: 2}});
  await loadUrl(page, `files/${basename(REAL_WEIGHTS)}`);
  assert.equal(await ready(page), 'bitnet-700m · CPU');
  assert.equal(visible(await ask(page, PROMPT)), PROMPT + nativeReply(PROMPT, 4));
  assert.deepEqual(page.seen.foreign, []);
  await place.close();
});
