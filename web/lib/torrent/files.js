/** Files of a torrent, piece by piece, from peers and web seeds: each piece is checked, wherever it came from. */

import {TernError, throwIfAborted} from '../errors.js';
import {HttpFile} from '../http.js';
import {sha1} from '../sha1.js';

/** Without a piece for so long, a web seed is asked; without one from anybody, reading ends. */
export const PATIENCE = {stallMs: 4000, giveUpMs: 60000};
/** Of a web seed at once. */
const RUN_BYTES = 4 << 20;

export class TorrentFiles {
  /**
   * @param {import('./metainfo.js').Metainfo} meta
   * @param {{swarm: import('./swarm.js').Swarm | null, http?: object} & Partial<typeof PATIENCE>} how
   */
  constructor(meta, {swarm, http, ...patience}) {
    Object.assign(this, {meta, swarm, http, ...PATIENCE, ...patience});
    this.seeds = meta.webSeeds.map((url) => new URL(`${encodeURIComponent(meta.name)}/`, slashed(url)).href);
    /** Bytes, by where they came from. */
    this.from = {peers: 0, webSeeds: 0};
  }

  /**
   * Bytes of a file, in runs. Errors: NOT_FOUND, NETWORK, CANCELLED.
   * @param {string} name @param {number} offset @param {number} bytes @param {{signal?: AbortSignal}} [options]
   */
  async *read(name, offset, bytes, {signal} = {}) {
    const file = this.meta.files.get(name);
    if (!file || offset + bytes > file.bytes)
      throw new TernError('NOT_FOUND', `${this.meta.name} has no ${offset + bytes} bytes of ${name}`);
    const size = this.meta.pieceBytes;
    const last = Math.floor((offset + bytes - 1) / size);
    let index = Math.floor(offset / size);
    await this.swarm?.want(file.first + index, file.first + last);
    while (index <= last) {
      throwIfAborted(signal, 'loading');
      const run = await this.#run(file, index, last, signal);
      const from = Math.max(0, offset - index * size);
      yield run.subarray(from, Math.min(run.length, offset + bytes - index * size));
      const taken = Math.ceil(run.length / size);
      this.swarm?.forget(file.first + index, file.first + index + taken - 1);
      index += taken;
    }
  }

  /** A whole file. */
  async whole(name, options) {
    const {bytes = 0} = this.meta.files.get(name) ?? {};
    const out = new Uint8Array(bytes);
    let at = 0;
    for await (const run of this.read(name, 0, bytes, options)) {
      out.set(run, at);
      at += run.length;
    }
    return out;
  }

  /** Some pieces of the file from `index` on: of peers one, of a web seed as many as are worth a request. */
  async #run(file, index, last, signal) {
    const faults = [];
    for (const end = Date.now() + this.giveUpMs; ;) {
      const brought = await this.#ofPeers(file, index);
      if (brought) return brought;
      for (const seed of [...this.seeds]) {
        const run = await this.#ofSeed(seed, file, index, last, signal).catch((error) => {
          if (error.code === 'CANCELLED') throw error;
          faults.push(error.message);
          this.seeds = this.seeds.filter((each) => each !== seed);
          return null;
        });
        if (run) return run;
      }
      throwIfAborted(signal, 'loading');
      if (!this.swarm || Date.now() > end) throw this.#nobody(file, index, faults);
    }
  }

  async #ofPeers(file, index) {
    if (!this.swarm || (this.swarm.peers === 0 && this.seeds.length > 0)) return null;
    const piece = await this.swarm.wait(file.first + index, this.stallMs);
    if (!piece) return null;
    const bytes = piece.subarray(0, Math.min(piece.length, file.bytes - index * this.meta.pieceBytes));
    this.from.peers += bytes.length;
    return bytes;
  }

  async #ofSeed(seed, file, index, last, signal) {
    const size = this.meta.pieceBytes;
    const offset = index * size;
    const most = Math.max(size, RUN_BYTES - (RUN_BYTES % size));
    const bytes = new Uint8Array(Math.min(most, file.bytes - offset, (last - index + 1) * size));
    const source = new HttpFile(new URL(file.name, seed).href, {...this.http, size: file.bytes});
    try {
      await source.read(offset, bytes, {signal});
    } finally {
      source.close();
    }
    for (let at = 0; at < bytes.length; at += size)
      if (!(await this.#isRight(file.first + index + at / size, bytes.subarray(at, at + size))))
        throw new TernError('CORRUPT', `${source.url} is not what the torrent says, from byte ${offset + at} on`);
    this.from.webSeeds += bytes.length;
    return bytes;
  }

  /** A file's last piece ends with zeros, where another file follows it. */
  async #isRight(index, bytes) {
    const sum = this.meta.sums.subarray(index * 20, index * 20 + 20);
    const expected = Array.from(sum, (byte) => byte.toString(16).padStart(2, '0')).join('');
    if ((await sha1(bytes)) === expected) return true;
    if (bytes.length === this.meta.pieceBytes) return false;
    const filled = new Uint8Array(this.meta.pieceBytes);
    filled.set(bytes);
    return (await sha1(filled)) === expected;
  }

  #nobody(file, index, faults) {
    const {trackers, webSeeds, name} = this.meta;
    const peers = this.swarm ? `${this.swarm.peers} peers by ${trackers.length} trackers` : 'no peers';
    const seeds = webSeeds.length ? faults.join('; ') || 'its web seeds failed before' : 'it has no web seed';
    return new TernError('NETWORK', `${name}: nobody gives piece ${index} of ${file.name}: ${peers}; ${seeds}`);
  }
}

const slashed = (url) => (url.endsWith('/') ? url : `${url}/`);
