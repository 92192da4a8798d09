/** The page that `tern serve` has at `/`, in Chromium: the chat with the server's models. */
import assert from 'node:assert/strict';
import {spawn} from 'node:child_process';
import {mkdtempSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import test from 'node:test';
import {ROOT, TERN, ask, finished, launch, missing, settle, watchedPage} from './browser.mjs';
import {GREEDY, STORIES, PROMPT, TOKENS, nativeText} from './site.mjs';

const native = () => nativeText(PROMPT, TOKENS, [], STORIES).text;
const skip = missing({site: false});
const PLAIN = join(ROOT, 'tests/serve/support/plain.jinja');

/** A server of two models, and a page of it. */
async function open(t, flags, settings = {}) {
  const child = spawn(TERN, ['serve', '--port', '0', '-m', STORIES, '-m', `second=${STORIES}`, ...flags], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const ended = new Promise((resolve) => child.on('exit', resolve));
  let said = '';
  const port = await new Promise((resolve, reject) => {
    child.on('exit', () => reject(new Error(said)));
    child.stderr.on('data', (data) => {
      said += data;
      const found = /listening on http:\/\/[^ ]*:(\d+)/.exec(said);
      if (found) resolve(found[1]);
    });
  });
  const browser = await launch({gpu: false});
  t.after(async () => {
    await browser.close();
    child.kill('SIGTERM');
    assert.equal(await ended, 0, said);
  });
  const url = `http://127.0.0.1:${port}/`;
  const context = await browser.newContext();
  await settle(context, {...GREEDY, ...settings});
  const page = await watchedPage(context, url);
  await page.goto(url);
  return page;
}

const named = (page, name) =>
  page.waitForFunction((text) => document.getElementById('model-line').textContent === text, name);

test('completes, chats, changes models, stops, and draws what the server does', {skip, timeout: 60000}, async (t) => {
  const page = await open(t, ['--template', PLAIN], {mode: 'complete'});
  await named(page, 'stories');
  assert.equal(await ask(page, PROMPT), native());
  assert.match(await page.locator('.turn .tools').last().innerText(), /48 tokens, stopped by length/);
  await page.check('#mode-chat');
  const reply = await ask(page, PROMPT); // the template adds nothing to a first message
  assert.equal(PROMPT + reply, native().trimEnd());
  assert.deepEqual(await page.locator('#model option').allInnerTexts(), ['stories', 'second']);
  await page.selectOption('#model', 'second');
  await named(page, 'second');
  await page.click('#new-chat');
  await page.check('#mode-complete');
  assert.equal(await ask(page, PROMPT), native());
  await page.locator('#rate-plot polyline').first().waitFor({state: 'attached'});
  await page.waitForFunction(
    (n) => document.getElementById('server-facts').textContent.includes(`${n} generated`),
    3 * TOKENS,
  );
  await page.route('**/api/generate', () => {}); // never answered
  await page.fill('#prompt', PROMPT);
  await page.press('#prompt', 'Enter');
  await page.locator('#stop').click();
  await finished(page);
  assert.match(await page.locator('.turn .tools').last().innerText(), /stopped/);
  assert.deepEqual(page.seen, {errors: [], foreign: []});
});

test('asks for the key, and says what the server refuses', {skip, timeout: 60000}, async (t) => {
  const keys = join(mkdtempSync(join(tmpdir(), 'tern-page-')), 'keys');
  writeFileSync(keys, 'secret\n');
  const page = await open(t, ['--api-key', keys]);
  await page.locator('#key').waitFor();
  await page.fill('#key', 'wrong');
  await page.press('#key', 'Enter');
  await page.fill('#key', 'secret');
  await page.press('#key', 'Enter');
  await named(page, 'stories');
  await page.waitForSelector('#key-form', {state: 'hidden'});
  assert.ok(await page.isEnabled('#mode-chat')); // by the template of the model's family
  await page.fill('#prompt', 'a '.repeat(9000));
  await page.press('#prompt', 'Enter');
  const alert = page.locator('[role=alert]').last();
  await alert.waitFor();
  assert.match(await alert.innerText(), /The server refused[\s\S]*prompt/);
  assert.deepEqual(page.seen.foreign, []);
});
