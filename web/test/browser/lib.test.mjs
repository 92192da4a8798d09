/**
 * The library in Chromium, without the page: its worker, the real private file system, several tabs, other origins. On
 * the CPU.
 */
import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import {after, before, describe, test} from 'node:test';
import {SITE, WEB, launch, missing} from './browser.mjs';
import {ISOLATED, libraryFiles, typed} from './library.mjs';
import {serve} from '../support/server.mjs';

const CORS = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers': 'etag, content-range',
  'cross-origin-resource-policy': 'cross-origin',
};

/** Runs in the page: loads, generates eight tokens, gives what there is to know. */
async function loadThere({source, options = {}, lib = '/lib/index.js', abortAt = Infinity}) {
  const {Tern} = await import(lib);
  const controller = new AbortController();
  const seen = {notices: [], stored: 0, loaded: 0};
  const onProgress = ({loaded, stored, phase}) => {
    if (phase !== 'prepare') Object.assign(seen, {loaded, stored});
    if (loaded >= abortAt) controller.abort();
  };
  const onNotice = (notice) => {
    seen.notices.push(notice);
    globalThis.noticed = notice.code;
  };
  try {
    const how = {backend: 'cpu', threads: 1, ...options, onProgress, onNotice, signal: controller.signal};
    const tern = await Tern.load(source, how);
    seen.text = await tern.generate('Once upon a time', {temperature: 0, maxTokens: 8}).text();
    Object.assign(seen, {threads: tern.device.threads, id: tern.storedAs});
    await tern.dispose();
  } catch (error) {
    Object.assign(seen, {code: error.code, message: error.message});
  }
  return seen;
}

const list = () => import('/lib/index.js').then(({Tern}) => Tern.storage.list());

describe('the library in Chromium', {skip: missing()}, () => {
  const text = / there was a/;
  let browser, site, model, models;
  /** How the server of models behaves; a test may change it. */
  let behave;

  before(async () => {
    browser = await launch({gpu: false});
    site = await serve(libraryFiles(), typed());
    model = readFileSync(join(WEB, '../models/stories.gguf'));
    models = await serve({'/m.gguf': model, '/text.gguf': Buffer.from('no model')}, (...args) => {
      const how = behave(...args) ?? {};
      return {...how, headers: {etag: '"1"', ...CORS, ...how.headers}};
    });
  });
  after(async () => {
    await browser?.close();
    await site?.close();
    await models?.close();
  });

  /** A page of its own, with storage of its own. */
  async function open(context) {
    behave = () => ({});
    models.requests.length = 0;
    const page = await (context ?? (await browser.newContext())).newPage();
    await page.goto(`${site.url}/index.html`);
    return page;
  }

  const source = () => `${models.url}/m.gguf`;
  const ranges = () => models.requests.map((request) => request.range).filter((range) => range !== 'bytes=0-0');

  test('a model of another origin is stored, and read from there without the network', async () => {
    const page = await open();
    const first = await page.evaluate(loadThere, {source: source()});
    assert.match(first.text, text, first.message);
    assert.deepEqual([first.loaded, first.stored, first.notices], [model.length, 0, []]);
    await page.reload();
    behave = () => ({status: 503});
    const second = await page.evaluate(loadThere, {source: source()});
    assert.equal(second.text, first.text, second.message);
    assert.deepEqual([second.stored, second.notices.map(({code}) => code)], [model.length, ['NETWORK']]);
    const third = await page.evaluate(loadThere, {source: {stored: first.id}});
    assert.deepEqual([third.text, third.notices], [first.text, []]);
    const [stored] = await page.evaluate(list);
    assert.deepEqual([stored.id, stored.bytes, stored.complete], [first.id, model.length, true]);
    await page.evaluate((id) => import('/lib/index.js').then(({Tern}) => Tern.storage.delete(id)), first.id);
    assert.deepEqual(await page.evaluate(list), []);
    await page.context().close();
  });

  test('pausing keeps what has come, and the next load goes on there', async () => {
    const page = await open();
    behave = (request) => (request.headers.range === 'bytes=0-0' ? {} : {stall: 1 << 20});
    const paused = await page.evaluate(loadThere, {source: source(), abortAt: 1});
    assert.equal(paused.code, 'CANCELLED', paused.message);
    const [stored] = await page.evaluate(list);
    assert.equal(stored.complete, false);
    assert.ok(stored.stored > 0 && stored.stored <= 1 << 20, `${stored.stored} bytes`);
    behave = () => ({});
    await page.reload();
    const resumed = await page.evaluate(loadThere, {source: source()});
    assert.match(resumed.text, text, resumed.message);
    assert.equal(resumed.stored, stored.stored);
    assert.equal(ranges().at(-1), `bytes=${stored.stored}-${model.length - 1}`);
    await page.context().close();
  });

  test('a damaged chunk is CORRUPT, and the next load fetches it again', async () => {
    const page = await open();
    const {id} = await page.evaluate(loadThere, {source: source()});
    await page.evaluate(async (name) => {
      const folder = await (
        await (await navigator.storage.getDirectory()).getDirectoryHandle('tern-models')
      ).getDirectoryHandle(name);
      const writable = await (await folder.getFileHandle('chunk_000.bin')).createWritable({keepExistingData: true});
      await writable.write({type: 'write', position: 2000000, data: new Uint8Array([1, 2, 3, 4, 5, 6])});
      await writable.close();
    }, id);
    const damaged = await page.evaluate(loadThere, {source: source()});
    assert.equal(damaged.code, 'CORRUPT');
    assert.match(damaged.message, /chunk 0 of 1 of the stored model m-.* is damaged: its SHA-256 is/);
    const again = await page.evaluate(loadThere, {source: source()});
    assert.deepEqual([again.stored, text.test(again.text)], [0, true]);
    await page.context().close();
  });

  // Chromium does not always hold a worker's files to a quota that it has just been given.
  async function loadWithout(bytes) {
    const page = await open();
    const session = await page.context().newCDPSession(page);
    await session.send('Storage.overrideQuotaForOrigin', {origin: site.url, quotaSize: bytes});
    await page.waitForFunction(async (n) => (await navigator.storage.estimate()).quota === n, bytes);
    return {page, loaded: await page.evaluate(loadThere, {source: source()})};
  }

  test('where the quota is too small the model is loaded all the same, and it is said', async () => {
    let {page, loaded} = await loadWithout(1000000);
    for (let i = 0; i < 8 && loaded.notices.length === 0; i++) {
      await page.context().close();
      ({page, loaded} = await loadWithout(1000000));
    }
    assert.match(loaded.text, text);
    assert.deepEqual(
      loaded.notices.map(({code}) => code),
      ['NO_STORAGE'],
    );
    assert.match(loaded.notices[0].message, /m\.gguf cannot be stored: .*2736736.*loading goes on without storing/);
    assert.deepEqual(await page.evaluate(list), []);
    await page.context().close();
  });

  test('a second tab waits for the first one', async () => {
    const context = await browser.newContext();
    const one = await open(context);
    const two = await open(context);
    let go;
    const hold = new Promise((resolve) => {
      go = resolve;
    });
    behave = (request) => (request.headers.range === 'bytes=0-0' ? {} : {hold});
    const first = one.evaluate(loadThere, {source: source()});
    while (ranges().length === 0) await new Promise((resolve) => setTimeout(resolve, 10));
    const second = two.evaluate(loadThere, {source: source()});
    await two.waitForFunction(() => globalThis.noticed === 'BUSY');
    go();
    assert.equal((await first).stored, 0);
    const {stored, text: found, notices} = await second;
    assert.equal(stored, model.length);
    assert.match(found, text);
    assert.deepEqual(
      notices.map(({code}) => code),
      ['BUSY'],
    );
    await context.close();
  });

  test('what is no model is said, and not kept', async () => {
    const page = await open();
    const {code, message} = await page.evaluate(loadThere, {source: `${models.url}/text.gguf`});
    assert.equal(code, 'MALFORMED', message);
    assert.deepEqual(await page.evaluate(list), []);
    const none = await page.evaluate(loadThere, {source: `${models.url}/none.gguf`});
    assert.deepEqual([none.code, /none\.gguf: HTTP status 404/.test(none.message)], ['NETWORK', true]);
    await page.context().close();
  });

  test('a page that is not isolated, with the library of another origin', async () => {
    const library = await serve(libraryFiles(), typed(CORS));
    const plain = await serve({'/index.html': Buffer.from('<!doctype html><title>test</title>')}, typed({}));
    const page = await (await browser.newContext()).newPage();
    await page.goto(`${plain.url}/index.html`);
    behave = () => ({});
    const lib = `${library.url}/lib/index.js`;
    const loaded = await page.evaluate(loadThere, {source: source(), lib, options: {threads: undefined}});
    assert.match(loaded.text ?? loaded.message, text);
    assert.equal(loaded.threads, 1);
    const refused = await page.evaluate(loadThere, {source: source(), lib, options: {threads: 2}});
    assert.equal(refused.code, 'UNSUPPORTED');
    assert.match(refused.message, /2 threads: this page is not cross-origin isolated/);
    await page.context().close();
    await library.close();
    await plain.close();
  });

  /** A page with this policy; `lib` is the library's origin, its own or another's. */
  async function underPolicy(policy, {lib, isolated = false}) {
    const headers = {...CORS, ...(isolated ? ISOLATED : {}), 'content-security-policy': policy};
    const files = {...libraryFiles(), '/models/chat.gguf': model};
    const plain = await serve(files, typed(headers));
    const page = await (await browser.newContext()).newPage();
    await page.goto(`${plain.url}/index.html`);
    const options = isolated ? {threads: 2} : {};
    const from = `${lib ?? plain.url}/lib/index.js`;
    const loaded = await page.evaluate(loadThere, {source: 'bundled', lib: from, options});
    await page.context().close();
    await plain.close();
    return loaded;
  }

  test('the policies that the documentation names are enough, and what a stricter one forbids is said', async () => {
    const own = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self'";
    assert.match((await underPolicy(own, {})).text ?? '', text);
    assert.equal((await underPolicy(own, {isolated: true})).threads, 2);
    const blocked = await underPolicy(own.replace("worker-src 'self'", "worker-src 'none'"), {});
    assert.equal(blocked.code, 'UNSUPPORTED', blocked.message);
    assert.match(blocked.message, /the worker http\S+\/lib\/worker\.js (could not|cannot) be started: /);
    const library = await serve({...libraryFiles(), '/models/chat.gguf': model}, typed(CORS));
    const other =
      `default-src 'none'; script-src 'self' ${library.url} 'wasm-unsafe-eval'; ` +
      `worker-src 'self' blob: ${library.url}; connect-src 'self' ${library.url}`;
    for (const isolated of [false, true]) {
      const loaded = await underPolicy(other, {lib: library.url, isolated});
      assert.match(loaded.text ?? loaded.message, text);
      assert.equal(loaded.threads, isolated ? 2 : 1);
    }
    const less = await underPolicy(other.replace(` blob: ${library.url}`, ' blob:'), {lib: library.url});
    assert.equal(less.code, 'UNSUPPORTED', less.message);
    assert.match(less.message, /Content-Security-Policy forbids it \(worker-src, script-src\)/);
    await library.close();
  });

  test('the example page', async () => {
    const files = {...libraryFiles(), '/models/chat.gguf': readFileSync(join(SITE, 'models/chat.gguf'))};
    const plain = readFileSync(join(WEB, 'examples/plain.html'));
    const example = await serve({...files, '/examples/plain.html': plain}, typed());
    const page = await (await browser.newContext()).newPage();
    await page.goto(`${example.url}/examples/plain.html`);
    await page.waitForFunction(() => document.getElementById('text').textContent === 'chat, on the CPU');
    await page.click('#go');
    await page.waitForFunction(() =>
      /^Once upon a time\b.+ \[\d+ tokens a second\]$/s.test(document.getElementById('text').textContent),
    );
    await page.context().close();
    await example.close();
  });

  test('a server that does not allow other origins', async () => {
    const page = await open();
    const closed = await serve({'/m.gguf': model});
    const {code, message} = await page.evaluate(loadThere, {source: `${closed.url}/m.gguf`});
    assert.equal(code, 'NETWORK');
    assert.match(
      message,
      /no answer \(.+\), from a server that must allow http:\/\/127\.0\.0\.1:\d+ to read it \(CORS\)/,
    );
    await page.context().close();
    await closed.close();
  });

  test('several threads where the page is isolated', async () => {
    const page = await open();
    const {threads, text: found, message} = await page.evaluate(loadThere, {source: source(), options: {threads: 3}});
    assert.match(found ?? message, text);
    assert.equal(threads, 3);
    await page.context().close();
  });
});
