/**
 * Reading a file of a web server at any place: with ranges where the server knows them, else from the start on;
 * broken connections are taken up again a few times.
 */

import {TernError} from './errors.js';

/** A failed attempt that is worth another one. */
class Broken extends Error {}

/** So many bytes of an attempt make it count as progress: the number of attempts then starts anew. */
const PROGRESS_BYTES = 1 << 20;
const SCRATCH_BYTES = 1 << 20;
/** Files of unknown length are held in memory up to here. */
const UNKNOWN_LENGTH_LIMIT = 64 << 20;

export const HTTP_DEFAULTS = {
  fetch: (...args) => globalThis.fetch(...args),
  /** Pauses before attempts after the first one, in ms. */
  pauses: [300, 1000, 3000],
  /** Without a byte for so many ms, a connection counts as broken. */
  stallMs: 60000
};

export class HttpFile {
  /**
   * @param {string} url
   * @param {{size?: number | null} & Partial<typeof HTTP_DEFAULTS>} [options] `size`: what it has to be
   */
  constructor(url, {size = null, ...options} = {}) {
    this.url = url;
    this.size = size;
    /** What tells this version of the file from another one: as the server first said. */
    this.version = {etag: null, lastModified: null};
    this.options = {...HTTP_DEFAULTS, ...options};
    /** Whether it answered with a range: then reads may run at once, each with answers of its own. */
    this.ranged = false;
    /** The answer under way, which all reads of a server without ranges share. */
    this.lane = {body: null};
    this.whole = null;
  }

  /**
   * Finds out the size and the version.
   * @param {{signal?: AbortSignal, once?: boolean}} [options] `once`: no second attempt
   */
  async probe({signal, once = false} = {}) {
    await this.#retry({signal, once, what: 'no size known'}, () => this.#probe(signal));
    if (this.size === 0) throw new TernError('MALFORMED', `${this.url} is empty: 0 bytes`);
  }

  /** Fills `into` with the bytes at `offset`; onBytes(n) after each piece. */
  async read(offset, into, {signal, onBytes} = {}) {
    const progress = {done: 0};
    const what = () => `${offset + progress.done} of ${this.size ?? 'an unknown number of'} bytes were read`;
    const lane = this.ranged ? {body: null} : this.lane;
    const how = {progress, lane, signal, onBytes};
    await this.#retry({signal, what, progress, lane}, () => this.#fill(offset, into, how));
    if (this.ranged) leave(lane);
  }

  close() {
    leave(this.lane);
  }

  async #retry({signal, once = false, what, progress = {done: 0}, lane = this.lane}, attempt) {
    for (let failures = 0, tries = 1; ; tries++) {
      const before = progress.done;
      try {
        return await attempt();
      } catch (error) {
        leave(lane);
        if (signal?.aborted) throw new TernError('CANCELLED', `reading ${this.url} was cancelled`, {cause: error});
        if (!(error instanceof Broken)) throw error;
        failures = progress.done - before >= PROGRESS_BYTES ? 1 : failures + 1;
        if (once || failures > this.options.pauses.length)
          throw this.#failure(error, tries, typeof what === 'string' ? what : what());
        await pause(this.options.pauses[failures - 1], signal);
      }
    }
  }

  #failure(error, tries, what) {
    return new TernError(
      'NETWORK',
      `${this.url}: ${error.message}; ${what} (${tries} ${tries === 1 ? 'attempt' : 'attempts'})`,
      {cause: error.cause ?? error}
    );
  }

  async #probe(signal) {
    const response = await this.#request(0, 1, signal);
    if (response === null) {
      this.size = 0;
    } else if (response.status === 206) {
      this.ranged = true;
      response.body?.cancel().catch(() => {});
      if (this.size === null) this.size = await this.#sizeOfHead(signal);
    } else if (this.size === null) {
      await this.#hold(response, signal);
    } else {
      this.lane.body = bodyOf(response, 0);
    }
  }

  /** Where a server of another origin does not show Content-Range. */
  async #sizeOfHead(signal) {
    const response = await this.#fetch({method: 'HEAD', signal});
    const size = lengthOf(response);
    if (response.ok && size !== null) return size;
    throw new TernError(
      'NETWORK',
      `${this.url}: the server says neither by Content-Range nor by Content-Length how long the file is`
    );
  }

  /** The server does not say how long the answer is (it may be compressed): read it whole. */
  async #hold(response, signal) {
    const pieces = [];
    let n = 0;
    const body = bodyOf(response, 0);
    for (let piece; (piece = await this.#piece(body, signal)) !== null; n += piece.length) {
      if (n + piece.length > UNKNOWN_LENGTH_LIMIT) {
        body.reader.cancel().catch(() => {});
        throw new TernError(
          'NETWORK',
          `${this.url}: the server does not say how long the file is (no Content-Length), ` +
            `which works up to ${UNKNOWN_LENGTH_LIMIT} bytes only`
        );
      }
      pieces.push(piece.slice());
    }
    this.whole = new Uint8Array(n);
    this.size = n;
    let at = 0;
    for (const piece of pieces) {
      this.whole.set(piece, at);
      at += piece.length;
    }
  }

  async #fill(offset, into, {progress, lane, signal, onBytes}) {
    if (this.whole) return this.#fillFromMemory(offset, into, progress, onBytes);
    while (progress.done < into.length) {
      const at = offset + progress.done;
      const body = await this.#bodyAt(lane, at, into.length - progress.done, signal);
      const piece = await this.#piece(body, signal);
      if (piece === null) throw this.#ended(body);
      const skip = Math.min(piece.length, at - body.position);
      const n = Math.min(piece.length - skip, into.length - progress.done);
      into.set(piece.subarray(skip, skip + n), progress.done);
      body.position += skip + n;
      body.rest = skip + n < piece.length ? piece.subarray(skip + n) : null;
      progress.done += n;
      if (n > 0) onBytes?.(n);
    }
  }

  #fillFromMemory(offset, into, progress, onBytes) {
    const from = offset + progress.done;
    if (offset + into.length > this.whole.length) throw this.#tooShort(this.whole.length);
    into.set(this.whole.subarray(from, offset + into.length), progress.done);
    onBytes?.(into.length - progress.done);
  }

  /** A body that goes on at or before `at`: the one at hand, or that of another request. */
  async #bodyAt(lane, at, length, signal) {
    if (lane.body && lane.body.position <= at && at < lane.body.end) return lane.body;
    leave(lane);
    const response = await this.#request(at, length, signal);
    if (response === null) throw this.#tooShort(at);
    lane.body = response.status === 206 ? bodyOf(response, at, at + length) : bodyOf(response, 0);
    return lane.body;
  }

  #ended(body) {
    if (body.position === this.size) return new Broken('the answer has no bytes');
    return new Broken(`the connection ended after ${body.position} bytes`);
  }

  #tooShort(found) {
    return new TernError('NETWORK', `${this.url} has fewer bytes than promised: ${found}, expected ${this.size}`);
  }

  /**
   * The answer to a request for a range (206), or for the whole file where the server knows no ranges (200); null:
   * there is nothing there.
   */
  async #request(offset, length, signal) {
    const headers = /^http/.test(this.url) ? {Range: `bytes=${offset}-${offset + length - 1}`} : {};
    const response = await this.#fetch({headers, signal});
    if (response.status === 416) return null;
    if (response.status !== 206 && response.status !== 200) throw this.#refused(response);
    const range = /^bytes (\d+)-\d+\/(\d+)$/.exec(response.headers.get('content-range') ?? '');
    if (response.status === 206 && range && Number(range[1]) !== offset) {
      throw new TernError(
        'NETWORK',
        `${this.url}: the server answered with the range "${range[0]}", asked for was ${offset}`
      );
    }
    try {
      this.#compare(response, response.status === 206 ? range && Number(range[2]) : lengthOf(response));
    } catch (error) {
      response.body?.cancel().catch(() => {});
      throw error;
    }
    return response;
  }

  async #fetch(init) {
    try {
      return await this.options.fetch(this.url, {cache: 'no-store', ...init});
    } catch (error) {
      throw new Broken(`no answer (${error.cause?.message || error.message})${foreignHint(this.url)}`, {cause: error});
    }
  }

  #refused(response) {
    response.body?.cancel().catch(() => {});
    const {status, statusText} = response;
    const text = `HTTP status ${status}${statusText ? ` ${statusText}` : ''}, expected 200 or 206`;
    return status >= 500 || status === 408 || status === 429
      ? new Broken(text)
      : new TernError('NETWORK', `${this.url}: ${text}`);
  }

  /**
   * Every answer has to be of the same file as the first one.
   * @param {number | null} size as far as the server says it
   */
  #compare(response, size) {
    const found = {etag: response.headers.get('etag'), lastModified: response.headers.get('last-modified')};
    for (const key of ['etag', 'lastModified']) {
      if (found[key] && this.version[key] && found[key] !== this.version[key])
        throw this.#changed(key, found[key], this.version[key]);
      this.version[key] ??= found[key];
    }
    if (size === null) return;
    if (this.size !== null && size < this.size) throw this.#tooShort(size);
    if (this.size !== null && size !== this.size) throw this.#changed('size', size, this.size);
    this.size = size;
  }

  #changed(what, found, expected) {
    return new TernError(
      'NETWORK',
      `${this.url} is not the file that it was when loading began: ${what} ${found}, expected ${expected}`
    );
  }

  /** The next bytes of a body; null at its end. */
  async #piece(body, signal) {
    if (body.rest) return body.rest;
    const reading = body.scratch ? body.reader.read(body.scratch) : body.reader.read();
    const {done, value} = await within(this.options.stallMs, signal, reading).catch((error) => {
      const message = `the connection broke after ${body.position} bytes (${error.cause?.message || error.message})`;
      throw new Broken(message, {cause: error});
    });
    if (body.scratch && value) body.scratch = new Uint8Array(value.buffer);
    return done ? null : value;
  }
}

/** Gives up the answer that is read there. */
function leave(lane) {
  lane.body?.reader.cancel().catch(() => {});
  lane.body = null;
}

/**
 * The bytes of a response from `position` on; `rest` is what was read and not yet used. Where the browser can, pieces
 * come in `scratch`, one after the other, so that a download leaves no garbage.
 */
function bodyOf(response, position, end = Infinity) {
  const body = {position, end, rest: null, scratch: null, reader: null};
  try {
    body.reader = response.body.getReader({mode: 'byob'});
    body.scratch = new Uint8Array(SCRATCH_BYTES);
  } catch {
    body.reader = response.body.getReader();
  }
  return body;
}

/** Browsers do not tell a server that is down from one that does not want to be asked by this page. */
function foreignHint(url) {
  const page = globalThis.location?.origin;
  if (page === undefined || new URL(url).origin === page) return '';
  return `, from a server that must allow ${page} to read it (CORS)`;
}

/** Content-Length, where it is the number of bytes that will come. */
function lengthOf(response) {
  const length = response.headers.get('content-length');
  const encoding = response.headers.get('content-encoding');
  return length !== null && /^\d+$/.test(length) && (!encoding || encoding === 'identity') ? Number(length) : null;
}

/** The promise, unless it takes longer than ms. */
function within(ms, signal, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no byte for ${ms / 1000} s`)), ms);
  });
  return Promise.race([promise, late, aborted(signal, promise)]).finally(() => clearTimeout(timer));
}

/** Rejects when the signal is aborted before the promise settles. */
function aborted(signal, promise) {
  if (!signal) return promise;
  return new Promise((resolve, reject) => {
    if (signal.aborted) reject(signal.reason);
    const onAbort = () => reject(signal.reason);
    signal.addEventListener('abort', onAbort, {once: true});
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

/** Waits, or throws CANCELLED. */
function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', onAbort);
      resolve(undefined);
    }, ms);
    const onAbort = () => {
      clearTimeout(timer);
      reject(new TernError('CANCELLED', 'waiting for another attempt was cancelled'));
    };
    signal?.addEventListener('abort', onAbort, {once: true});
  });
}
