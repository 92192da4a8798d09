/**
 * Calls between the page and the thread of the core: results, errors with codes, events, pieces with back-pressure,
 * cancelling. The transport is anything that hands plain messages over in order: a worker's postMessage, or a function
 * call under Node.
 *
 * Page to core: {id, method, args, aborted}, {id, abort: true}, {id, credit: n}. Core to page: {id, value}, {id,
 * error}, {id, event, data}, {id, piece}, {lost: message}.
 */

import {TernError, errorOfWire, errorToWire} from './errors.js';

/** Pieces that may be on their way before the reader has taken one. */
const WINDOW = 16;

/** The core's side. Methods of `host` get (...args, context). */
export class Server {
  /** @param {Record<string, any>} host @param {(message: any) => void} post @param {readonly string[]} methods */
  constructor(host, post, methods) {
    Object.assign(this, {host, post, methods});
    this.calls = new Map();
    host.onLost = (message) => post({lost: message});
  }

  receive({id, method, args, aborted, abort, credit}) {
    const call = this.calls.get(id);
    if (method) this.#run(id, method, args, aborted);
    else if (abort) call?.abort();
    else if (credit) call?.credit(credit);
  }

  async #run(id, method, args, aborted) {
    const call = new Call(id, this.post);
    if (aborted) call.abort();
    this.calls.set(id, call);
    try {
      if (!this.methods.includes(method)) throw new TernError('INTERNAL', `the core has no method ${method}`);
      this.post({id, value: await this.host[method](...args, call)});
    } catch (error) {
      this.post({id, error: errorToWire(error)});
    } finally {
      this.calls.delete(id);
    }
  }
}

/** One call, as its method sees it. */
class Call {
  constructor(id, post) {
    Object.assign(this, {id, post});
    this.controller = new AbortController();
    this.outstanding = 0;
    this.window = WINDOW;
    this.resume = () => {};
  }

  get signal() {
    return this.controller.signal;
  }

  emit(event, data) {
    this.post({id: this.id, event, data});
  }

  /** Resolves when there is room for more, or the call was cancelled. */
  async push(piece) {
    this.post({id: this.id, piece});
    this.outstanding++;
    if (this.outstanding < this.window || this.signal.aborted) return;
    await new Promise((resolve) => {
      this.resume = resolve;
    });
  }

  credit(n) {
    this.outstanding -= n;
    this.resume();
  }

  /** Pieces no longer wait for their reader. */
  release() {
    this.window = Infinity;
    this.resume();
  }

  abort() {
    this.controller.abort();
    this.resume();
  }
}

/** The page's side. */
export class Client {
  /** @param {(message: any) => void} post @param {(message: string) => void} [onLost] */
  constructor(post, onLost = () => {}) {
    Object.assign(this, {post, onLost});
    this.calls = new Map();
    this.next = 1;
    this.failure = null;
  }

  receive({id, value, error, event, data, piece, lost}) {
    if (lost !== undefined) return this.onLost(lost);
    const call = this.calls.get(id);
    if (!call) return undefined;
    if (event) return call.on[event]?.(data);
    if (piece) return call.on.piece?.(piece);
    this.calls.delete(id);
    return error ? call.reject(errorOfWire(error)) : call.resolve(value);
  }

  /**
   * @param {string} method @param {any[]} args
   * @param {{signal?: AbortSignal, on?: Record<string, (data: any) => void>}} [options] `on.piece` for pieces
   * @returns {{done: Promise<any>, abort(): void, credit(n: number): void}}
   */
  start(method, args, {signal, on = {}} = {}) {
    const id = this.next++;
    const abort = () => this.calls.has(id) && this.post({id, abort: true});
    const done = new Promise((resolve, reject) => {
      if (this.failure) return void reject(this.failure);
      this.calls.set(id, {resolve, reject, on});
      this.post({id, method, args, aborted: signal?.aborted ?? false});
    });
    signal?.addEventListener('abort', abort, {once: true});
    const settled = () => signal?.removeEventListener('abort', abort);
    done.then(settled, settled);
    return {done, abort, credit: (n) => this.calls.has(id) && this.post({id, credit: n})};
  }

  /** @returns {Promise<any>} */
  call(method, args = [], options = {}) {
    return this.start(method, args, options).done;
  }

  /** Nothing comes any more: all calls, now and later, end with this error. @param {TernError} error */
  fail(error) {
    this.failure ??= error;
    for (const call of this.calls.values()) call.reject(error);
    this.calls.clear();
  }
}
