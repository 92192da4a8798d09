/** Downloads that end early, files that are no models, damaged shards, a lost device: a message, and all goes on. */
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {createHash} from 'node:crypto';
import {mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import test, {after, before} from 'node:test';
import {TERN, ask, counts, ready} from './browser.mjs';
import {
  GREEDY,
  ON_GPU,
  PROMPT,
  STORIES as MODEL,
  TOKENS,
  alertText,
  loadUrl,
  nativeText,
  skip,
  station,
} from './site.mjs';

const native = (tokens = TOKENS) => nativeText(PROMPT, tokens, [], MODEL).text;
let place;
let folder;
const routes = {};
const model = skip ? Buffer.alloc(0) : readFileSync(MODEL);

before(async () => {
  if (skip) return;
  folder = mkdtempSync(join(tmpdir(), 'tern-faults-'));
  place = await station({routes, small: true, mounts: [['/files/', folder]]});
});
after(async () => {
  await place?.close();
  if (folder) rmSync(folder, {recursive: true});
});

/** The model that was there still answers after the fault. */
async function usable(page) {
  await page.click('nav >> text=Chat');
  assert.equal(await ask(page, PROMPT), native());
  assert.deepEqual(page.seen.foreign, []);
  await page.context().close();
}

/** A server that promises the whole model and hangs up after `bytes`. */
function hangUp(bytes) {
  return (request, response) => {
    const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '');
    const from = range ? Number(range[1]) : 0;
    const to = range && range[2] ? Number(range[2]) + 1 : model.length;
    const headers = {
      'Content-Length': to - from,
      'Accept-Ranges': 'bytes',
      ...(range ? {'Content-Range': `bytes ${from}-${to - 1}/${model.length}`} : {}),
    };
    response.writeHead(range ? 206 : 200, headers);
    if (request.method === 'HEAD') return response.end();
    const end = Math.min(to, bytes);
    if (end >= to) return response.end(model.subarray(from, to));
    response.write(model.subarray(from, Math.max(from, end)), () => setTimeout(() => response.destroy(), 20));
  };
}

test('a download that ends early says how much came, and loading again works', {skip, timeout: 120000}, async () => {
  routes['/short.gguf'] = hangUp(1000000);
  const page = await place.open({settings: GREEDY});
  await loadUrl(page, 'short.gguf');
  const text = await alertText(page, 60000);
  assert.match(text, /download failed/i);
  assert.ok(text.includes(`1000000 of ${model.length} bytes`), text);
  routes['/short.gguf'] = place.server.sendFile(MODEL);
  await page.getByRole('button', {name: 'Load again'}).click();
  await ready(page);
  assert.equal(await ask(page, PROMPT), native());
  await usable(page);
});

test('a file that is no model says what it begins with', {skip, timeout: 60000}, async () => {
  writeFileSync(join(folder, 'letter.txt'), 'Hello, I am a letter and no model at all. '.repeat(200));
  const page = await place.open({settings: GREEDY});
  await loadUrl(page, 'files/letter.txt');
  assert.match(await alertText(page), /damaged, or no model/);
  await page.setInputFiles('#file', join(folder, 'letter.txt'));
  assert.match(await alertText(page), /damaged, or no model/);
  await loadUrl(page, 'files/nothing.gguf');
  assert.match(await alertText(page), /404/);
  await usable(page);
});

test('a model from a picked file answers, and is not kept unless asked for', {skip, timeout: 60000}, async () => {
  const page = await place.open({settings: GREEDY});
  await page.setInputFiles('#file', MODEL);
  await ready(page);
  assert.equal(await ask(page, PROMPT), native());
  await counts(page.locator('#stored li strong'), 1);
  await page.context().close();
});

/** A package of the model in shards of 1 MiB. */
function makePackage() {
  execFileSync(TERN, ['package', MODEL, '-o', join(folder, 'package'), '--shard-size', '1'], {stdio: 'pipe'});
}

test(
  'a damaged shard is named with both sums; when it is mended, loading again works',
  {skip, timeout: 120000},
  async () => {
    makePackage();
    const shards = readdirSync(join(folder, 'package'))
      .filter((name) => name.startsWith('shard_'))
      .sort();
    assert.ok(shards.length > 1);
    const path = join(folder, 'package', shards[1]);
    const good = readFileSync(path);
    const bad = Buffer.from(good);
    bad[bad.length >> 1] ^= 1;
    writeFileSync(path, bad);
    const page = await place.open({settings: GREEDY});
    await loadUrl(page, 'files/package/manifest.json');
    const text = await alertText(page, 60000);
    assert.match(text, /not those that were promised/);
    for (const bytes of [good, bad])
      assert.ok(text.includes(createHash('sha256').update(bytes).digest('hex').slice(0, 16)), text);
    writeFileSync(path, good);
    await page.getByRole('button', {name: 'Load again'}).click();
    await ready(page);
    assert.equal(await ask(page, PROMPT), native());
    await usable(page);
  },
);

test('a download that is paused goes on with what it has', {skip, timeout: 120000}, async () => {
  let sent = 0;
  let slow = true;
  const whole = place.server.sendFile(MODEL);
  routes['/slow.gguf'] = (request, response, headers) => {
    const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '');
    if (!slow || request.method === 'HEAD') return whole(request, response, headers);
    const from = range ? Number(range[1]) : 0;
    const to = range && range[2] ? Number(range[2]) + 1 : model.length;
    response.writeHead(range ? 206 : 200, {
      ...headers,
      'Content-Length': to - from,
      'Accept-Ranges': 'bytes',
      ...(range ? {'Content-Range': `bytes ${from}-${to - 1}/${model.length}`} : {}),
    });
    let at = from;
    const tick = setInterval(() => {
      const piece = model.subarray(at, Math.min(at + 65536, to));
      sent += piece.length;
      at += piece.length;
      response.write(piece);
      if (at >= to || response.destroyed) {
        clearInterval(tick);
        response.end();
      }
    }, 60);
    response.on('close', () => clearInterval(tick));
  };
  const page = await place.open({settings: GREEDY});
  await loadUrl(page, 'slow.gguf');
  await page.waitForFunction(
    () => /^(\d{3} kB|1\.?\d* MB) of 2.74 MB/.test(document.getElementById('loading-text').textContent),
    null,
    {timeout: 30000},
  );
  await page.click('#pause');
  assert.match(await page.textContent('#loading-title'), /^Paused/);
  slow = false;
  await page.click('#resume');
  await ready(page);
  assert.equal(await ask(page, PROMPT), native());
  assert.ok(sent > 0 && sent < model.length, `${sent} bytes were sent slowly`);
  await page.context().close();
});

test('a lost device is said, and loading again works', {skip, timeout: 900000}, async () => {
  const page = await place.open({settings: {...ON_GPU, 'sampling.maxTokens': 3}});
  const cdp = await place.browser.newBrowserCDPSession();
  const crash = cdp.send('Browser.crashGpuProcess');
  assert.match(await alertText(page, 60000), /GPU was lost/);
  await crash.catch(() => {});
  assert.ok(await page.isDisabled('#send'));
  await page.getByRole('button', {name: 'Load again'}).click();
  await ready(page);
  assert.match(await page.textContent('#model-line'), /WebGPU$/);
  assert.equal(await ask(page, PROMPT), native(3));
  await page.context().close();
});
