/** Bytes that the page has and this thread asks it for: of torrents, whose peers are reached by pages alone. */

import {TernError, errorOfWire} from './errors.js';

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

const cancelled = (file) => new TernError('CANCELLED', `reading ${file} was cancelled`);
