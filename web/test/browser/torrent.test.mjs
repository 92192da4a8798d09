/** Packages by BitTorrent in Chromium: web seeds, and peers that are other pages, honest or not. On the CPU. */
import assert from 'node:assert/strict';
import {join} from 'node:path';
import {after, afterEach, before, describe, test} from 'node:test';
import {serve} from '../support/server.mjs';
import {SITE, WEB, launch, missing, ready, says, watchedPage} from './browser.mjs';
import {libraryFiles, typed} from './library.mjs';
import {serve as serveSite} from './server.mjs';
import {OPEN_ADDRESSES, giveThere, makeAdapter, makePackage, startTracker, streamOf, webtorrent} from './swarm.mjs';

const CORS = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers': 'etag, content-range',
  'cross-origin-resource-policy': 'cross-origin',
};

/** Runs in the page: loads, writes eight tokens; the Tern stays open as globalThis.tern. */
async function loadThere({source, bytes, options = {}}) {
  const {Tern} = await import('/lib/index.js');
  const seen = {notices: []};
  const onNotice = ({code}) => seen.notices.push(code);
  const what = bytes ? new File([new Uint8Array(bytes)], 'package.torrent') : source;
  try {
    const tern = await Tern.load(what, {backend: 'cpu', threads: 1, ...options, onNotice});
    globalThis.tern = tern;
    seen.text = await tern.generate('Once upon a time', {temperature: 0, maxTokens: 8}).text();
    Object.assign(seen, {id: tern.storedAs, torrent: tern.torrent});
  } catch (error) {
    Object.assign(seen, {code: error.code, message: error.message});
  }
  return seen;
}

/** Runs in the page: what the Tern writes with an adapter beside its model; `source` null: with none. */
async function writeThere({source, bytes, keep, options}) {
  const {tern} = globalThis;
  try {
    const what = bytes ? new Uint8Array(bytes) : source;
    if (keep) Object.assign(keep, await tern.storeLora(what, options));
    const lora = what && (await tern.loadLora(keep ? {stored: keep.name} : what, options));
    await tern.setLoras(lora ? [{lora}] : []);
    const text = await tern.generate('Once upon a time', {temperature: 0, maxTokens: 24}).text();
    await lora?.dispose();
    return {text, keep};
  } catch (error) {
    return {code: error.code, message: error.message};
  }
}

describe('packages by BitTorrent in Chromium', {skip: missing()}, () => {
  const text = / there was a/;
  let browser, site, seeds, tracker, stories, other, adapter;
  let served = true;

  before(async () => {
    browser = await launch({gpu: false, args: [OPEN_ADDRESSES]});
    tracker = await startTracker();
    site = await serve({...libraryFiles(), '/vendor/webtorrent.min.js': webtorrent()}, typed());
    const files = {};
    seeds = await serve(files, () => (served ? {headers: CORS} : {status: 503, headers: CORS}));
    const flags = ['--tracker', tracker.url, '--web-seed', `${seeds.url}/`];
    stories = makePackage(join(WEB, '../models/stories.gguf'), 'stories', flags);
    const elsewhere = ['--tracker', tracker.url, '--web-seed', `${seeds.url}/other`];
    other = makePackage(join(WEB, '../models/chat.gguf'), 'stories', elsewhere);
    adapter = makeAdapter(join(WEB, '../models/stories.gguf'), 'logbook', flags);
    Object.assign(files, stories.files, adapter.files);
    for (const [path, bytes] of Object.entries(other.files)) files[`/other${path}`] = bytes;
  });
  after(async () => {
    await browser?.close();
    for (const each of [site, seeds, tracker]) await each?.close();
  });

  afterEach(() => Promise.all(browser.contexts().map((context) => context.close())));

  /** A page with storage of its own. */
  async function open() {
    served = true;
    const page = await (await browser.newContext()).newPage();
    await page.goto(`${site.url}/index.html`);
    return page;
  }

  const withoutSeeds = (magnet) => magnet.replace(/&ws=[^&]*/g, '');

  test('a web seed alone gives all of it, and what is stored needs nobody', async () => {
    const page = await open();
    const {text: said, torrent, message} = await page.evaluate(loadThere, {source: stories.magnet});
    assert.match(said ?? message, text);
    assert.deepEqual([torrent.name, torrent.fromPeers, torrent.seeding], ['stories', 0, false]);
    assert.ok(torrent.fromWebSeeds > 2e6, `${torrent.fromWebSeeds}`);
    served = false;
    await page.reload();
    const again = await page.evaluate(loadThere, {source: withoutSeeds(stories.magnet)});
    assert.equal(again.text, said, again.message);
  });

  test('pages give each other what they have stored', async () => {
    const [giver, taker] = [await open(), await open()];
    const first = await giver.evaluate(loadThere, {bytes: [...stories.torrent], options: {seed: true}});
    assert.match(first.text ?? first.message, text);
    assert.equal(first.torrent.seeding, true);
    served = false;
    const second = await taker.evaluate(loadThere, {source: withoutSeeds(stories.magnet)});
    assert.equal(second.text, first.text, second.message);
    assert.ok(second.torrent.fromPeers > 2e6 && second.torrent.fromWebSeeds === 0, JSON.stringify(second.torrent));
    const given = await giver.evaluate(() => globalThis.tern.torrent.uploaded);
    assert.ok(given > 2e6, `${given}`);
    await giver.evaluate(() => globalThis.tern.setSeeding(false));
    assert.equal(await giver.evaluate(() => globalThis.tern.torrent.seeding), false);
  });

  /** A page that gives the model, with so many bytes a second. */
  async function giverOf(rate = Infinity) {
    const giver = await open();
    const {torrent, message} = await giver.evaluate(loadThere, {source: stories.magnet, options: {seed: true}});
    assert.ok(torrent?.seeding, message);
    if (rate < Infinity)
      await giver.evaluate((bytes) => globalThis.tern.swarm.seeding.client.throttleUpload(bytes), rate);
    return giver;
  }

  const uploadedBy = (giver) => giver.evaluate(() => globalThis.tern.torrent.uploaded);

  test('a peer that leaves in the middle, or is slow, is one that a web seed stands in for', async () => {
    for (const [rate, leaves] of [
      [400e3, true],
      [30e3, false],
    ]) {
      const [giver, taker] = [await giverOf(rate), await open()];
      served = false; // until something has come from the peer
      const taking = taker.evaluate(loadThere, {source: stories.magnet});
      const over = taking.then(() => assert.fail('all of it came from the peer'));
      over.catch(() => {});
      while ((await Promise.race([uploadedBy(giver), over])) < 200e3) await giver.waitForTimeout(20);
      served = true;
      if (leaves) await giver.context().close();
      const {text: said, torrent, message} = await taking;
      assert.match(said ?? message, text);
      assert.ok(torrent.fromWebSeeds > 0 && torrent.fromPeers > 0, JSON.stringify(torrent));
    }
  });

  test('a peer that lies spoils nothing', async () => {
    const [liar, taker] = [await open(), await open()];
    await liar.evaluate(giveThere, {torrent: [...stories.torrent], tracker: tracker.url, byte: 7});
    const {text: said, torrent, message} = await taker.evaluate(loadThere, {bytes: [...stories.torrent]});
    assert.match(said ?? message, text);
    assert.equal(torrent.fromPeers, 0);
    const told = await liar.evaluate(() => globalThis.client.torrents[0].uploaded);
    assert.ok(told > 0, 'the liar was not asked');
  });

  test('a swarm of five without a web seed: one lies, one leaves, one is slow, one has it', async () => {
    const givers = [await giverOf(2e6), await giverOf(30e3), await giverOf(100e3)];
    const [liar, taker] = [await open(), await open()];
    await liar.evaluate(giveThere, {torrent: [...stories.torrent], tracker: tracker.url, byte: 9});
    served = false;
    const taking = taker.evaluate(loadThere, {source: withoutSeeds(stories.magnet)});
    while ((await uploadedBy(givers[2])) === 0) await taker.waitForTimeout(50);
    await givers.pop().context().close();
    const {text: said, torrent, message} = await taking;
    assert.match(said ?? message, text);
    assert.ok(torrent.fromPeers > 2.7e6 && torrent.fromWebSeeds === 0, JSON.stringify(torrent));
  });

  test('two packages of one name are two', async () => {
    const page = await open();
    const one = await page.evaluate(loadThere, {source: stories.magnet});
    const two = await page.evaluate(loadThere, {source: other.magnet});
    assert.ok(one.text && two.text && one.text !== two.text, `${one.message} ${two.message}`);
    assert.notEqual(one.id, two.id);
  });

  test('an adapter by its torrent, from a web seed and from a peer, is the one that was packaged', async () => {
    const [giver, page] = [await open(), await open()];
    const loaded = await page.evaluate(loadThere, {source: `${seeds.url}/stories/manifest.json`});
    assert.match(loaded.text ?? loaded.message, text);
    const write = (request) => page.evaluate(writeThere, request);
    const plain = await write({source: null});
    const expected = await write({bytes: [...adapter.learned]});
    assert.ok(expected.text && expected.text !== plain.text, expected.message);
    assert.deepEqual(await write({source: adapter.magnet}), expected);
    assert.deepEqual(await write({source: `${seeds.url}/logbook/manifest.json`}), expected);
    assert.deepEqual(await write({source: `${seeds.url}/logbook/package.torrent`}), expected);
    await giver.evaluate(giveThere, {
      torrent: [...adapter.torrent],
      tracker: tracker.url,
      stream: [...streamOf(adapter)],
    });
    served = false;
    const {keep, ...kept} = await write({source: withoutSeeds(adapter.magnet), keep: {}});
    assert.equal(kept.text, expected.text, kept.message);
    assert.deepEqual([keep.name, keep.files.map(({name}) => name)], ['logbook', ['adapter.gguf']]);
    assert.match(keep.source, /^magnet:\?xt=urn:btih:[0-9a-f]{40}&dn=logbook/);
    served = true;
    const model = await write({source: stories.magnet});
    assert.deepEqual([model.code, /of a model, that of an adapter/.test(model.message)], ['UNSUPPORTED', true]);
    const reverse = await page.evaluate(loadThere, {source: adapter.magnet});
    assert.equal(reverse.code, 'UNSUPPORTED');
    assert.match(reverse.message, /the package of an adapter \(LoRA\), that of a model expected/);
  });

  test('the page takes a magnet link, and a switch gives the model to others', async () => {
    const server = await serveSite({
      mounts: [['/', SITE]],
      routes: {'/vendor/webtorrent.min.js': (request, response, headers) =>
        response.writeHead(200, {...headers, 'Content-Type': 'text/javascript'}).end(webtorrent())},
    });
    const page = await watchedPage(await browser.newContext(), server.url);
    await page.goto(`${server.url}#models`);
    await ready(page);
    served = true;
    await page.fill('#url', stories.magnet);
    await page.press('#url', 'Enter');
    await page.waitForFunction(() => /stories/.test(document.getElementById('torrent-line').textContent));
    await page.goto(`${server.url}#models`);
    await says(page, '#torrent-line', /^stories: 0 B came from peers, 2\.7\d MB from web seeds$/);
    await page.check('#seed');
    await says(page, '#torrent-line', /given to others: 0 B, 0 peers now/);
    await page.uncheck('#seed');
    await says(page, '#torrent-line', /web seeds$/);
    await page.evaluate(() => (document.getElementById('adapters-section').open = true));
    await page.fill('#adapter-url', adapter.magnet);
    await page.press('#adapter-url', 'Enter');
    await says(page, '#adapters', /logbook/);
    assert.deepEqual(page.seen.errors, []);
    await server.close();
  });

  test('what was interrupted goes on by the link that is stored with it', async () => {
    const page = await open();
    const stored = await page.evaluate(async (source) => {
      const {Tern} = await import('/lib/index.js');
      const control = new AbortController();
      const plain = globalThis.fetch;
      globalThis.fetch = (url, how) => {
        if (/shard/.test(url)) control.abort();
        return plain(url, how);
      };
      await Tern.load(source, {backend: 'cpu', threads: 1, signal: control.signal}).catch(() => {});
      globalThis.fetch = plain;
      return (await Tern.storage.list())[0];
    }, stories.magnet);
    assert.equal(stored?.complete, false);
    const {text: said, id, message} = await page.evaluate(loadThere, {source: stored.source});
    assert.match(said ?? message, text);
    assert.equal(id, stored.id);
  });

  test('what is wrong is said', async () => {
    const page = await open();
    const fail = async (request, code, pattern) => {
      const found = await page.evaluate(loadThere, request);
      assert.equal(found.code, code, found.message);
      assert.match(found.message, pattern);
    };
    await fail({bytes: [1, 2, 3]}, 'MALFORMED', /package\.torrent is no torrent/);
    await fail({source: 'magnet:?xt=urn:btih:12&dn=x'}, 'INVALID_ARGUMENT', /40 hexadecimal digits/);
    const nobody = `magnet:?xt=urn:btih:${'0'.repeat(40)}&dn=x`;
    await fail({source: nobody}, 'UNSUPPORTED', /neither a web seed nor a tracker/);
    const wrong = stories.magnet.replace(/btih:[0-9a-f]{40}/, `btih:${'0'.repeat(40)}`).replace(/&tr=[^&]*/g, '');
    await fail({source: wrong}, 'NETWORK', /is another torrent/);
    const kept = await page.evaluate(loadThere, {source: stories.magnet, options: {seed: true, store: false}});
    assert.match(kept.text ?? kept.message, text);
    assert.deepEqual([kept.notices, kept.torrent.seeding], [['NO_STORAGE'], false]);
    const options = {webtorrent: '/nothing.js'};
    await fail({source: withoutSeeds(stories.magnet), options}, 'UNSUPPORTED', /WebTorrent.*cannot be loaded/);
    const {text: said, notices} = await page.evaluate(loadThere, {source: stories.magnet, options});
    assert.match(said, text);
    assert.deepEqual(notices, ['UNSUPPORTED']);
  });
});
