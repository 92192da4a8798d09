/**
 * A GGUF file cut into parts as llama.cpp's gguf-split cuts one: every part a GGUF file, the first with the metadata,
 * all with split.no, split.count (u16) and split.tensors.count (i32).
 */

import {Cursor} from './gguf-cursor.mjs';

const U16 = 2, I32 = 5;

const aligned = (n) => Math.ceil(n / 32) * 32;

/** @param {Buffer} bytes of a GGUF file with general.alignment 32 */
function parse(bytes) {
  const cursor = new Cursor(bytes);
  cursor.at = 8;
  const nTensors = cursor.u64(), nKeys = cursor.u64(), keysAt = cursor.at;
  for (let i = 0; i < nKeys; i++) {
    cursor.string();
    cursor.value(cursor.u32());
  }
  const keys = bytes.subarray(keysAt, cursor.at);
  const tensors = Array.from({length: nTensors}, () => {
    const from = cursor.at;
    cursor.string();
    const dimensions = cursor.u32();
    cursor.at += 8 * dimensions + 4;
    return {head: bytes.subarray(from, cursor.at), offset: cursor.u64()};
  });
  const data = bytes.subarray(aligned(cursor.at));
  const inPlace = [...tensors].sort((a, b) => a.offset - b.offset);
  inPlace.forEach((tensor, i) => {
    tensor.data = data.subarray(tensor.offset, inPlace[i + 1]?.offset ?? data.length);
  });
  return {keys, nKeys, tensors: inPlace};
}

const u64 = (n) => Buffer.from(BigUint64Array.of(BigInt(n)).buffer);
const u32 = (n) => Buffer.from(Uint32Array.of(n).buffer);
const key = (name, type, value) => Buffer.concat([u64(name.length), Buffer.from(name), u32(type), value]);

function part({keys, nKeys, tensors}, {no, count, all}) {
  const place = [
    key('split.no', U16, Buffer.from(Uint16Array.of(no).buffer)),
    key('split.count', U16, Buffer.from(Uint16Array.of(count).buffer)),
    key('split.tensors.count', I32, Buffer.from(Int32Array.of(all).buffer))
  ];
  const own = no === 0 ? keys : Buffer.alloc(0);
  const head = [Buffer.from('GGUF'), u32(3), u64(tensors.length), u64((no === 0 ? nKeys : 0) + 3), own, ...place];
  let offset = 0;
  const data = [];
  for (const tensor of tensors) {
    head.push(tensor.head, u64(offset));
    const n = aligned(tensor.data.length);
    data.push(tensor.data, Buffer.alloc(n - tensor.data.length));
    offset += n;
  }
  const bytes = Buffer.concat(head);
  return Buffer.concat([bytes, Buffer.alloc(aligned(bytes.length) - bytes.length), ...data]);
}

/**
 * @param {Buffer} bytes of a GGUF file @param {number} n parts @param {string} stem of their names
 * @returns {{name: string, bytes: Buffer}[]}
 */
export function split(bytes, n, stem = 'm') {
  const {tensors, ...rest} = parse(bytes);
  const five = (i) => String(i).padStart(5, '0');
  return Array.from({length: n}, (_, no) => {
    const own = tensors.slice(Math.floor((no * tensors.length) / n), Math.floor(((no + 1) * tensors.length) / n));
    const name = `${stem}-${five(no + 1)}-of-${five(n)}.gguf`;
    return {name, bytes: part({...rest, tensors: own}, {no, count: n, all: tensors.length})};
  });
}
