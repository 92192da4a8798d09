/** Swarms for tests: a package with its torrent, a tracker on this machine, and peers in Chromium. */
import {execFileSync} from 'node:child_process';
import {mkdtempSync, readFileSync, readdirSync, rmSync} from 'node:fs';
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
