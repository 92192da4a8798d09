/**
 * A model's chunks as one file, read from start to end: the next chunks are fetched, verified and stored while one is
 * used, as many at once as the source bears and AHEAD_BYTES hold.
 */

import {TernError, bytesFor, isAbort, throwIfAborted} from './errors.js';
import {Lanes} from './lanes.js';
import {sha256} from './sha256.js';

/** onProgress at most so often, in ms. */
const PROGRESS_MS = 100;
/** The rate is that of the last so many ms. */
const RATE_MS = 3000;
/** Of the chunks in memory, unless two of them are larger. */
const AHEAD_BYTES = 64 << 20;

export class ChunkReader {
  /**
   * @param {import('./source.js').Chunk[]} chunks
   * @param {{stored?: import('./cache.js').StoredChunks | null, write?: boolean, local?: boolean, signal?: AbortSignal,
   *   onProgress?: (progress: import('./index.js').Progress) => void, onNotice?: (notice: import('./index.js').Notice)
   *   => void, release?: () => void | Promise<void>, lanes?: number, parts?: import('./source.js').Part[] | null,
   *   ordered?: number}}
   *   [options] `stored`: chunks that are there are read from it; `write`: others are kept in it; `local`: the source
   *   is this machine's; `lanes`: so many chunks are fetched at once; `parts`: of a file that is split, one behind
   *   another; `ordered`: so many of the chunks are the file, the others are only kept (keepRest).
   */
  constructor(chunks, options = {}) {
    const {stored = null, write = true, local = false, signal, onProgress, onNotice, release, lanes = 1} = options;
    const {ordered = chunks.length} = options;
    this.chunks = chunks;
    this.ordered = ordered;
    this.size = sumOf(chunks.slice(0, ordered));
    this.parts = options.parts ?? null;
    this.stored = stored;
    this.write = write && stored !== null;
    this.local = local;
    this.#follow(signal);
    this.onNotice = onNotice;
    this.release = release;
    const used = this.write ? chunks : chunks.slice(0, ordered);
    this.meter = new Meter(sumOf(used), onProgress);
    const largest = used.reduce((most, {bytes}) => Math.max(most, bytes), 0);
    const slots = Math.max(2, Math.min(lanes + 1, Math.floor(AHEAD_BYTES / largest)));
    this.slots = Array.from({length: slots}, () => ({buffer: null, index: -1, ready: null, largest}));
    this.lanes = new Lanes(lanes);
  }

  /** What is under way ends when the caller wants no more, or when reading has failed. */
  #follow(signal) {
    const control = new AbortController();
    const abort = () => control.abort(signal.reason);
    if (signal?.aborted) abort();
    signal?.addEventListener('abort', abort, {once: true});
    this.signal = control.signal;
    this.abort = () => control.abort();
    this.unfollow = () => signal?.removeEventListener('abort', abort);
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
   * Bytes that are not read in order, the head of a part: what comes next is not fetched for them, and they do not
   * count as progress.
   * @param {number} offset @param {number} length @returns {Promise<Uint8Array>}
   */
  async peek(offset, length) {
    const out = new Uint8Array(length);
    for (let at = 0; at < length;) {
      throwIfAborted(this.signal, 'loading');
      const chunk = this.chunks[this.#indexAt(offset + at)];
      const from = offset + at - chunk.offset;
      const n = Math.min(chunk.bytes - from, length - at);
      await this.#peekInto(chunk, from, out.subarray(at, at + n));
      at += n;
    }
    return out;
  }

  async #peekInto(chunk, from, into) {
    if (!this.stored?.has(chunk.index)) return chunk.read(from, into, {signal: this.signal});
    const whole = new Uint8Array(chunk.bytes);
    await this.stored.read(chunk.index, whole, {signal: this.signal});
    return into.set(whole.subarray(from, from + into.length));
  }

  /**
   * Fetches, verifies and stores what is not the file's, as far as there is room; what is stored is passed over.
   * Where nothing is kept, does nothing.
   */
  async keepRest() {
    for (let index = this.ordered; index < this.chunks.length && this.write; index++) {
      throwIfAborted(this.signal, 'loading');
      const {bytes} = this.chunks[index];
      if (this.stored?.has(index)) this.meter.start(index)('read', bytes, bytes);
      else await this.#chunk(index);
    }
  }

  /**
   * Waits for what is under way, and lets go of everything.
   * @param {{abort?: boolean, discard?: boolean}} [options] `abort`: what is under way is of no use, its start is kept;
   *   `discard`: lets go of what is stored, too
   */
  async close({abort = false, discard = false} = {}) {
    if (abort) this.abort();
    this.unfollow();
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

  /** The chunk; the next ones start on their way. */
  #chunk(index) {
    const slot = this.#start(index);
    const inFile = index < this.ordered;
    const end = Math.min(inFile ? this.ordered : this.chunks.length, index + this.slots.length);
    for (let next = index + 1; next < end; next++) if (inFile || !this.stored?.has(next)) this.#start(next);
    return slot.ready;
  }

  #start(index) {
    const slot = this.slots[index % this.slots.length];
    if (slot.index === index) return slot;
    const before = slot.ready ?? Promise.resolve();
    slot.index = index;
    slot.ready = this.lanes.run(() => before.catch(() => {}).then(() => this.#load(index, slot)));
    slot.ready.catch(() => {});
    return slot;
  }

  async #load(index, slot) {
    throwIfAborted(this.signal, 'loading');
    const chunk = this.chunks[index];
    slot.buffer ??= bytesFor(slot.largest, chunk.name);
    const into = slot.buffer.subarray(0, chunk.bytes);
    const add = this.meter.start(index);
    if (this.stored?.has(index)) await this.#fromStore(index, into, add);
    else await this.#fromSource(chunk, into, add);
    return into;
  }

  async #fromStore(index, into, add) {
    const onBytes = (n) => add('read', n, n);
    await this.stored.read(index, into, {signal: this.signal, onBytes});
  }

  async #fromSource(chunk, into, add) {
    let from = (await this.stored?.readPartial(chunk.index, into)) ?? 0;
    add('read', from, from);
    const onBytes = (n) => {
      from += n;
      add(this.local ? 'read' : 'download', n, 0);
    };
    try {
      await chunk.read(from, into.subarray(from), {signal: this.signal, onBytes});
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
      if (!this.write) return;
      this.write = false;
      this.onNotice?.({code: 'NO_STORAGE', message: `${error.message}; loading goes on without storing`});
    }
  }
}

const sumOf = (chunks) => chunks.reduce((sum, {bytes}) => sum + bytes, 0);

/** Bytes done, of each chunk once; the rate of the last seconds. */
class Meter {
  constructor(total, onProgress) {
    this.progress = {phase: 'read', loaded: 0, total, stored: 0, rate: 0, secondsLeft: Infinity};
    this.onProgress = onProgress;
    this.seen = new Set();
    this.marks = [];
    this.told = 0;
  }

  /**
   * For the bytes of a chunk, which counts no more when it is read again.
   * @returns {(phase: 'download' | 'read', bytes: number, stored: number) => void}
   */
  start(index) {
    if (this.marks.length === 0) this.marks.push({now: performance.now(), loaded: 0});
    if (this.seen.has(index)) return () => {};
    this.seen.add(index);
    return (phase, bytes, stored) => this.#add(phase, bytes, stored);
  }

  #add(phase, bytes, stored) {
    if (bytes === 0) return;
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

/** A file of which only some ranges are read: they lie one behind another, zeros stand for the others. */
export class RangeReader {
  /** @param {ChunkReader} chunks @param {import('./manifest.js').Layout} layout */
  constructor(chunks, {size, ranges}) {
    this.chunks = chunks;
    this.size = size;
    this.ranges = ranges;
    this.parts = null;
  }

  get meter() {
    return this.chunks.meter;
  }

  /** @param {number} offset @param {number} length @returns {Promise<Uint8Array>} valid until the next call */
  async read(offset, length) {
    const range = this.ranges.find((each) => offset >= each.offset && offset + length <= each.offset + each.bytes);
    if (range) return this.chunks.read(range.at + offset - range.offset, length);
    const out = bytesFor(length, 'bytes of several ranges');
    for (const each of this.ranges) {
      const from = Math.max(offset, each.offset);
      const n = Math.min(offset + length, each.offset + each.bytes) - from;
      if (n > 0) out.set(await this.chunks.read(each.at + from - each.offset, n), from - offset);
    }
    return out;
  }

  keepRest() {
    return this.chunks.keepRest();
  }

  close(how) {
    return this.chunks.close(how);
  }
}
