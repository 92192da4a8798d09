/**
 * The peers of a torrent, through WebTorrent: it finds them, asks them, and checks each piece's sum. What it brings
 * waits here for whoever asked.
 */

import {TernError} from '../errors.js';
import {Judge} from './judge.js';

const QUIET = {dht: false, lsd: false, natUpnp: false, natPmp: false, webSeeds: false};
/** Of pieces that were taken already so much stays: for others, and for who wants them again. */
const SPARE_BYTES = 64 << 20;
/** Where a site has WebTorrent's own build, beside the library. */
const BESIDE = '../../vendor/webtorrent.min.js';

/**
 * WebTorrent's class: as given, as the page has it, or from an address.
 * @param {any} [given] the class, or the URL of a module that exports it
 * Errors: UNSUPPORTED.
 */
export async function findWebTorrent(given = globalThis['WebTorrent']) {
  if (typeof given === 'function') return given;
  const url = given ?? new URL(BESIDE, import.meta.url); // no bundler looks for it
  try {
    return (await import(/* webpackIgnore: true */ /* @vite-ignore */ String(url))).default;
  } catch (error) {
    throw new TernError(
      'UNSUPPORTED',
      `WebTorrent, which finds peers, cannot be loaded (${error.message}): give its class, or its URL, as ` +
        'options.webtorrent',
      {cause: error}
    );
  }
}

export class Swarm {
  /**
   * @param {any} WebTorrent its class
   * @param {Uint8Array | string} torrent the torrent's bytes, or a magnet link
   * @param {{trackers: string[], read?: (index: number) => Promise<Uint8Array>}} how `read`: gives pieces to others,
   *   all of which are there; without, pieces are fetched
   */
  constructor(WebTorrent, torrent, {trackers, read}) {
    /** Pieces at hand, those that have been taken first; who waits for which; which ones are wanted. */
    this.pieces = new Map();
    this.waiting = new Map();
    this.wanted = new Set();
    /** Why nothing comes any more, or null. */
    this.fault = null;
    this.client = new WebTorrent(QUIET);
    this.failed = new Promise((resolve) => this.client.on('error', (error) => resolve((this.fault = error.message))));
    const store = storeClass({put: (index, bytes) => this.#put(index, bytes), get: (index) => this.#get(index, read)});
    const how = {announce: trackers, store, storeCacheSlots: 0, deselect: true, skipVerify: read !== undefined};
    this.torrent = this.client.add(torrent, how);
    this.judge = new Judge(this.torrent);
  }

  get peers() {
    return this.torrent.numPeers;
  }

  /** The torrent's bytes, where a magnet link was given. @param {number} ms @returns {Promise<Uint8Array | null>} */
  async metadata(ms) {
    const there = new Promise((resolve) => this.torrent.once('metadata', () => resolve(this.torrent.torrentFile)));
    return this.torrent.torrentFile ?? Promise.race([there, later(ms), this.failed.then(() => null)]);
  }

  /** Asks for pieces, the first ones first. */
  async want(first, last) {
    for (let index = first; index <= last; index++) this.wanted.add(index);
    const ready = new Promise((resolve) => this.torrent.once('ready', resolve));
    if (!this.torrent.ready) await Promise.race([ready, this.failed]);
    if (this.torrent.ready && this.fault === null) this.torrent.select(first, last, 1);
  }

  /** The pieces have been taken, or nobody wants them any more. */
  unwant(first, last) {
    for (let index = first; index <= last; index++) this.wanted.delete(index);
    if (this.torrent.ready && this.fault === null && !this.client.destroyed) this.torrent.deselect(first, last);
    this.#evict();
  }

  /** The piece once it is there, or null after so many ms without any. @returns {Promise<Uint8Array | null>} */
  async wait(index, ms) {
    const held = this.pieces.get(index);
    if (held) return held;
    const those = this.waiting.get(index) ?? new Set();
    this.waiting.set(index, those);
    let mine = null;
    const there = new Promise((resolve) => those.add((mine = resolve)));
    const piece = await Promise.race([there, later(ms), this.failed.then(() => null)]);
    those.delete(mine);
    if (those.size === 0) this.waiting.delete(index);
    return piece;
  }

  async close() {
    this.pieces.clear();
    if (!this.client.destroyed) await new Promise((resolve) => this.client.destroy(resolve));
  }

  #put(index, bytes) {
    this.pieces.set(index, bytes);
    this.judge?.right(index);
    for (const resolve of this.waiting.get(index) ?? []) resolve(bytes);
    if (!this.wanted.has(index)) this.#evict();
  }

  /** Lets go of what nobody wants, the oldest first, beyond what may stay. */
  #evict() {
    let spare = 0;
    for (const [index, bytes] of [...this.pieces].reverse()) {
      if (this.wanted.has(index)) continue;
      spare += bytes.length;
      if (spare > SPARE_BYTES) this.pieces.delete(index);
    }
  }

  async #get(index, read) {
    const held = this.pieces.get(index) ?? (await read?.(index));
    if (held) return held;
    throw new Error(`piece ${index} is not here`);
  }
}

const later = (ms) => new Promise((resolve) => setTimeout(() => resolve(null), ms));

/** What WebTorrent keeps pieces in. */
function storeClass({put, get}) {
  return class {
    constructor(chunkLength) {
      this.chunkLength = chunkLength;
    }

    put(index, bytes, done = () => {}) {
      put(index, bytes);
      queueMicrotask(() => done(null));
    }

    get(index, options, done = options) {
      const {offset = 0, length} = typeof options === 'object' ? (options ?? {}) : {};
      const part = (bytes) => bytes.subarray(offset, length === undefined ? bytes.length : offset + length);
      get(index).then((bytes) => done(null, part(bytes)), done);
    }

    close(done = () => {}) {
      queueMicrotask(() => done(null));
    }

    destroy(done = () => {}) {
      queueMicrotask(() => done(null));
    }
  };
}
