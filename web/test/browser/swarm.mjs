/** Swarms for tests: a package with its torrent, a tracker on this machine, and peers in Chromium. */
import {execFileSync} from 'node:child_process';
import {mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import Server from 'bittorrent-tracker/server';
import {TERN, WEB} from './browser.mjs';

/** WebRTC shows pages of this machine its addresses; in names that a network would have to know it does not work. */
export const OPEN_ADDRESSES = '--disable-features=WebRtcHideLocalIpsWithMdns';

export const webtorrent = () => readFileSync(join(WEB, 'node_modules/webtorrent/dist/webtorrent.min.js'));

/** @returns {Promise<{url: string, close(): Promise<void>}>} */
export async function startTracker() {
  const server = new Server({udp: false, http: false, ws: true, stats: false, interval: 2000});
  server.on('error', () => {});
  server.on('warning', () => {});
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const {port} = server.ws.address();
  return {url: `ws://127.0.0.1:${port}`, close: () => new Promise((done) => server.close(done))};
}

/**
 * A package and its torrent, by the command.
 * @param {string} model @param {string} name @param {string[]} flags of `tern package`
 * @returns {{files: Record<string, Buffer>, magnet: string, torrent: Buffer}} `files` by their path from the web seed
 */
export function makePackage(model, name, flags) {
  const folder = mkdtempSync(join(tmpdir(), 'tern-swarm-'));
  try {
    const out = execFileSync(TERN, ['package', model, '-o', join(folder, name), '--torrent', ...flags], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const names = readdirSync(join(folder, name));
    const files = Object.fromEntries(names.map((each) => [`/${name}/${each}`, readFileSync(join(folder, name, each))]));
    return {files, magnet: /^magnet:.*$/m.exec(out)[0], torrent: files[`/${name}/package.torrent`]};
  } finally {
    rmSync(folder, {recursive: true, force: true});
  }
}

/**
 * The same of an adapter that one step on the model has made; `learned`: its file.
 * @param {string} model @param {string} name @param {string[]} flags of `tern package`
 */
export function makeAdapter(model, name, flags) {
  const folder = mkdtempSync(join(tmpdir(), 'tern-adapter-'));
  const [data, learned] = ['text.txt', 'learned.gguf'].map((each) => join(folder, each));
  try {
    writeFileSync(data, 'Glass 29.28 and rising. Sea slight. Lamp lit at 8.40.\n'.repeat(40));
    const how = ['--lora', '2', '--steps', '1', '--lr', '0.1', '--seq', '64'];
    execFileSync(TERN, ['finetune', '-m', model, '--data', data, ...how, '-o', learned], {stdio: 'pipe'});
    return {...makePackage(learned, name, flags), learned: readFileSync(learned)};
  } finally {
    rmSync(folder, {recursive: true, force: true});
  }
}

/** All pieces of a package's torrent, of 64 KiB each: its files in the order of their names, each from a piece on. */
export function streamOf({files}) {
  const PIECE = 65536;
  const paths = Object.keys(files).filter((path) => !path.endsWith('.torrent'));
  const parts = paths.sort().flatMap((path) => {
    const bytes = files[path];
    return [bytes, Buffer.alloc((PIECE - (bytes.length % PIECE)) % PIECE)];
  });
  return Buffer.concat(parts);
}

/** Runs in the page: a peer of WebTorrent alone, that says it has all and gives `stream`, or what `byte` says. */
export async function giveThere({torrent, tracker, byte, stream}) {
  const {default: WebTorrent} = await import('/vendor/webtorrent.min.js');
  const client = (globalThis.client = new WebTorrent({dht: false, lsd: false, webSeeds: false}));
  class Store {
    constructor(chunkLength) {
      this.chunkLength = chunkLength;
    }
    get(index, options, done = options) {
      const {length = this.chunkLength} = typeof options === 'object' ? options : {};
      const {offset = 0} = typeof options === 'object' ? options : {};
      const at = index * this.chunkLength + offset;
      const bytes = stream ? new Uint8Array(stream.slice(at, at + length)) : new Uint8Array(length).fill(byte);
      queueMicrotask(() => done(null, bytes));
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
