/** Fine-tuning in the browser: the loss falls, the adapter is a file that loads and changes the text. */
import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import test from 'node:test';
import {ask, counts} from './browser.mjs';
import {GREEDY, PROMPT, nativeText, skip, station} from './site.mjs';

const STORY = 'Once upon a time a red tern flew to the cold north. The red tern saw ice and snow, and it was glad.';
const TEXT = `${STORY}\n\n`.repeat(8);

/** Of which every row is alike, so that few steps show. */
const SAME = 'snow and ice. '.repeat(60);

/** Trains on the page; gives the first loss, the mean of the last ones, and the adapter. */
async function train(page, text, options) {
  await page.fill('#ft-text', text);
  for (const [name, value] of Object.entries(options)) await page.fill(`#ft-${name}`, String(value));
  await page.click('#ft-start');
  const ended = () =>
    document.getElementById('ft-stop').hidden &&
    /^(Done after|$)/.test(document.getElementById('ft-status').textContent);
  await page.waitForFunction(ended, null, {timeout: 800000});
  await counts(page.locator('[role=alert]'), 0);
  const [, first, last] = /loss ([\d.]+) at first, ([\d.]+) at the end/.exec(await page.textContent('#ft-status'));
  assert.equal((await page.getAttribute('#ft-plot .raw', 'points')).split(' ').length, options.steps);
  const [download] = await Promise.all([page.waitForEvent('download'), page.click('#ft-save')]);
  const adapter = readFileSync(await download.path());
  assert.equal(adapter.subarray(0, 4).toString(), 'GGUF');
  return {first: Number(first), last: Number(last), adapter};
}

test('a LoRA adapter from pasted text, tried, removed, and loaded from its file', {skip, timeout: 900000}, async () => {
  const place = await station();
  const page = await place.open({settings: GREEDY, path: '#finetune'});
  const options = {steps: 8, batch: 2, sequence: 32, learningRate: 0.02};
  const {first, last, adapter} = await train(page, TEXT, options);
  assert.ok(last < first * 0.9, `${first} to ${last}`);
  await page.click('#ft-try');
  await page.waitForSelector('#chat-view:visible');
  const adapted = await ask(page, PROMPT);
  assert.notEqual(adapted, nativeText().text);
  await page.click('#adapters >> text=Remove');
  await page.waitForSelector('#adapters >> text=None');
  assert.equal(await ask(page, PROMPT), nativeText().text);
  await page.setInputFiles('#adapter-file', {name: 'saved.gguf', mimeType: '', buffer: adapter});
  await page.waitForSelector('#adapters >> text=saved.gguf');
  assert.equal(await ask(page, PROMPT), adapted);
  assert.deepEqual(page.seen, {errors: [], foreign: []});
  await place.close();
});

test('the same on the GPU: the loss falls', {skip, timeout: 900000}, async () => {
  const place = await station({small: true});
  const page = await place.open({settings: {...GREEDY, backend: 'webgpu'}, path: '#finetune'});
  const {first, last} = await train(page, SAME, {steps: 3, batch: 1, sequence: 16, learningRate: 0.02});
  assert.ok(last < first * 0.95, `${first} to ${last}`);
  assert.deepEqual(page.seen, {errors: [], foreign: []});
  await place.close();
});
