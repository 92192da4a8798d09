/** Walks through the header of a GGUF file, for tests. */

/** Bytes of the scalar types by their number. */
const SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8};
const STRING = 8;
const ARRAY = 9;

export class Cursor {
  /** @param {Buffer} bytes */
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
