/** The page over a double of the library: all that needs no model. */
import assert from 'node:assert/strict';
import test, {after, before} from 'node:test';
import {ask, counts, finished, missing, ready, says} from './browser.mjs';
import {launchDouble, quiet} from './double.mjs';
import {loadUrl} from './site.mjs';

const skip = missing({site: false});
let double;

before(async () => {
  if (!skip) double = await launchDouble();
});
after(() => double?.close());

const open = (how) => double.open(how);

const lastCall = (page) => page.evaluate(() => JSON.parse(JSON.stringify(globalThis.lastCall)));

test('a text is completed, stopped by its end; its tools work', {skip, timeout: 60000}, async () => {
  const page = await open();
  assert.equal(await page.textContent('#model-line'), 'stories · WebGPU');
  assert.equal(await ask(page, 'Once'), 'Once there was a bird that flew over the sea .');
  assert.match(await page.textContent('.turn .tools'), /100 tokens\/s · 10 tokens, stopped by end token/);
  await page.click('text=Continue');
  await finished(page);
  await counts(page.locator('.turn'), 2);
  await page.locator('text=Edit').first().click();
  assert.equal(await page.inputValue('#prompt'), 'Once');
  await counts(page.locator('.turn'), 0);
  await quiet(page);
});

test('a page reloaded while a reply comes keeps the message and what came', {skip, timeout: 60000}, async () => {
  const page = await open({fake: {delay: 300}, settings: {mode: 'complete'}});
  await page.fill('#prompt', 'Once');
  await page.press('#prompt', 'Enter');
  await page.waitForFunction(() => document.querySelector('#conversations .entry'));
  await page.waitForFunction(() => / a bird/.test(document.querySelector('.reply').textContent));
  await page.reload();
  await ready(page);
  await says(page, '.reply', /^Once there/);
  await says(page, '.turn .tools', /stopped/);
  assert.equal(await page.textContent('#chat-title'), 'Once');
  await page.locator('text=Regenerate').click();
  await says(page, '.reply', /^Once there was/);
  page.on('dialog', (dialog) => dialog.accept());
  await page.click('[aria-label="Delete the conversation Once"]');
  await finished(page);
  await counts(page.locator('#conversations .entry'), 0);
  await quiet(page);
});

test('a conversation: messages, system prompt, regenerate, edit, new', {skip, timeout: 60000}, async () => {
  const page = await open({fake: {chat: true}, settings: {system: 'Be kind.'}});
  assert.equal(await ask(page, 'Hello'), 'Reply 2 to Hello .');
  assert.equal(await ask(page, 'Bye'), 'Reply 4 to Bye .');
  assert.deepEqual(
    (await lastCall(page)).messages.map((message) => message.role),
    ['system', 'user', 'assistant', 'user'],
  );
  await page.locator('text=Regenerate').last().click();
  await finished(page);
  await counts(page.locator('.turn'), 2);
  assert.equal((await lastCall(page)).messages.length, 4);
  await page.locator('text=Edit').first().click();
  await counts(page.locator('.turn'), 0);
  await page.check('#mode-complete');
  assert.match(await ask(page, 'Plain'), /^Plain there was/);
  await page.click('#new-chat');
  await counts(page.locator('.turn'), 0);
  await quiet(page);
});

test('stop keeps what was written, by button and by Escape', {skip, timeout: 60000}, async () => {
  for (const how of ['button', 'key']) {
    const page = await open({fake: {delay: 40}});
    await page.fill('#prompt', 'Once');
    await page.press('#prompt', 'Enter');
    await page.waitForFunction(() => document.querySelector('.reply')?.textContent.includes('bird'));
    await (how === 'button' ? page.click('#stop') : page.keyboard.press('Escape'));
    await finished(page);
    assert.match(await page.textContent('.turn'), /stopped by caller/);
    assert.doesNotMatch(await page.innerText('.reply'), /sea/);
    await quiet(page);
  }
});

test("what is chosen is sent with the API's names and survives a reload", {skip, timeout: 60000}, async () => {
  const page = await open({options: {viewport: {width: 1300, height: 900}}});
  await page.click('#sampling-section summary');
  await page.fill('#s-temperature', '1.2');
  await page.fill('#s-topK', '7');
  await page.fill('#s-seed', '42');
  await page.fill('#s-maxTokens', '3');
  await page.fill('#stop-strings', 'END\n\\n');
  await page.reload();
  await ready(page);
  assert.equal(await ask(page, 'A'), 'A there was a');
  assert.deepEqual((await lastCall(page)).options, {
    temperature: 1.2,
    topP: 0.95,
    minP: 0.05,
    typicalP: 1,
    topK: 7,
    maxTokens: 3,
    repetitionPenalty: 1,
    presencePenalty: 0,
    frequencyPenalty: 0,
    penaltyLastN: 64,
    seed: 42,
    stop: ['END', '\n'],
  });
  await page.click('#sampling-section summary');
  await page.click('#sampling-reset');
  await ask(page, 'A');
  assert.equal((await lastCall(page)).options.seed, undefined);
  assert.equal((await lastCall(page)).options.temperature, 0.8);
  await quiet(page);
});

test('a download is paused, goes on where it was, and can be cancelled', {skip, timeout: 60000}, async () => {
  const page = await open({options: {viewport: {width: 1300, height: 900}}});
  await page.evaluate(() => sessionStorage.clear());
  await loadUrl(page, 'slow/chat.gguf');
  await page.waitForFunction(() => /^(1\d|5) MB of 50 MB/.test(document.getElementById('loading-text').textContent));
  await page.click('#pause');
  assert.match(await page.textContent('#loading-title'), /^Paused: chat.gguf/);
  await page.click('#resume');
  await page.waitForFunction(() => /MB from this browser/.test(document.getElementById('loading-text').textContent));
  assert.match(await ready(page), /^talker/);
  await page.evaluate(() => sessionStorage.clear());
  await loadUrl(page, './slow-part.gguf');
  await page.waitForSelector('#cancel:visible');
  await page.locator('#cancel').dispatchEvent('click');
  await page.waitForFunction(() => /half of it/.test(document.getElementById('stored').textContent));
  assert.match(await ready(page), /^talker/);
  assert.match(await ask(page, 'Hello'), /^Reply/);
  await quiet(page);
});

test('of loads that follow each other quickly the last one counts, also in the middle of a reply', {skip}, async () => {
  const page = await open({fake: {delay: 40}, options: {viewport: {width: 1300, height: 900}}});
  await page.evaluate(() => sessionStorage.clear());
  await page.fill('#prompt', 'Once');
  await page.press('#prompt', 'Enter');
  await page.waitForFunction(() => document.querySelector('.reply')?.textContent.includes('bird'));
  await page.evaluate(() => {
    const address = document.getElementById('url');
    for (const name of ['slow.gguf', 'slow-other.gguf', 'chat.gguf']) {
      address.value = name;
      document.getElementById('url-form').requestSubmit();
    }
    document.getElementById('pause').click();
    document.getElementById('resume').click();
  });
  await page.waitForFunction(() => document.getElementById('model-line').textContent.startsWith('talker'));
  assert.equal(await page.evaluate(() => globalThis.loads.at(-1)), 'chat.gguf');
  await counts(page.locator('[role=alert]'), 0);
  await finished(page);
  assert.match(await ask(page, 'Hello'), /^Reply/);
  await quiet(page);
});

const FAILURES = [
  ['truncated', 'The download failed', 'Load again'],
  ['corrupt', 'not those that were promised', 'Load again'],
  ['nomodel', 'no model', 'Dismiss'],
  ['huge', 'too small', 'Load on the CPU'],
  ['full', 'memory', 'Load on the CPU'],
];
for (const [name, title, remedy] of FAILURES) {
  test(
    `a failure gives its message and leaves the model that runs alone: ${name}`,
    {skip, timeout: 60000},
    async () => {
      const page = await open({options: {viewport: {width: 1300, height: 900}}});
      await loadUrl(page, `${name}.gguf`);
      const alert = page.locator('[role=alert]');
      await alert.waitFor();
      assert.match(await alert.innerText(), new RegExp(title));
      assert.ok(await page.locator('.notice').getByRole('button', {name: remedy}).isVisible());
      assert.match(await ready(page), /^stories/);
      // it made room, and came back
      assert.equal(await page.evaluate(() => globalThis.loads.length), name === 'full' ? 2 : 1);
      assert.match(await ask(page, 'Once'), /sea/);
      await quiet(page);
    },
  );
}

test('a lost device: the text so far stays, and the model is loaded again', {skip, timeout: 60000}, async () => {
  const page = await open({fake: {delay: 40}});
  await page.fill('#prompt', 'Once');
  await page.press('#prompt', 'Enter');
  await page.waitForFunction(() => document.querySelector('.reply')?.textContent.includes('bird'));
  await page.evaluate(() => globalThis.loseDevice());
  await page.locator('[role=alert]').waitFor();
  await says(page, '[role=alert]', /GPU was lost/);
  await finished(page);
  await says(page, '.turn', /bird[^]*Ended by an error/);
  await page.getByRole('button', {name: 'Load again'}).click();
  await ready(page);
  await page.click('text=Regenerate');
  await finished(page);
  await says(page, '.reply', /sea/);
  await quiet(page);
});

for (const [code, words] of [
  ['NO_WEBGPU', /no WebGPU/],
  ['NO_ADAPTER', /no GPU/],
  ['INSECURE_CONTEXT', /securely/],
]) {
  test(`without a GPU the page says why and uses the CPU: ${code}`, {skip, timeout: 60000}, async () => {
    const page = await open({fake: {probe: code}, options: {viewport: {width: 1300, height: 900}}});
    assert.match(await page.textContent('#model-line'), /CPU$/);
    await says(page, '[role=alert]', words);
    await page.click('#device-section > summary');
    await says(page, '#browsers', /Firefox 141/);
    assert.match(await ask(page, 'Once'), /sea/);
    await quiet(page);
  });
}

test('the device panel counts experts', {skip, timeout: 60000}, async () => {
  const counts = {prefetched: 0, evictions: 12, copiedBytes: 3342336, stored: 14, fetched: 2, fetchedBytes: 417792};
  const experts = {experts: 16, held: 4, bytes: 3342336, heldBytes: 835584, hits: 48, misses: 16, ...counts};
  const page = await open({fake: {experts}, options: {viewport: {width: 1300, height: 900}}});
  await page.click('#device-section > summary');
  await says(page, '#memory-facts', /Experts\s+4 of 16, 836 kB of 3.34 MB/);
  await says(page, '#memory-facts', /Experts found\s+75 % of 64; 14 from this browser, 2 fetched/);
  await quiet(page);
});

test('the device panel, measured, and as text', {skip, timeout: 60000}, async () => {
  const page = await open({
    options: {viewport: {width: 1300, height: 900}, permissions: ['clipboard-read', 'clipboard-write']},
  });
  await ask(page, 'Once');
  await page.click('#device-section > summary');
  await page.click('#measure');
  await page.waitForFunction(() => document.getElementById('device-facts').textContent.includes('100 GB/s, measured'));
  assert.match(await page.textContent('#device-facts'), /100 tokens\/s of 2.6 MB each: 0.26 % of the bandwidth/);
  await page.click('#copy-report');
  await page.waitForFunction(() => document.getElementById('live').textContent === 'Copied');
  const text = await page.evaluate(() => navigator.clipboard.readText());
  for (const words of [
    'Tern double',
    'Acme One',
    'maxBufferSize: 268435456',
    'Together: 7.9 MB',
    'Speed: 100 tokens/s',
    'Browser: Mozilla',
  ])
    assert.ok(text.includes(words), words);
  await quiet(page);
});

test('adapters: added, scaled, switched off, refused, removed', {skip, timeout: 60000}, async () => {
  const page = await open({options: {viewport: {width: 1300, height: 900}}});
  const uses = () => page.evaluate(() => globalThis.fakeTern.loras.map((use) => use.scale));
  await page.click('#adapters-section > summary');
  await page.setInputFiles('#adapter-file', {name: 'style.gguf', mimeType: '', buffer: Buffer.from('GGUF')});
  await page.waitForSelector('#adapters >> text=style.gguf');
  assert.match(await ask(page, 'Once'), /adapted/);
  await page.fill('#scale-0', '0.5');
  await page.press('#scale-0', 'Tab');
  assert.deepEqual(await uses(), [0.5]);
  await page.uncheck('#adapters input[type=checkbox]');
  assert.deepEqual(await uses(), []);
  await page.setInputFiles('#adapter-file', {name: 'bad.gguf', mimeType: '', buffer: Buffer.from('x')});
  await page.locator('[role=alert]').waitFor();
  await page.click('#adapters >> text=Remove');
  await says(page, '#adapters', /None/);
  await quiet(page);
});

test('adapters: kept under a name, used again, deleted', {skip, timeout: 60000}, async () => {
  const page = await open({options: {viewport: {width: 1300, height: 900}}});
  page.on('dialog', (dialog) => dialog.accept(dialog.type() === 'prompt' ? 'my style' : undefined));
  await page.click('#adapters-section > summary');
  await page.setInputFiles('#adapter-file', {name: 'style.gguf', mimeType: '', buffer: Buffer.from('GGUF')});
  await page.click('#adapters >> text=Keep');
  await page.waitForSelector('#kept-adapters >> text=my style');
  assert.equal(await page.locator('#adapters >> text=Keep').isVisible(), false);
  await page.click('#adapters >> text=Remove');
  await page.click('#kept-adapters >> text=Use');
  await page.waitForSelector('#adapters >> text=my style');
  assert.match(await ask(page, 'Once'), /adapted/);
  await page.click('#kept-adapters >> text=Delete');
  await page.waitForFunction(() => document.getElementById('kept-adapters').childElementCount === 0);
  await quiet(page);
});

test('fine-tuning: loss drawn, stopped, saved, tried in the chat', {skip, timeout: 60000}, async () => {
  const page = await open({path: '#finetune'});
  await page.fill('#ft-text', 'The tern flies north. '.repeat(20));
  await page.fill('#ft-steps', '40');
  await page.click('#ft-start');
  await page.waitForFunction(() => document.getElementById('ft-status').textContent.startsWith('Done after 40 steps'));
  assert.equal((await page.getAttribute('#ft-plot .raw', 'points')).split(' ').length, 40);
  for (const size of [
    {width: 1280, height: 640},
    {width: 360, height: 640}
  ]) {
    await page.setViewportSize(size);
    const plot = await page.locator('#ft-plot').boundingBox();
    assert.ok(plot.y >= 0 && plot.y + plot.height <= size.height, `the curve is in sight: ${JSON.stringify(plot)}`);
  }
  await page.setViewportSize({width: 1280, height: 860});
  for (const name of ['rank', 'learningRate', 'steps', 'batch', 'sequence', 'seed'])
    assert.ok((await page.innerText(`#ft-${name}-help`)).length > 15, `${name} is explained`);
  const [download] = await Promise.all([page.waitForEvent('download'), page.click('#ft-save')]);
  assert.equal(download.suggestedFilename(), 'adapter.gguf');
  await page.click('#ft-try');
  await page.waitForSelector('#chat-view:visible');
  assert.match(await ask(page, 'Once'), /adapted/);
  await page.click('nav >> text=Fine-tune');
  await page.fill('#ft-steps', '9000');
  await page.click('#ft-start');
  await page.waitForFunction(() => document.getElementById('ft-status').textContent.startsWith('Step '));
  await page.click('#ft-stop');
  await page.waitForFunction(() => document.getElementById('ft-status').textContent.startsWith('Stopped after'));
  await quiet(page);
});

test(
  'models: the bundled one, stored ones, known ones; what fits; by address as the policy allows',
  {skip},
  async () => {
    const page = await open();
    await says(page, '#choices', /chat\s+bundled · 6.07 MB[^]*fits this device[^]*stories[^]*2.74 MB/);
    await page.click('nav >> text=Models');
    await page.waitForSelector('#stored >> text=Delete'); // until it is shown its text has no spaces
    await says(page, '#stored', /chat[^]*Loaded[^]*stories\s+on this device · 2.74 MB/);
    await says(page, '#storage-use', /2.74 MB of 1 GB used/);
    await says(page, '#known', /bitnet-2b-4t[^]*about 1.2 GB to fetch[^]*Fetch/);
    page.on('dialog', (dialog) => dialog.accept());
    await page.click('#stored >> text=Delete');
    await page.waitForFunction(() => document.getElementById('stored').childElementCount === 1);
    await loadUrl(page, 'http://192.168.1.7/m.gguf');
    await says(page, '[role=alert]', /policy of this page allows https:, http:\/\/localhost/);
    await page.click('#known li:nth-child(2) button');
    await page.waitForFunction(() => globalThis.loads.at(-1) === 'gemma-3-270m-it-GGUF:Q8_0');
    await page.waitForSelector('#chat-view');
    await page.click('nav >> text=Models');
    await page.selectOption('#choose-activations', 'int8');
    await page.waitForFunction(() => globalThis.lastLoad.activations === 'int8');
    await page.selectOption('#choose-contextLength', '512');
    await page.waitForFunction(() => globalThis.lastLoad.contextLength === 512);
    assert.equal(await page.evaluate(() => globalThis.lastLoad.activations), 'int8');
    assert.equal(await page.evaluate(() => globalThis.lastLoad.experts), undefined);
    await page.selectOption('#choose-experts', '1.5G');
    await page.waitForFunction(() => globalThis.lastLoad.experts === '1.5G');
    await quiet(page);
  },
);

test('examples; conversations are kept, opened, edited, branched and deleted', {skip, timeout: 60000}, async () => {
  const page = await open({fake: {chat: true}});
  page.on('dialog', (dialog) => dialog.accept());
  const replies = () => page.locator('.turn .reply').allInnerTexts();
  await page.locator('#examples button').first().click();
  await finished(page);
  assert.match((await replies())[0], /^Reply 1 to Tell me a story/);
  await page.waitForSelector('#welcome', {state: 'hidden'});
  await ask(page, 'Second');
  await page.locator('.turn').last().getByRole('button', {name: 'Edit'}).click();
  await page.click('#edit-cancel');
  assert.equal((await replies()).length, 2);
  await page.locator('.turn').last().getByRole('button', {name: 'Edit'}).click();
  await ask(page, 'Other');
  assert.match(await page.locator('.turn').last().innerText(), /Other[^]*2 of 2/);
  await page.getByRole('button', {name: 'Earlier version'}).click();
  assert.match((await replies())[1], /Second/);
  await page.locator('.turn').first().getByRole('button', {name: 'Branch'}).click();
  assert.equal((await replies()).length, 1);
  await says(page, '#chat-title', /branch/);
  await page.reload();
  await ready(page);
  assert.equal((await replies()).length, 1); // the tab's own
  await counts(page.locator('#conversations li'), 2);
  await page.locator('#conversations .entry').last().click();
  await page.waitForFunction(() => document.querySelectorAll('.turn').length === 2);
  assert.match((await replies())[1], /Second/);
  await page.locator('#conversations .danger').first().click();
  await page.waitForFunction(() => document.querySelectorAll('#conversations li').length === 1);
  await quiet(page);
});

test('the policy of the page refuses scripts in text and images of others', {skip, timeout: 60000}, async () => {
  const page = await open();
  const refused = await page.evaluate(async () => {
    const seen = new Set();
    const all = new Promise((done) => {
      document.addEventListener('securitypolicyviolation', (event) => {
        seen.add(event.effectiveDirective);
        if (seen.size === 3) done([...seen].sort());
      });
    });
    const script = document.createElement('script');
    script.textContent = 'globalThis.inline = true;';
    document.head.append(script);
    new Image().src = 'http://192.0.2.1/x.png';
    fetch('http://192.0.2.1/').catch(() => {});
    return [...(await all), String(globalThis.inline)];
  });
  assert.deepEqual(refused, ['connect-src', 'img-src', 'script-src-elem', 'undefined']);
  await page.context().close();
});

test('conversations are saved as text and JSON', {skip, timeout: 60000}, async () => {
  const page = await open();
  await ask(page, 'Once');
  for (const [button, name] of [
    ['#export-text', 'conversation.txt'],
    ['#export-json', 'conversation.json'],
  ]) {
    const [download] = await Promise.all([page.waitForEvent('download'), page.click(button)]);
    assert.equal(download.suggestedFilename(), name);
  }
  await quiet(page);
});
