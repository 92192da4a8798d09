/** Packages by BitTorrent in Chromium: web seeds, and peers that are other pages, honest or not. On the CPU. */
import assert from 'node:assert/strict';
import {join} from 'node:path';
import {after, before, describe, test} from 'node:test';
import {serve} from '../support/server.mjs';
import {WEB, launch, missing} from './browser.mjs';
import {libraryFiles, typed} from './library.mjs';
import {OPEN_ADDRESSES, makePackage, startTracker, webtorrent} from './swarm.mjs';

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

/** Runs in the page: a peer of WebTorrent alone, that says it has all and gives what `byte` says. */
async function lieThere({torrent, tracker, byte}) {
  const {default: WebTorrent} = await import('/vendor/webtorrent.min.js');
  const client = (globalThis.client = new WebTorrent({dht: false, lsd: false, webSeeds: false}));
  class Store {
    constructor(chunkLength) {
      this.chunkLength = chunkLength;
    }
    get(index, options, done = options) {
      const {length = this.chunkLength} = typeof options === 'object' ? options : {};
      queueMicrotask(() => done(null, new Uint8Array(length).fill(byte)));
    }
    put(index, bytes, done) {
      queueMicrotask(() => done(null));
    }
    close(done) {
      done?.(null);
    }
    destroy(done) {
      done?.(null);
    }
  }
  const how = {announce: [tracker], store: Store, storeCacheSlots: 0, skipVerify: true};
  await new Promise((ready) => client.add(new Uint8Array(torrent), how, ready));
}

describe('packages by BitTorrent in Chromium', {skip: missing()}, () => {
  const text = / there was a/;
  let browser, site, seeds, tracker, stories, other;
  let served = true;

  before(async () => {
    browser = await launch({gpu: false, args: [OPEN_ADDRESSES]});
    tracker = await startTracker();
    site = await serve({...libraryFiles(), '/vendor/webtorrent.min.js': webtorrent()}, typed());
    const files = {};
    seeds = await serve(files, () => (served ? {headers: CORS} : {status: 503, headers: CORS}));
    const flags = ['--tracker', tracker.url, '--web-seed', `${seeds.url}/`];
    stories = makePackage(join(WEB, '../models/stories.gguf'), 'stories', flags);
    other = makePackage(join(WEB, '../models/chat.gguf'), 'stories', ['--tracker', tracker.url]);
    Object.assign(files, stories.files);
  });
  after(async () => {
    await browser?.close();
    for (const each of [site, seeds, tracker]) await each?.close();
  });

  /** A page with storage of its own. */
  async function open() {
    served = true;
    const page = await (await browser.newContext()).newPage();
    await page.goto(`${site.url}/index.html`);
    return page;
  }

  const withoutSeeds = (magnet) => magnet.replace(/&ws=[^&]*/g, '');
  const close = (...pages) => Promise.all(pages.map((page) => page.context().close()));

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
    await close(page);
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
    await close(giver, taker);
  });
});
