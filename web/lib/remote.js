/** Bytes that the page has and this thread asks it for: of torrents, whose peers are reached by pages alone. */

import {TernError, errorOfWire} from './errors.js';
import {fill} from './now.js';

/** Of what is read while this thread waits: the state and the number of bytes that follow, which may be an error's. */
const HEAD_BYTES = 8;
const STATES = Object.freeze({waiting: 0, here: 1, failed: 2});
/** An error takes as much, where the bytes are fewer; so many characters of it are told. */
const ERROR_BYTES = 4096;
const ERROR_CHARACTERS = 500;

export class Remote {
  constructor() {
    this.next = 1;
    this.reads = new Map();
    this.call = null;
  }

  /** The page answers from now on; ends when the page does. */
  attach(call) {
    this.call = call;
    return new Promise(() => {});
  }

  /** Fills `into` with bytes of a file from `offset` on; onBytes(n) after each piece. */
  read(file, offset, into, {signal, onBytes} = {}) {
    const read = this.next++;
    const result = new Promise((resolve, reject) => {
      this.reads.set(read, {file, into, at: 0, onBytes, resolve, reject});
      signal?.addEventListener('abort', () => this.#end(read, cancelled(file)), {once: true});
      if (signal?.aborted) this.#end(read, cancelled(file));
      else this.call.emit('want', {read, file, offset, bytes: into.length});
    });
    return result;
  }

  /**
   * A way to read whole files while this thread waits, as the core must in the middle of a step; null where threads
   * share no memory (a page that is not cross-origin isolated), or this one may not wait.
   * @returns {import('./now.js').ReadNow}
   */
  get readNow() {
    const apart = typeof globalThis.WorkerGlobalScope === 'function' && globalThis.crossOriginIsolated;
    return apart ? (file, into) => this.#readNow(file, into) : null;
  }

  #readNow(file, into) {
    const memory = new SharedArrayBuffer(HEAD_BYTES + Math.max(into.length, ERROR_BYTES));
    const head = new Int32Array(memory, 0, 2);
    this.call.emit('want', {file, offset: 0, bytes: into.length, memory});
    Atomics.wait(head, 0, STATES.waiting);
    const bytes = new Uint8Array(memory, HEAD_BYTES, head[1]);
    if (head[0] === STATES.failed) throw errorOfWire(JSON.parse(new TextDecoder().decode(bytes.slice())));
    fill(into, bytes, file);
  }

  #end(read, error) {
    const under = this.reads.get(read);
    if (!under) return;
    this.reads.delete(read);
    this.call.emit('unwant', {read});
    under.reject(error);
  }

  /** What the page sends. */
  supply(read, bytes, error) {
    const under = this.reads.get(read);
    if (!under) return;
    if (error || bytes.length > under.into.length - under.at) {
      this.reads.delete(read);
      under.reject(error ? errorOfWire(error) : new TernError('INTERNAL', `too many bytes came of ${under.file}`));
      return;
    }
    under.into.set(bytes, under.at);
    under.at += bytes.length;
    under.onBytes?.(bytes.length);
    if (under.at < under.into.length) return;
    this.reads.delete(read);
    under.resolve();
  }
}

/**
 * The page's answer to who waits: all of the bytes, or why there are none.
 * @param {SharedArrayBuffer} memory @param {Uint8Array | null} bytes @param {any} error as on the wire
 */
export function answerNow(memory, bytes, error) {
  const head = new Int32Array(memory, 0, 2);
  const told = bytes ?? new TextEncoder().encode(JSON.stringify(short(error)));
  new Uint8Array(memory, HEAD_BYTES).set(told);
  head[1] = told.length;
  Atomics.store(head, 0, bytes ? STATES.here : STATES.failed);
  Atomics.notify(head, 0);
}

const short = ({code, message}) => ({code, message: message.slice(0, ERROR_CHARACTERS)});

const cancelled = (file) => new TernError('CANCELLED', `reading ${file} was cancelled`);
