/** Generated text as it comes: an async iterable of pieces, with the result of the whole. */

import {TernError} from './errors.js';

export class TextStream {
  /**
   * Nothing happens before the stream is read (iterated, or its text or result asked for).
   * @param {(onPiece: (piece: import('./index.js').Piece) => void) => {done: Promise<import('./index.js').Result>,
   *   abort(): void, credit(n: number): void}} start
   */
  constructor(start) {
    this.start = start;
    this.call = null;
    this.queue = [];
    this.ended = false;
    this.reading = false;
    this.wake = () => {};
    this.settled = new Promise((resolve, reject) => Object.assign(this, {resolve, reject}));
    this.settled.catch(() => {});
  }

  /**
   * When it was read to its end, or left. Asked for without reading, it is read through, and its pieces are dropped.
   */
  get result() {
    setTimeout(() => {
      if (!this.reading) this.text().catch(() => {});
    });
    return this.settled;
  }

  /** All of it, or the error CANCELLED. */
  async text() {
    let text = '';
    for await (const piece of this) text += piece.text;
    if ((await this.settled).reason === 'caller') throw new TernError('CANCELLED', 'the generation was cancelled');
    return text;
  }

  [Symbol.asyncIterator]() {
    if (this.reading)
      throw new TernError('INVALID_ARGUMENT', 'this stream is being read already: its pieces come once');
    this.reading = true;
    this.#begin();
    return {next: () => this.#next(), return: () => this.#leave()};
  }

  #begin() {
    this.call = this.start((piece) => {
      this.queue.push(piece);
      this.wake();
    });
    const end = () => {
      this.ended = true;
      this.wake();
    };
    this.call.done.then(this.resolve, this.reject);
    this.call.done.then(end, end);
  }

  async #next() {
    while (this.queue.length === 0) {
      if (this.ended) return {done: true, value: await this.settled.then(() => undefined)};
      await new Promise((resolve) => {
        this.wake = resolve;
      });
    }
    this.call.credit(1);
    return {done: false, value: this.queue.shift()};
  }

  async #leave() {
    this.call.abort();
    await this.settled.catch(() => {});
    this.queue.length = 0;
    return {done: true, value: undefined};
  }
}
