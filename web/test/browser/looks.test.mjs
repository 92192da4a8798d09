/** How the page looks and who can use it: names, widths, themes, axe-core, and what the first screen takes. */
import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import test, {after, before} from 'node:test';
import {WEB, ask, missing} from './browser.mjs';
import {launchDouble, quiet} from './double.mjs';

/** Alone it is a fifth of it; machines of tests are shared. */
const FIRST_PAINT_MS = 5000;
const AXE = missing({site: false}) ? '' : readFileSync(join(WEB, 'node_modules/axe-core/axe.min.js'), 'utf8');
const skip = missing({site: false});
let double;

before(async () => {
  if (!skip) double = await launchDouble();
});
after(() => double?.close());

const open = (how) => double.open(how);

test('every control has a name, and nothing is wider than a phone of 320 pixels', {skip, timeout: 60000}, async () => {
  const page = await open({options: {viewport: {width: 320, height: 640}}});
  assert.ok((await page.locator('.bar').boundingBox()).height < 60); // one row
  await page.click('#panel-toggle');
  await page.evaluate(() => {
    for (const section of document.querySelectorAll('details')) section.open = true;
  });
  const found = await page.evaluate(() => {
    const unnamed = [...document.querySelectorAll('input, textarea, select')]
      .filter((input) => input.type !== 'hidden' && !input.labels?.length)
      .map((input) => input.id);
    const buttons = [...document.querySelectorAll('button, a')]
      .filter((button) => !(button.textContent.trim() || button.ariaLabel))
      .map((button) => button.id);
    return {unnamed, buttons, wide: document.documentElement.scrollWidth > window.innerWidth};
  });
  assert.deepEqual(found, {unnamed: [], buttons: [], wide: false});
  for (const view of ['Models', 'Fine-tune']) {
    await page.click(`nav >> text=${view}`);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), view);
  }
  await page.setViewportSize({width: 1300, height: 700});
  assert.ok(await page.evaluate(() => document.documentElement.scrollHeight <= window.innerHeight));
  await quiet(page);
});

test("the theme is the system's, or the one that was chosen", {skip, timeout: 60000}, async () => {
  const page = await open({options: {colorScheme: 'dark'}});
  const back = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  assert.equal(await back(), 'rgb(14, 24, 32)');
  await page.click('#theme');
  assert.equal(await back(), 'rgb(246, 248, 249)');
  await page.reload();
  assert.equal(await back(), 'rgb(246, 248, 249)');
  await quiet(page);
});

/** What axe-core finds on the page as it is seen: WCAG 2.1 AA and what it calls best practice. */
async function findings(page) {
  await page.evaluate(AXE);
  const found = await page.evaluate(() => globalThis.axe.run(document, {resultTypes: ['violations']}));
  assert.ok(found.passes.length > 20, `${found.passes.length} rules applied`);
  return found.violations.map(({id, nodes}) => `${id}: ${nodes.map((node) => node.target.join(' ')).join(', ')}`);
}

for (const colorScheme of ['light', 'dark']) {
  test(`axe-core finds nothing in any view of the ${colorScheme} theme`, {skip, timeout: 60000}, async () => {
    const page = await open({
      fake: {probe: 'NO_ADAPTER', chat: true},
      options: {colorScheme, viewport: {width: 1300, height: 900}},
    });
    await page.evaluate(() => {
      for (const section of document.querySelectorAll('details')) section.open = true;
    });
    assert.deepEqual(await findings(page), [], 'first screen');
    await ask(page, 'Hello');
    assert.deepEqual(await findings(page), [], 'conversation');
    for (const view of ['Models', 'Fine-tune']) {
      await page.click(`nav >> text=${view}`);
      assert.deepEqual(await findings(page), [], view);
    }
    await quiet(page);
  });
}

test('the first screen has its budget: bytes, and time where machines are shared', {skip, timeout: 60000}, async () => {
  const page = await open();
  const seen = await page.evaluate(() => ({
    paint: performance.getEntriesByName('first-contentful-paint')[0]?.startTime,
    bytes: performance.getEntriesByType('resource').reduce((sum, each) => sum + each.encodedBodySize, 0),
  }));
  assert.ok(seen.bytes > 0 && seen.bytes < 200e3, `${seen.bytes} bytes before a model`);
  assert.ok(seen.paint < FIRST_PAINT_MS, `${seen.paint} ms`);
  await quiet(page);
});
