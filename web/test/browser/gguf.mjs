/** Puts a text value into the metadata of a GGUF file, for tests. */

import {Cursor} from '../support/gguf-cursor.mjs';

const STRING = 8;
const ALIGNMENT = 32;

/** Where the descriptions of tensors end. */
function endOfHeader(bytes, nTensors, nValues) {
  const cursor = new Cursor(bytes);
  cursor.at = 24;
  for (let i = 0; i < nValues; i++) {
    cursor.string();
    cursor.value(cursor.u32());
  }
  for (let i = 0; i < nTensors; i++) {
    cursor.string();
    const dimensions = cursor.u32();
    cursor.at += 8 * dimensions + 4 + 8;
  }
  return cursor.at;
}

function text(value) {
  const bytes = Buffer.from(value);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(bytes.length));
  return Buffer.concat([length, bytes]);
}

const aligned = (size) => Math.ceil(size / ALIGNMENT) * ALIGNMENT;

/** @param {Buffer} bytes a GGUF file of alignment 32 @param {string} key @param {string} value @returns {Buffer} */
export function withText(bytes, key, value) {
  const nTensors = Number(bytes.readBigUInt64LE(8));
  const nValues = Number(bytes.readBigUInt64LE(16));
  const end = endOfHeader(bytes, nTensors, nValues);
  const start = Buffer.from(bytes.subarray(0, 24));
  start.writeBigUInt64LE(BigInt(nValues + 1), 16);
  const head = Buffer.concat([start, text(key), Buffer.from([STRING, 0, 0, 0]), text(value), bytes.subarray(24, end)]);
  const padding = Buffer.alloc(aligned(head.length) - head.length);
  return Buffer.concat([head, padding, bytes.subarray(aligned(end))]);
}
