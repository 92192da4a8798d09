/**
 * Packages by expert from torrents in Chromium, where nothing is stored: experts come when a step needs them, from web
 * seeds and peers, and no others.
 */
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {mkdtempSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {after, afterEach, before, describe, test} from 'node:test';
import {serve} from '../support/server.mjs';
import {TERN, launch, missing} from './browser.mjs';
import {libraryFiles, typed} from './library.mjs';
import {OPEN_ADDRESSES, giveThere, makePackage, startTracker, streamOf, webtorrent} from './swarm.mjs';

const CORS = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers': 'etag, content-range',
  'cross-origin-resource-policy': 'cross-origin',
};

/** Runs in the page: loads, writes so many tokens; the Tern stays open as globalThis.tern. */
async function loadThere({source, tokens, options = {}}) {
  const {Tern} = await import('/lib/index.js');
  const seen = {notices: []};
  const onNotice = (notice) => seen.notices.push(notice);
  try {
    const tern = await Tern.load(source, {store: false, experts: 8, ...options, onNotice});
    globalThis.tern = tern;
    seen.text = await tern.generate('abc', {temperature: 0, maxTokens: tokens}).text();
    Object.assign(seen, {experts: await tern.experts(), torrent: tern.torrent, id: tern.storedAs});
  } catch (error) {
    Object.assign(seen, {code: error.code, message: error.message});
  }
  return seen;
}

/** Runs in the page: goes on with the Tern that is there. */
async function again(tokens) {
  try {
    return await globalThis.tern.generate('abc', {temperature: 0, maxTokens: tokens}).text();
  } catch (error) {
    return `${error.code}: ${error.message}`;
  }
}

describe('experts from torrents in Chromium', {skip: missing()}, () => {
  const CPU = {backend: 'cpu', threads: 1};
  let browser, site, open_, seeds, tracker, made, folder, expected, experts;
  /** Which paths the web seed gives. */
  let gives = () => true;

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'tern-'));
    const file = join(folder, 'm.gguf');
    const run = (...args) => execFileSync(TERN, args, {encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe']});
    run('synth', '--preset', 'mixtral-tiny', '--type', 'q8_0', '-o', file);
    const how = ['-p', 'abc', '-n', '16', '--greedy', '--json', '--quiet'];
    expected = JSON.parse(run('run', '-m', file, ...how)).text;
    browser = await launch({args: [OPEN_ADDRESSES]});
    tracker = await startTracker();
    const files = {...libraryFiles(), '/vendor/webtorrent.min.js': webtorrent()};
    site = await serve(files, typed());
    open_ = await serve(files, typed({}));
    const served = {};
    seeds = await serve(served, (request, {path}) => ({headers: CORS, ...(gives(path) ? {} : {status: 503})}));
    made = makePackage(file, 'mixtral', ['--tracker', tracker.url, '--web-seed', `${seeds.url}/`]);
    Object.assign(served, made.files);
    const {shards} = JSON.parse(made.files['/mixtral/manifest.json'].toString());
    experts = new Set(shards.filter(({type}) => type === 'expert').map((shard) => `/mixtral/${shard.file}`));
  });
  after(async () => {
    await browser?.close();
    for (const each of [site, open_, seeds, tracker]) await each?.close();
    rmSync(folder, {recursive: true});
  });
  afterEach(() => Promise.all(browser.contexts().map((context) => context.close())));

  /** A page with storage of its own, of a site that is cross-origin isolated. */
  async function open(server = site) {
    gives = () => true;
    seeds.requests.length = 0;
    const page = await (await browser.newContext()).newPage();
    await page.goto(`${server.url}/index.html`);
    return page;
  }

  const load = (page, request = {}) =>
    page.evaluate(loadThere, {source: made.magnet, tokens: 1, ...request, options: {...CPU, ...request.options}});
  const asked = () => new Set(seeds.requests.map(({path}) => path).filter((path) => experts.has(path))).size;
  const fromPeersAlone = () => made.magnet.replace(/&ws=[^&]*/g, '');

  for (const options of [CPU, {backend: 'webgpu'}])
    test(`a web seed is asked for the experts that are needed, and no others: ${options.backend}`, async () => {
      const page = await open();
      const first = await load(page, {options});
      assert.ok(first.text && expected.startsWith(first.text), first.message);
      assert.deepEqual([first.id, first.experts.fetched, first.experts.stored], [null, asked(), 0]);
      assert.ok(asked() > 0 && asked() < experts.size, `${asked()} of ${experts.size}`);
      assert.equal(await page.evaluate(again, 16), expected);
    });

  test('a peer gives them, as long as it is there', async () => {
    const [giver, page] = [await open(), await open()];
    await giver.evaluate(giveThere, {torrent: [...made.torrent], tracker: tracker.url, stream: [...streamOf(made)]});
    gives = () => false;
    const first = await load(page, {source: fromPeersAlone()});
    assert.ok(first.text && expected.startsWith(first.text), first.message);
    const all = Object.values(made.files).reduce((sum, {length}) => sum + length, 0);
    const {fromPeers, fromWebSeeds} = first.torrent;
    assert.ok(fromPeers > 0 && fromPeers < all && fromWebSeeds === 0, `${fromPeers} of ${all}, ${fromWebSeeds}`);
    assert.equal(await page.evaluate(again, 16), expected);
  });

  test('one that cannot be had ends the step with its name, and the session goes on', async () => {
    const page = await open();
    gives = (path) => !experts.has(path);
    const failed = await load(page, {source: made.magnet.replace(/&tr=[^&]*/g, ''), options: {webtorrent: '/none.js'}});
    assert.equal(failed.code, 'NETWORK', failed.message);
    assert.match(failed.message, /expert \d of layer \d: .*nobody gives piece \d+ of shard_\d+\.bin/);
    gives = () => true;
    assert.equal(await page.evaluate(again, 16), expected);
  });

  test('where threads share no memory it is said what is missing; stored, all of it is there', async () => {
    const page = await open(open_);
    const failed = await load(page);
    assert.equal(failed.code, 'NO_STORAGE', failed.message);
    assert.match(failed.message, /in a page that is cross-origin isolated/);
    const stored = await load(page, {options: {store: true}, tokens: 16});
    assert.equal(stored.text, expected, stored.message);
    assert.equal(asked(), experts.size);
  });
});
