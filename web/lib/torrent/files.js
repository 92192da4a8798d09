/** Files of a torrent, piece by piece, from peers and web seeds: each piece is checked, wherever it came from. */

import {TernError, throwIfAborted} from '../errors.js';
import {HttpFile} from '../http.js';
import {sha1} from '../sha1.js';
import {hex} from '../sha256.js';
import {folderOn} from './metainfo.js';

/**
 * Peers that bring nothing for `stallMs`, or in `trialMs` fewer than `leastRate` bytes a ms, are not asked for `slowMs`
 * where there is a web seed. Without a piece from anybody for `giveUpMs`, reading ends.
 */
export const PATIENCE = {stallMs: 4000, trialMs: 2000, leastRate: 250, slowMs: 30000, giveUpMs: 60000};
/** Of a web seed at once. */
const RUN_BYTES = 4 << 20;

export class TorrentFiles {
  /**
   * @param {import('./metainfo.js').Metainfo} meta
   * @param {{swarm: import('./swarm.js').Swarm | null, http?: object} & Partial<typeof PATIENCE>} how
   */
  constructor(meta, {swarm, http, ...patience}) {
    Object.assign(this, {meta, swarm, http, ...PATIENCE, ...patience});
    /** Why no peers are asked any more. */
    this.fault = null;
    /** Web seeds that are asked, and those that gave nothing wrong yet. */
    this.seeds = meta.webSeeds.map((url) => folderOn(url, meta.name));
    this.honest = [...this.seeds];
    /** Until then web seeds come first: peers were slow. */
    this.slowUntil = 0;
    /** How long peers have been waited for, and for how many bytes. */
    this.trial = {ms: 0, bytes: 0};
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
    const wanted = [file.first + index, file.first + last];
    const {swarm} = this;
    await swarm?.want(...wanted);
    try {
      while (index <= last) {
        throwIfAborted(signal, 'loading');
        const run = await this.#run(file, index, last, signal);
        const from = Math.max(0, offset - index * size);
        yield run.subarray(from, Math.min(run.length, offset + bytes - index * size));
        index += Math.ceil(run.length / size);
      }
    } finally {
      swarm?.unwant(...wanted);
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
          this.seeds = except(this.seeds, seed);
          if (error.code === 'CORRUPT') this.honest = except(this.honest, seed);
          return null;
        });
        if (run) return run;
      }
      throwIfAborted(signal, 'loading');
      if (this.swarm && Date.now() <= end) continue;
      this.seeds = [...this.honest]; // who asks again asks all of them
      throw this.#nobody(file, index, faults);
    }
  }

  async #ofPeers(file, index) {
    if (this.swarm && this.swarm.fault !== null) {
      this.fault = this.swarm.fault;
      this.swarm = null;
    }
    if (!this.swarm || (this.seeds.length > 0 && !this.#peersAreQuick())) return null;
    const from = Date.now();
    const piece = await this.swarm.wait(file.first + index, this.stallMs);
    this.#judge(Date.now() - from, piece?.length ?? 0);
    if (!piece) return null;
    const bytes = piece.subarray(0, Math.min(piece.length, file.bytes - index * this.meta.pieceBytes));
    this.from.peers += bytes.length;
    return bytes;
  }

  #judge(ms, bytes) {
    this.trial = {ms: this.trial.ms + ms, bytes: this.trial.bytes + bytes};
    if (this.trial.ms < this.trialMs) return;
    if (this.trial.bytes < this.leastRate * this.trial.ms) this.slowUntil = Date.now() + this.slowMs;
    this.trial = {ms: 0, bytes: 0};
  }

  #peersAreQuick() {
    return this.swarm.peers > 0 && Date.now() > this.slowUntil;
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
    const expected = hex(this.meta.sums.subarray(index * 20, index * 20 + 20));
    if ((await sha1(bytes)) === expected) return true;
    if (bytes.length === this.meta.pieceBytes) return false;
    const filled = new Uint8Array(this.meta.pieceBytes);
    filled.set(bytes);
    return (await sha1(filled)) === expected;
  }

  #nobody(file, index, faults) {
    const {trackers, webSeeds, name} = this.meta;
    const without = this.fault === null ? 'no peers' : `no peers any more (${this.fault})`;
    const peers = this.swarm ? `${this.swarm.peers} peers by ${trackers.length} trackers` : without;
    const seeds = webSeeds.length ? faults.join('; ') || 'its web seeds failed before' : 'it has no web seed';
    return new TernError('NETWORK', `${name}: nobody gives piece ${index} of ${file.name}: ${peers}; ${seeds}`);
  }
}

const except = (list, one) => list.filter((each) => each !== one);
