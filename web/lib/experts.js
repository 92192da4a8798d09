/**
 * Experts of a package that stay where they are: the core, which cannot wait for promises, asks for one in the middle
 * of a step, and gets it from OPFS if it was stored, else from the package.
 */

import {TernError, statusOf} from './errors.js';
import {sha256Plain} from './sha256.js';

/**
 * @typedef {{place: number, key: string, file: string, bytes: number, sha256: string, at: number, chunk: number}}
 *   Expert `place`: its shard's among the manifest's; `key`: "layer_expert"; `at`: where it lies in what is stored of
 *   all
 */

export class ExpertShards {
  /**
   * @param {Expert[]} experts
   * @param {{name: string, stored?: import('./cache.js').StoredChunks | null, readNow?: import('./now.js').ReadNow}}
   *   from `name`: of the package
   * Errors: NO_STORAGE (neither can be read without waiting).
   */
  static async open(experts, {name, stored = null, readNow = null}) {
    const some = experts.some(({chunk}) => stored?.has(chunk));
    const access = some ? await stored.openExperts() : null;
    if (access || readNow) return new ExpertShards(experts, {stored, access, readNow});
    throw new TernError(
      'NO_STORAGE',
      `${name}: its experts are read when a step needs them, and nothing here can be read without waiting: expected ` +
        'are the private file system (OPFS, in a worker) with the package stored in it, requests of a worker (of a ' +
        'torrent: in a page that is cross-origin isolated), or paths under Node'
    );
  }

  constructor(experts, {stored, access, readNow}) {
    this.experts = new Map(experts.map((each) => [each.place, each]));
    this.stored = stored;
    this.access = access;
    this.readNow = readNow;
    /** Stored ones whose sums were found right, or wrong. */
    this.right = new Set();
    this.wrong = new Set();
    /** Ends when it is written down which ones are to be stored anew. */
    this.forgotten = Promise.resolve();
    this.counts = {stored: 0, fetched: 0, fetchedBytes: 0};
  }

  /** Whether none is stored, so that all come from where the package is. */
  get elsewhere() {
    return this.access === null;
  }

  /**
   * Fills `into` with an expert's shard. A stored one that is damaged is fetched, and no longer stored.
   * @param {number} place @param {Uint8Array} into
   * Errors: CORRUPT, NETWORK, NOT_FOUND, IO.
   */
  bring(place, into) {
    const expert = this.experts.get(place);
    if (!expert) throw new TernError('NOT_FOUND', `shard ${place} is no expert's`);
    const fault = this.#fromStore(expert, into);
    if (fault === null) return;
    if (!this.readNow) throw new TernError('CORRUPT', `the stored copy of ${expert.file}: ${fault}`);
    this.readNow(expert.file, into);
    const found = sha256Plain(into);
    if (found !== expert.sha256)
      throw new TernError('CORRUPT', `${expert.file}: its SHA-256 is ${found}, expected ${expert.sha256}`);
    this.counts.fetched++;
    this.counts.fetchedBytes += into.length;
  }

  /** What is wrong, or null. */
  #fromStore(expert, into) {
    const {place, chunk, at} = expert;
    if (!this.access || !this.stored.has(chunk)) return 'it is not there';
    const n = this.access.read(into, {at});
    const fault = n === into.length ? this.#check(expert, into) : `it ended after ${n} bytes, expected ${into.length}`;
    if (fault === null) this.counts.stored++;
    else if (this.readNow && !this.wrong.has(place)) this.#forget(expert);
    return fault;
  }

  #check({place, sha256}, bytes) {
    if (this.right.has(place)) return null;
    const found = sha256Plain(bytes);
    if (found !== sha256) return `its SHA-256 is ${found}, expected ${sha256}`;
    this.right.add(place);
    return null;
  }

  /** The next load fetches it again. */
  #forget({place, chunk}) {
    this.wrong.add(place);
    const done = this.stored.forget(chunk).catch(() => {});
    this.forgotten = Promise.all([this.forgotten, done]).then(() => {});
  }

  close() {
    this.access?.close();
    this.access = null;
  }
}

/** What the module asks (src/web/host.h), of all packages that are open in it. */
export class ExpertHost {
  #sources = new Map();
  #next = 1;
  #failed = null;

  /** @param {ExpertShards} shards @returns {number} what the core calls it */
  add(shards) {
    this.#sources.set(this.#next, shards);
    return this.#next++;
  }

  /** How often experts came from where. @returns {ExpertShards['counts'] | undefined} */
  counts(source) {
    return this.#sources.get(source)?.counts;
  }

  remove(source) {
    this.#sources.get(source)?.close();
    this.#sources.delete(source);
  }

  /** @param {WebAssembly.Memory} memory @returns {number} a tern_status */
  bring(memory, {source, shard, into, bytes, message, cap}) {
    try {
      this.#sources.get(source).bring(shard, new Uint8Array(memory.buffer, into, bytes));
      return 0;
    } catch (error) {
      this.#failed = error;
      const text = new TextEncoder().encode(String(error?.message ?? error)).subarray(0, cap - 1);
      const out = new Uint8Array(memory.buffer, message, cap);
      out.set(text);
      out[text.length] = 0;
      return statusOf(error);
    }
  }

  /** The core's error, with the code of the failure that it tells of. @param {TernError} error */
  named(error) {
    const failed = this.#failed;
    if (!(failed instanceof TernError) || !error.message.includes(failed.message)) return error;
    return new TernError(failed.code, error.message, {cause: failed});
  }
}
