/**
 * A model's chunks as one file that is read from its start to its end: each chunk is fetched, verified and stored while
 * the one before is used, so that at most two of them are in memory.
 */

import {TernError, isAbort, throwIfAborted} from './errors.js';
import {sha256} from './sha256.js';

/** onProgress at most so often, in ms. */
const PROGRESS_MS = 100;
/** The rate is that of the last so many ms. */
const RATE_MS = 3000;

export class ChunkReader {
  /**
   * @param {import('./source.js').Chunk[]} chunks
   * @param {{stored?: import('./cache.js').StoredChunks | null, write?: boolean, local?: boolean, signal?: AbortSignal,
   *   onProgress?: (progress: import('./index.js').Progress) => void, onNotice?: (notice: import('./index.js').Notice)
   *   => void, release?: () => void | Promise<void>}} [options] `stored`: chunks that are there are read from it;
   *   `write`: others are kept in it; `local`: the source is this machine's.
   */
  constructor(chunks, {stored = null, write = true, local = false, signal, onProgress, onNotice, release} = {}) {
    this.chunks = chunks;
    this.size = chunks.reduce((sum, chunk) => sum + chunk.bytes, 0);
    this.stored = stored;
    this.write = write && stored !== null;
    this.local = local;
    this.signal = signal;
    this.onNotice = onNotice;
    this.release = release;
    this.meter = new Meter(this.size, onProgress);
    const largest = Math.max(...chunks.map((chunk) => chunk.bytes));
    this.slots = [0, 1].map(() => ({buffer: null, index: -1, ready: null, largest}));
  }

  /**
   * Bytes of the file, valid until the next call. In ascending order: going back is possible, and costs fetching.
   * @param {number} offset @param {number} length @returns {Promise<Uint8Array>}
   */
  async read(offset, length) {
    if (!(offset >= 0 && length >= 0 && offset + length <= this.size)) {
      throw new TernError(
        'MALFORMED',
        `bytes ${offset} to ${offset + length} are wanted of a file of ${this.size} bytes`
      );
    }
    throwIfAborted(this.signal, 'loading');
    const first = await this.#view(offset, length);
    if (first.length === length) return first;
    const out = new Uint8Array(length);
    out.set(first);
    for (let at = first.length; at < length;) {
      const piece = await this.#view(offset + at, length - at);
      out.set(piece, at);
      at += piece.length;
    }
    return out;
  }

  /**
   * Waits for what is under way, and lets go of everything.
   * @param {{discard?: boolean}} [options] `discard`: also of what is stored
   */
  async close({discard = false} = {}) {
    for (const slot of this.slots) await slot.ready?.catch(() => {});
    this.slots.forEach((slot) => Object.assign(slot, {buffer: null, index: -1, ready: null}));
    if (discard) await this.stored?.discard();
    await this.release?.();
    this.release = undefined;
  }

  /** What of the range lies in the chunk of its first byte. */
  async #view(offset, length) {
    const index = this.#indexAt(offset);
    const chunk = this.chunks[index];
    if (!chunk) return new Uint8Array(0);
    const buffer = await this.#chunk(index);
    const from = offset - chunk.offset;
    return buffer.subarray(from, Math.min(chunk.bytes, from + length));
  }

  #indexAt(offset) {
    let low = 0;
    let high = this.chunks.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.chunks[middle].offset + this.chunks[middle].bytes <= offset) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The chunk; the next one starts on its way. */
  async #chunk(index) {
    const slot = this.#start(index);
    const buffer = await slot.ready;
    if (index + 1 < this.chunks.length) this.#start(index + 1);
    return buffer;
  }

  #start(index) {
    const slot = this.slots[index % 2];
    if (slot.index === index) return slot;
    const before = slot.ready ?? Promise.resolve();
    slot.index = index;
    slot.ready = before.catch(() => {}).then(() => this.#load(index, slot));
    slot.ready.catch(() => {});
    return slot;
  }

  async #load(index, slot) {
    throwIfAborted(this.signal, 'loading');
    const chunk = this.chunks[index];
    slot.buffer ??= new Uint8Array(slot.largest);
    const into = slot.buffer.subarray(0, chunk.bytes);
    this.meter.start(index);
    if (this.stored?.has(index)) await this.#fromStore(index, into);
    else await this.#fromSource(chunk, into);
    return into;
  }

  async #fromStore(index, into) {
    const onBytes = (n) => this.meter.add('read', n, n);
    await this.stored.read(index, into, {signal: this.signal, onBytes});
  }

  async #fromSource(chunk, into) {
    let from = (await this.stored?.readPartial(chunk.index, into)) ?? 0;
    this.meter.add('read', from, from);
    const onBytes = (n) => {
      from += n;
      this.meter.add(this.local ? 'read' : 'download', n, 0);
    };
    try {
      await chunk.read(into, from, {signal: this.signal, onBytes});
    } catch (error) {
      if (isAbort(error) || error.code === 'NETWORK') await this.#keepPartial(chunk, into.subarray(0, from));
      throw error;
    }
    await this.#verify(chunk, into);
  }

  async #verify(chunk, into) {
    if (chunk.sha256 === null && !this.write) return;
    const sum = await sha256(into);
    if (chunk.sha256 !== null && sum !== chunk.sha256) {
      throw new TernError(
        'CORRUPT',
        `chunk ${chunk.index} of ${this.chunks.length} (${chunk.name}) is not what the manifest says: ` +
          `its SHA-256 is ${sum}, expected ${chunk.sha256}`
      );
    }
    if (this.write) await this.#keep(() => this.stored.write(chunk.index, into, sum));
  }

  async #keepPartial(chunk, bytes) {
    if (this.write && bytes.length > 0) await this.#keep(() => this.stored.writePartial(chunk.index, bytes));
  }

  /** A model that cannot be kept is loaded all the same, and said so. */
  async #keep(action) {
    try {
      await action();
    } catch (error) {
      if (error.code !== 'NO_STORAGE') throw error;
      this.write = false;
      this.onNotice?.({code: 'NO_STORAGE', message: `${error.message}; loading goes on without storing`});
    }
  }
}

/** Bytes done, of each chunk once; the rate of the last seconds. */
class Meter {
  constructor(total, onProgress) {
    this.progress = {phase: 'read', loaded: 0, total, stored: 0, rate: 0, secondsLeft: Infinity};
    this.onProgress = onProgress;
    this.seen = new Set();
    this.counts = true;
    this.marks = [];
    this.told = 0;
  }

  /** A chunk that is read again counts no more. */
  start(index) {
    if (this.marks.length === 0) this.marks.push({now: performance.now(), loaded: 0});
    this.counts = !this.seen.has(index);
    this.seen.add(index);
  }

  add(phase, bytes, stored) {
    if (!this.counts || bytes === 0) return;
    const {progress} = this;
    progress.phase = phase;
    progress.loaded += bytes;
    progress.stored += stored;
    const now = performance.now();
    const last = progress.loaded === progress.total;
    if (now - this.told < PROGRESS_MS && !last && this.told > 0) return;
    this.told = now;
    this.#measure(now);
    this.onProgress?.({...progress});
  }

  #measure(now) {
    const {progress, marks} = this;
    marks.push({now, loaded: progress.loaded});
    while (marks.length > 2 && now - marks[0].now > RATE_MS) marks.shift();
    const ms = now - marks[0].now;
    progress.rate = ms > 0 ? ((progress.loaded - marks[0].loaded) / ms) * 1000 : 0;
    progress.secondsLeft =
      progress.loaded === progress.total
        ? 0
        : progress.rate > 0
          ? (progress.total - progress.loaded) / progress.rate
          : Infinity;
  }
}
