/** Bencoding, which torrents are written in (BEP 3): read only, and only what is written as it should be. */

import {TernError} from '../errors.js';

const MOST_DEPTH = 32;
const INTEGER = /^(0|-?[1-9][0-9]{0,15})$/;

/**
 * @typedef {number | Uint8Array | any[] | Map<string, any>} Value `Map`: a dictionary; keys one character for each byte
 * @typedef {{value: Value, spans: Map<string, [number, number]>}} Read `spans`: of the outermost dictionary's values,
 *   where they lie in the bytes
 */

/**
 * Errors: MALFORMED.
 * @param {Uint8Array} bytes @param {string} where for messages @returns {Read}
 */
export function decode(bytes, where) {
  const reader = new Reader(bytes, where);
  const value = reader.value(0);
  if (reader.at !== bytes.length) throw reader.fault('something follows what is whole');
  return {value, spans: reader.spans};
}

class Reader {
  constructor(bytes, where) {
    Object.assign(this, {bytes, where, at: 0, spans: new Map()});
  }

  fault(what) {
    return new TernError('MALFORMED', `${this.where} is no torrent: ${what}, at byte ${this.at}`);
  }

  /** @param {number} depth @returns {Value} */
  value(depth) {
    if (depth > MOST_DEPTH) throw this.fault(`lists in lists, more than ${MOST_DEPTH} deep`);
    switch (this.bytes[this.at]) {
      case 0x69: // i
        return this.#integer();
      case 0x6c: // l
        return this.#list(depth);
      case 0x64: // d
        return this.#dictionary(depth);
      default:
        return this.#string();
    }
  }

  #until(mark, most) {
    const end = this.bytes.indexOf(mark, this.at);
    if (end < 0 || end - this.at > most) throw this.fault('a number has no end');
    const text = String.fromCharCode(...this.bytes.subarray(this.at, end));
    if (!INTEGER.test(text)) throw this.fault(`${JSON.stringify(text)} is no whole number`);
    this.at = end + 1;
    return Number(text);
  }

  #integer() {
    this.at++;
    return this.#until(0x65, 17);
  }

  #string() {
    const length = this.#until(0x3a, 16);
    if (length < 0 || length > this.bytes.length - this.at) throw this.fault(`a text of ${length} bytes does not fit`);
    this.at += length;
    return this.bytes.subarray(this.at - length, this.at);
  }

  #ends() {
    if (this.at >= this.bytes.length) throw this.fault('it ends too early');
    if (this.bytes[this.at] !== 0x65) return false;
    this.at++;
    return true;
  }

  #list(depth) {
    const out = [];
    for (this.at++; !this.#ends();) out.push(this.value(depth + 1));
    return out;
  }

  #dictionary(depth) {
    const out = new Map();
    let last = null;
    for (this.at++; !this.#ends();) {
      const key = latin(this.#string());
      if (last !== null && key <= last) throw this.fault(`key ${JSON.stringify(key)} is out of order`);
      last = key;
      const from = this.at;
      out.set(key, this.value(depth + 1));
      if (depth === 0) this.spans.set(key, [from, this.at]);
    }
    return out;
  }
}

/** A character for each byte. @param {Uint8Array} bytes */
function latin(bytes) {
  let text = '';
  for (const byte of bytes) text += String.fromCharCode(byte);
  return text;
}
