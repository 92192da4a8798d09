/** The package in an extension of Chromium (MV3): its page runs the bundled model, its service worker says no. */
import assert from 'node:assert/strict';
import {mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import test from 'node:test';
import {chromium} from 'playwright-core';
import {EXECUTABLE, missing} from './browser.mjs';
import {assemble} from '../../package.mjs';

const FILES = {
  'manifest.json': JSON.stringify({
    manifest_version: 3,
    name: 'tern',
    version: '1',
    background: {service_worker: 'worker.js', type: 'module'},
    content_security_policy: {extension_pages: "script-src 'self' 'wasm-unsafe-eval'; object-src 'self'"}
  }),
  'worker.js': `import {Tern} from './tern/lib/index.js';
    globalThis.tried = async () => {
      const {supported, webgpu, reason, message} = await Tern.probe();
      const error = await Tern.load('bundled').catch(({code, message}) => ({code, message}));
      return {supported, webgpu, reason, message, error};
    };`,
  'page.html': '<!doctype html><title>tern</title><script type="module" src="page.js"></script>',
  'page.js': `import {Tern} from './tern/lib/index.js';
    globalThis.tried = async (source) => {
      const tern = await Tern.load(source, {backend: 'cpu'});
      const text = await tern.generate('Once upon a time', {temperature: 0, maxTokens: 8}).text();
      await tern.dispose();
      return text;
    };`
};

test('an extension', {skip: missing(), timeout: 120000}, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tern-extension-'));
  const extension = join(folder, 'extension');
  assemble(join(extension, 'tern'));
  for (const [name, text] of Object.entries(FILES)) writeFileSync(join(extension, name), text);
  const args = ['--no-sandbox', '--headless=new', `--disable-extensions-except=${extension}`];
  const context = await chromium.launchPersistentContext(join(folder, 'profile'), {
    executablePath: EXECUTABLE,
    args: [...args, `--load-extension=${extension}`]
  });
  try {
    const worker = context.serviceWorkers()[0] ?? (await context.waitForEvent('serviceworker'));
    const {supported, webgpu, reason, message, error} = await worker.evaluate(() => globalThis.tried());
    assert.deepEqual([supported, webgpu, reason], [false, false, 'UNSUPPORTED']);
    assert.match(message, /no worker can be made here .*ServiceWorkerGlobalScope.*offscreen document/);
    assert.deepEqual(error, {code: 'UNSUPPORTED', message});
    const page = await context.newPage();
    await page.goto(new URL('page.html', worker.url()).href);
    await page.waitForFunction(() => globalThis.tried);
    for (const source of ['bundled', new URL('tern/models/chat.gguf', worker.url()).href])
      assert.match(await page.evaluate((each) => globalThis.tried(each), source), /there/, source);
  } finally {
    await context.close();
    rmSync(folder, {recursive: true});
  }
});
