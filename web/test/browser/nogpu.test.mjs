/** Without WebGPU, and from an address that is not secure, the page explains itself and uses the CPU. */
import assert from 'node:assert/strict';
import test from 'node:test';
import {ask, says} from './browser.mjs';
import {GREEDY, PROMPT, alertText, nativeText, skip, station} from './site.mjs';

const UNCHOSEN = {...GREEDY, backend: 'auto'};

test('a browser without WebGPU is offered the CPU', {skip, timeout: 90000}, async () => {
  const place = await station({gpu: false});
  const page = await place.open({settings: UNCHOSEN});
  assert.match(await alertText(page), /no WebGPU|no GPU that it can use/);
  assert.match(await page.textContent('#model-line'), /CPU$/);
  assert.equal(await ask(page, PROMPT), nativeText().text);
  await page.click('#device-section > summary');
  await page.waitForSelector('#browsers');
  assert.deepEqual(page.seen, {errors: [], foreign: []});
  await place.close();
});

test(
  'an address that is not secure explains what is missing, and the model answers',
  {skip, timeout: 90000},
  async () => {
    const place = await station({args: ['--host-resolver-rules=MAP tern.test 127.0.0.1']});
    const url = `http://tern.test:${place.server.port}/`;
    const page = await place.open({settings: UNCHOSEN, url});
    assert.equal(await page.evaluate(() => globalThis.isSecureContext), false);
    assert.match(await alertText(page), /not opened securely[^]*localhost/);
    assert.match(await page.textContent('#model-line'), /CPU$/);
    assert.equal(await ask(page, PROMPT), nativeText().text);
    await says(page, '#offline-note', /not opened securely/);
    assert.match(await page.textContent('#storage-use'), /cannot be kept here/);
    await place.close();
  },
);
