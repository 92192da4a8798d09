/** Puts a text value into the metadata of a GGUF file, for tests. */

/** Bytes of the scalar types by their number. */
const SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8};
const STRING = 8;
const ARRAY = 9;
const ALIGNMENT = 32;

class Cursor {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }
  u32() {
    this.at += 4;
    return this.bytes.readUInt32LE(this.at - 4);
  }
  u64() {
    this.at += 8;
    return Number(this.bytes.readBigUInt64LE(this.at - 8));
  }
  string() {
    const n = this.u64();
    this.at += n;
  }
  value(type) {
    if (type === STRING) return this.string();
    if (type !== ARRAY) return void (this.at += SIZES[type]);
    const of = this.u32();
    const n = this.u64();
    if (of === STRING) for (let i = 0; i < n; i++) this.string();
    else this.at += n * SIZES[of];
  }
}

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
