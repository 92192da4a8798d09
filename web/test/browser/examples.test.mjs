/**
 * The packed package in Chromium: the React example, built with Vite; a program built with webpack and with esbuild; a
 * worker of one's own.
 */
import assert from 'node:assert/strict';
import {execFile} from 'node:child_process';
import {cpSync, existsSync, mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {after, before, describe, test} from 'node:test';
import {promisify} from 'node:util';
import {WEB, launch, missing, watchedPage} from './browser.mjs';
import {serve} from './server.mjs';
import {install, pack} from '../support/packed.mjs';
import {REAL_WEIGHTS, makeRealWeights, noRealWeights} from '../support/real-weights.mjs';

const APP = join(WEB, 'test/vite');
const VITE = join(APP, 'node_modules/vite/bin/vite.js');
const noVite = process.env.TERN_WEB_REQUIRED || existsSync(VITE) ? false : `no ${VITE}: npm ci there`;
const PACKAGE = 'node_modules/@tern/web';

describe('the examples of the package', {skip: missing()}, () => {
  let folder, app, browser;

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'tern-examples-'));
    app = join(folder, 'app');
    cpSync(APP, app, {recursive: true});
    await install((await pack(folder)).tarball, app);
    browser = await launch({gpu: false});
  });
  after(async () => {
    await browser?.close();
    rmSync(folder, {recursive: true});
  });

  /** A page of a folder, with what it says and what goes wrong. */
  async function open(root, isolated) {
    const server = await serve({mounts: [['/', root]], isolated});
    const page = await watchedPage(await browser.newContext(), server.url);
    return {page, server, close: () => page.context().close().then(server.close)};
  }

  const buildWithVite = () =>
    promisify(execFile)(process.execPath, [join(app, 'node_modules/vite/bin/vite.js'), 'build'], {cwd: app});

  for (const isolated of [true, false])
    test(`React with Vite, ${isolated ? 'with' : 'without'} threads`, {skip: noVite, timeout: 120000}, async () => {
      cpSync(join(app, PACKAGE, 'examples/react.jsx'), join(app, 'react.jsx'));
      await buildWithVite();
      const {page, server, close} = await open(join(app, 'dist'), isolated);
      await page.goto(server.url);
      assert.equal(await page.evaluate(() => globalThis.crossOriginIsolated), isolated);
      for (const [i, question] of ['What is your name?', 'Hello!'].entries()) {
        await page.fill('input', question);
        await page.click('button:not([disabled])');
        await page.waitForFunction((n) => document.querySelectorAll('p').length === n, 2 * i + 2);
        await page.waitForSelector('button:not([disabled])');
      }
      const said = await page.locator('p').allInnerTexts();
      assert.equal(said[0], 'user What is your name?');
      assert.match(said[1], /^assistant .*Tern/);
      assert.deepEqual(page.seen, {errors: [], foreign: []});
      await close();
    });

  test('weights of real size, with Vite and threads', {skip: noVite || noRealWeights(), timeout: 180000}, async () => {
    makeRealWeights();
    cpSync(join(app, PACKAGE, 'examples/react.jsx'), join(app, 'react.jsx'));
    await buildWithVite();
    cpSync(REAL_WEIGHTS, join(app, 'dist/real.gguf'));
    const {page, server, close} = await open(join(app, 'dist'), true);
    await page.goto(`${server.url}?source=${server.url}real.gguf`);
    await page.waitForSelector('button:not([disabled]), p', {timeout: 150000});
    assert.deepEqual(await page.locator('p').allInnerTexts(), []);
    await close();
  });

  /** What web/test/vite/plain.js gives, built into a folder. */
  async function run(built, query = '') {
    writeFileSync(join(built, 'index.html'), '<!doctype html><script type="module" src="main.js"></script>');
    const {page, server, close} = await open(built, true);
    await page.goto(`${server.url}${query}`);
    await page.waitForFunction(() => 'done' in globalThis);
    const {text, threads, vectors} = await page.evaluate(() => globalThis.done);
    assert.match(text, /there/);
    assert.ok(threads > 1 && vectors.every((length) => length > 0), `${threads} threads, vectors of ${vectors}`);
    assert.deepEqual(page.seen.foreign, []);
    await close();
  }

  test('webpack, as it makes programs smaller', {skip: noVite, timeout: 180000}, async () => {
    const {default: webpack} = await import(join(app, 'node_modules/webpack/lib/index.js'));
    const path = join(app, 'webpack');
    const how = {mode: 'production', context: app, entry: './plain.js', output: {path, filename: 'main.js'}};
    const stats = await promisify(webpack)(how);
    assert.ok(!stats.hasErrors(), stats.toString({all: false, errors: true}));
    await run(path);
  });

  test('esbuild, with the library beside', {skip: noVite, timeout: 120000}, async () => {
    const {build} = await import(join(app, 'node_modules/esbuild/lib/main.js'));
    const path = join(app, 'esbuild');
    for (const format of ['esm', 'iife']) {
      const how = {bundle: true, format, minify: true, outfile: join(path, 'main.js'), logLevel: 'error'};
      await build({...how, entryPoints: [join(app, 'plain.js')]});
      cpSync(join(app, PACKAGE), join(path, 'tern'), {recursive: true});
      await run(path, '?lib=/tern/lib');
    }
  });

  test("a worker of one's own", {timeout: 60000}, async () => {
    const {page, server, close} = await open(join(app, PACKAGE), true);
    await page.goto(`${server.url}examples/plain.html`);
    const text = await page.evaluate(
      () =>
        new Promise((resolve, reject) => {
          const worker = new Worker('/examples/worker.js', {type: 'module'});
          let all = '';
          worker.onerror = (event) => reject(new Error(event.message));
          worker.onmessage = ({data}) => (data === null ? resolve(all) : (all += data));
          worker.postMessage('Once upon a time');
        })
    );
    assert.match(text, /[a-z]+ [a-z]+ [a-z]+/); // each run draws another text
    await close();
  });
});
