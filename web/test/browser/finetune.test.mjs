/** Fine-tuning in the browser: the loss falls, the adapter is a file that loads and changes the text. */
import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import test from 'node:test';
import {ask} from './browser.mjs';
import {GREEDY, PROMPT, nativeText, skip, station} from './site.mjs';

const TEXT =
  'Once upon a time a red tern flew to the cold north. The red tern saw ice and snow, and it was very glad.\n\n'.repeat(
    30,
  );

for (const [backend, steps] of [
  ['cpu', 20],
  ['webgpu', 8],
]) {
  test(`a LoRA adapter from pasted text: ${backend}`, {skip, timeout: 150000}, async () => {
    const place = await station();
    const page = await place.open({settings: {...GREEDY, backend}, path: '#finetune'});
    await page.fill('#ft-text', TEXT);
    for (const [name, value] of [
      ['steps', steps],
      ['batch', 2],
      ['sequence', 48],
      ['learningRate', 0.01],
    ])
      await page.fill(`#ft-${name}`, String(value));
    await page.click('#ft-start');
    await page.waitForFunction(() => /^Done after|^$/.test(document.getElementById('ft-status').textContent), null, {
      timeout: 120000,
    });
    assert.equal(await page.locator('[role=alert]').count(), 0);
    const [, first, last] = /loss ([\d.]+) at first, ([\d.]+) at the end/.exec(await page.textContent('#ft-status'));
    assert.ok(Number(last) < Number(first) * 0.9, `${first} to ${last}`);
    const [download] = await Promise.all([page.waitForEvent('download'), page.click('#ft-save')]);
    const adapter = readFileSync(await download.path());
    assert.equal(adapter.subarray(0, 4).toString(), 'GGUF');
    await page.click('#ft-try');
    await page.waitForSelector('#chat-view:visible');
    const adapted = await ask(page, PROMPT);
    assert.notEqual(adapted, nativeText().text);
    await page.click('#adapters >> text=Remove');
    assert.equal(await ask(page, PROMPT), nativeText().text);
    await page.setInputFiles('#adapter-file', {name: 'saved.gguf', mimeType: '', buffer: adapter});
    await page.waitForSelector('#adapters >> text=saved.gguf');
    assert.equal(await ask(page, PROMPT), adapted);
    assert.deepEqual(page.seen, {errors: [], foreign: []});
    await place.close();
  });
}
