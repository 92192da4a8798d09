/** After the first visit the page needs no network: its files from the service worker, the model from OPFS. */
import assert from 'node:assert/strict';
import test from 'node:test';
import {ask, ready} from './browser.mjs';
import {GREEDY, PROMPT, nativeText, skip, station} from './site.mjs';

async function visit(place, note = 'Works offline.') {
  const page = await place.open({settings: GREEDY});
  await page.waitForFunction((text) => document.getElementById('offline-note').textContent === text, note);
  return page;
}

test('reload with the network blocked and the server gone', {skip, timeout: 120000}, async () => {
  const place = await station();
  const page = await visit(place);
  await page.context().setOffline(true);
  await place.server.close();
  await page.reload();
  await ready(page);
  assert.equal(await ask(page, PROMPT), nativeText().text);
  assert.deepEqual(page.seen.foreign, []);
  await place.close();
});

test(
  'from a server without the isolation headers: one thread at first, isolated by the service worker after a reload',
  {skip, timeout: 120000},
  async () => {
    const place = await station({isolated: false});
    const page = await visit(place);
    assert.equal(await page.evaluate(() => globalThis.crossOriginIsolated), false);
    assert.equal(await ask(page, PROMPT), nativeText().text);
    await page.reload();
    await ready(page);
    assert.equal(await page.evaluate(() => globalThis.crossOriginIsolated), true);
    assert.equal(await ask(page, PROMPT), nativeText().text);
    assert.deepEqual(page.seen, {errors: [], foreign: []});
    await place.close();
  },
);

test('files that cannot be stored: the page says so, and answers', {skip, timeout: 120000}, async () => {
  const gone = (request, response, headers) => response.writeHead(404, headers).end();
  const place = await station({routes: {'/icon.svg': gone}});
  const page = await visit(place, 'Needs the network each time: its files could not be stored');
  assert.equal(await ask(page, PROMPT), nativeText().text);
  await place.close();
});
