/** The page with a model in parts: picked, kept, read again after a reload, by the address of any part. */
import assert from 'node:assert/strict';
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import test from 'node:test';
import {ask, ready} from './browser.mjs';
import {GREEDY, PROMPT, STORIES, alertText, loadUrl, skip, station} from './site.mjs';
import {split} from '../support/split.mjs';

const settings = {...GREEDY, 'sampling.maxTokens': 12};
const loaded = (page, name) =>
  page.waitForFunction((text) => document.getElementById('model-line').textContent.startsWith(text), name);

const models = (page) =>
  page.evaluate(() => {
    location.hash = '#models';
  });

test('a model in parts: picked, kept, by address, a part that is missing', {skip, timeout: 120000}, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'tern-'));
  const parts = split(readFileSync(STORIES), 3, 'tales');
  for (const {name, bytes} of parts) writeFileSync(join(folder, name), bytes);
  const place = await station({gpu: false, mounts: [['/parts/', folder]]});
  t.after(async () => {
    await place.close();
    rmSync(folder, {recursive: true});
  });
  const page = await place.open({settings});
  const paths = parts.map(({name}) => join(folder, name));
  await models(page);
  await page.setInputFiles('#file', paths.slice(1));
  assert.match(await alertText(page), /tales-00001-of-00003\.gguf, part 1 of the model's 3, is missing/);
  assert.match(await page.textContent('#model-line'), /^chat /, 'the model that runs stays');

  await models(page);
  await page.check('#keep');
  await page.setInputFiles('#file', paths.reverse());
  await loaded(page, 'stories');
  const text = await ask(page, PROMPT);
  assert.ok(text.length > PROMPT.length, text);

  await page.reload();
  await ready(page);
  await models(page);
  await page.getByRole('button', {name: 'Load tales.gguf'}).click();
  await loaded(page, 'stories');
  await loadUrl(page, '/models/chat.gguf');
  await loaded(page, 'chat');
  await loadUrl(page, `/parts/${parts[1].name}`);
  await loaded(page, 'stories');
  await page.click('#new-chat');
  assert.equal(await ask(page, PROMPT), text);
  assert.deepEqual(page.seen.errors, []);
});
