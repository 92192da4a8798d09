/** The service worker over the double: opens without a network, isolates, a new version waits until it is wanted. */
import assert from 'node:assert/strict';
import {cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import test from 'node:test';
import {stamp} from '../../site.mjs';
import {WEB, launch, missing, ready, watchedPage} from './browser.mjs';
import {serve} from './server.mjs';

const skip = missing({site: false});

function makeSite() {
  const site = mkdtempSync(join(tmpdir(), 'tern-page-'));
  cpSync(join(WEB, 'page'), site, {recursive: true});
  mkdirSync(join(site, 'lib'));
  cpSync(join(WEB, 'test/fake-tern.js'), join(site, 'lib/index.js'));
  stamp(site);
  return site;
}

const offlineReady = (page) =>
  page.waitForFunction(() => document.getElementById('offline-note').textContent === 'Works offline.');

test('offline after the first visit, and updates when the person says so', {skip, timeout: 60000}, async (t) => {
  const site = makeSite();
  const browser = await launch({gpu: false});
  t.after(() => browser.close());
  const server = await serve({mounts: [['/', site]], isolated: false});
  const context = await browser.newContext({viewport: {width: 1280, height: 860}});
  const page = await watchedPage(context, server.url);
  await page.goto(server.url);
  await ready(page);
  await offlineReady(page);
  assert.equal(await page.evaluate(() => globalThis.crossOriginIsolated), false);

  await page.reload();
  await ready(page);
  assert.equal(await page.evaluate(() => globalThis.crossOriginIsolated), true);

  const style = join(site, 'style.css');
  writeFileSync(style, `${readFileSync(style, 'utf8')}\nbody { --newer: 1; }\n`);
  stamp(site);
  await page.reload();
  await page.waitForSelector('.notice >> text=A new version');
  const newer = () => page.evaluate(() => getComputedStyle(document.body).getPropertyValue('--newer').trim());
  assert.equal(await newer(), '');
  await Promise.all([page.waitForNavigation(), page.getByRole('button', {name: 'Use it now'}).click()]);
  await ready(page);
  assert.equal(await newer(), '1');
  await offlineReady(page);

  await context.setOffline(true);
  await server.close();
  await page.reload();
  await ready(page);
  await offlineReady(page);
  assert.equal(await page.evaluate(async () => (await caches.keys()).length), 1);
  assert.deepEqual(page.seen.foreign, []);
  rmSync(site, {recursive: true});
});
