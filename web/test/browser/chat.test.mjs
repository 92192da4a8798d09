/** A conversation by a model's chat template: what the model reads is what the native command gives it. */
import assert from 'node:assert/strict';
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import test from 'node:test';
import {ask, finished, ready} from './browser.mjs';
import {withText} from './gguf.mjs';
import {GREEDY, STORIES, nativeText, skip, station} from './site.mjs';

const TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:";
const TOKENS = 12;

/** What follows a prompt natively; a template writes the token for the beginning itself, if it wants one. */
const native = (prompt) => nativeText(prompt, TOKENS, ['--no-bos'], STORIES).text.slice(prompt.length);

test(
  'messages go through the template, with the system prompt and what was said before',
  {skip, timeout: 60000},
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'tern-chat-'));
    const file = join(folder, 'talker.gguf');
    writeFileSync(file, withText(readFileSync(STORIES), 'tokenizer.chat_template', TEMPLATE));
    const place = await station();
    const page = await place.open({
      settings: {...GREEDY, mode: 'chat', 'sampling.maxTokens': TOKENS, system: 'Be kind.'},
    });
    await page.setInputFiles('#file', file);
    await ready(page);
    assert.ok(await page.isChecked('#mode-chat'));

    const first = await ask(page, 'Hello');
    const begin = 'system: Be kind.\nuser: Hello\nassistant:';
    const reply = native(begin);
    assert.equal(first.trim(), reply.trim());
    const second = await ask(page, 'And then?');
    assert.equal(second.trim(), native(`${begin}${reply}\nuser: And then?\nassistant:`).trim());
    await page.getByRole('button', {name: 'Regenerate'}).click();
    await finished(page);
    assert.equal(await page.locator('.turn .reply').last().innerText(), second);
    assert.deepEqual(page.seen, {errors: [], foreign: []});
    await place.close();
    rmSync(folder, {recursive: true});
  },
);
