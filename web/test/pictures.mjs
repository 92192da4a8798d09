/**
 * Draws every view of the built site, light and dark, on a desktop and on a phone (after make web):
 *   node web/test/pictures.mjs docs/pictures
 */
import {join} from 'node:path';
import {ask} from './browser/browser.mjs';
import {GREEDY, station} from './browser/site.mjs';

const LOOKS = [
  ['light', 'light', 1120, 640],
  ['dark', 'dark', 1120, 640],
  ['phone', 'light', 360, 720],
  ['phone-dark', 'dark', 360, 720],
];
const TEXT = 'The tern flies north over the ice and the snow. It is glad, for the fish are many. '.repeat(6);

async function talk(page) {
  await page.locator('#examples button').first().click();
  await page.waitForFunction(() => document.querySelectorAll('.turn .tools').length === 1);
  await ask(page, 'Who helped in the story?');
}

async function train(page) {
  await page.fill('#ft-text', TEXT);
  await page.fill('#ft-steps', '10');
  await page.fill('#ft-sequence', '16');
  await page.fill('#ft-batch', '1');
  await page.click('#ft-start');
  await page.waitForFunction(() => document.getElementById('ft-status').textContent.startsWith('Done after'), null, {
    timeout: 120000,
  });
}

/** A view's name, its address, and what is done before it is drawn. */
const VIEWS = [
  ['start', '', async () => {}],
  ['chat', '', talk],
  ['models', '#models', async () => {}],
  ['finetune', '#finetune', train],
  ['settings', '', (page) => page.evaluate(() => document.getElementById('panel-toggle').click())],
];

const folder = process.argv[2] ?? 'docs/pictures';
const only = process.argv[3];
const place = await station();
for (const [look, colorScheme, width, height] of LOOKS) {
  const phone = look.startsWith('phone');
  for (const [view, path, prepare] of VIEWS) {
    if ((view === 'settings' && !phone) || (only && !`${view}-${look}`.includes(only))) continue;
    const page = await place.open({
      settings: {...GREEDY, mode: 'chat', 'sampling.maxTokens': 150},
      options: {colorScheme, viewport: {width, height}, hasTouch: phone},
      path,
    });
    await prepare(page);
    await page.evaluate((top) => {
      document.activeElement.blur();
      for (const e of top ? [document.scrollingElement, ...document.querySelectorAll('main, main *')] : [])
        e.scrollTop = 0;
    }, view === 'finetune');
    await page.screenshot({path: join(folder, `web-${view}-${look}.png`)});
    await page.context().close();
  }
}
await place.close();
process.exit(); // what node:test waits for is not run here
