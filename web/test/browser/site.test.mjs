/** The built page in Chromium: the bundled model answers as natively, on the GPU (SwiftShader) and on the CPU. */
import assert from 'node:assert/strict';
import test, {after, before} from 'node:test';
import {pageFiles, stamp} from '../../site.mjs';
import {SITE, ask, finished, says} from './browser.mjs';
import {GREEDY, ON_GPU, PROMPT, nativeText, skip, station} from './site.mjs';

let place;
before(async () => {
  if (!skip) place = await station({shipped: true});
});
after(async () => place?.close());

const silent = (page) => assert.deepEqual(page.seen, {errors: [], foreign: []});

/** The panel of the device knows the adapter and the memory, and measures. */
async function devicePanel(page) {
  await page.click('#device-section > summary');
  await says(page, '#device-why', /The GPU runs the model/);
  await says(page, '#memory-facts', /Weights\s+[\d.]+ MB/);
  await says(page, '#device-facts', /swiftshader/i);
  await page.click('#measure');
  await page.waitForFunction(() => /B\/s, measured/.test(document.getElementById('device-facts').textContent), null, {
    timeout: 60000,
  });
}

for (const [settings, name] of [
  [ON_GPU, 'WebGPU'],
  [GREEDY, 'CPU'],
]) {
  test(
    `the bundled model loads by itself and writes what the native CPU writes: ${name}`,
    {skip, timeout: 900000},
    async () => {
      const tokens = settings['sampling.maxTokens'];
      const page = await place.open({settings});
      assert.match(await page.textContent('#model-line'), new RegExp(`^chat .* ${name}$`));
      assert.equal(await ask(page, PROMPT), nativeText(PROMPT, tokens).text);
      await says(page, '.turn .tools', new RegExp(`tokens/s · ${tokens} tokens, stopped by length`));
      if (settings === ON_GPU) await devicePanel(page);
      silent(page);
      await page.context().close();
    },
  );
}

test('stop, then regenerate gives the whole text', {skip, timeout: 900000}, async () => {
  const page = await place.open({settings: {...GREEDY, 'sampling.maxTokens': 400}});
  await page.evaluate(() => {
    const observer = new MutationObserver(() => {
      if ((document.querySelector('.reply')?.textContent.length ?? 0) < 30) return;
      observer.disconnect();
      document.getElementById('stop').click();
    });
    observer.observe(document.getElementById('transcript'), {subtree: true, childList: true, characterData: true});
  });
  await page.fill('#prompt', PROMPT);
  await page.press('#prompt', 'Enter');
  await finished(page);
  const begun = await page.innerText('.reply');
  const whole = nativeText(PROMPT, 400).text;
  assert.ok(whole.startsWith(begun) && begun.length < whole.length, begun);
  await page.click('text=Regenerate');
  await finished(page);
  assert.equal(await page.innerText('.reply'), whole.trimEnd());
  silent(page);
  await page.context().close();
});

test("the page's own files take at most 1.6 MB gzipped", {skip}, () => {
  const {gzipped} = stamp(SITE);
  assert.ok(pageFiles(SITE).includes('lib/wasm/tern.wasm'));
  assert.ok(gzipped <= 1.6e6, `${gzipped} bytes`);
});
