/** The memory of a WebAssembly module, which other threads may grow: views are made anew when it has. */
import {TernError} from './errors.js';

const decoder = new TextDecoder(), encoder = new TextEncoder();

export class Memory {
  /** @param {{wasmMemory: WebAssembly.Memory, _malloc: Function, _free: Function}} module */
  constructor(module) {
    this.module = module;
    this.memory = module.wasmMemory;
    this.buffer = null;
  }

  #refresh() {
    if (this.buffer === this.memory.buffer) return;
    this.buffer = this.memory.buffer;
    this.u8 = new Uint8Array(this.buffer);
    this.u32 = new Uint32Array(this.buffer);
    this.i32 = new Int32Array(this.buffer);
    this.f32 = new Float32Array(this.buffer);
    this.f64 = new Float64Array(this.buffer);
  }

  get size() {
    return this.memory.buffer.byteLength;
  }

  /** The address of n bytes, to be freed. Errors: OUT_OF_MEMORY. @param {number} n @param {string} what */
  allocate(n, what) {
    const at = this.module._malloc(n || 1) >>> 0;
    if (at === 0) throw new TernError('OUT_OF_MEMORY', `no memory for ${n} bytes of ${what}`);
    return at;
  }

  free(at) {
    this.module._free(at);
  }

  /** @param {number} at bytes */
  getU32(at) {
    this.#refresh();
    return this.u32[at >>> 2];
  }

  getF64(at) {
    this.#refresh();
    return this.f64[at >>> 3];
  }

  setU32(at, value) {
    this.#refresh();
    this.u32[at >>> 2] = value;
  }

  /** @param {ArrayLike<number>} bytes */
  write(at, bytes) {
    this.#refresh();
    this.u8.set(bytes, at >>> 0);
  }

  /** A copy. */
  bytes(at, n) {
    this.#refresh();
    return this.u8.slice(at >>> 0, (at >>> 0) + n);
  }

  /** A copy. */
  ints(at, n) {
    this.#refresh();
    return this.i32.slice(at >>> 2, (at >>> 2) + n);
  }

  /** A copy. */
  floats(at, n) {
    this.#refresh();
    return this.f32.slice(at >>> 2, (at >>> 2) + n);
  }

  text(at, n) {
    return decoder.decode(this.bytes(at, n));
  }

  /** Text that ends with a zero byte. */
  string(at) {
    this.#refresh();
    at >>>= 0;
    return this.text(at, this.u8.indexOf(0, at) - at);
  }

  /** What `use` gives of the address and the length of a copy of the bytes, which is freed then. */
  withBytes(bytes, use) {
    const at = this.module._malloc(bytes.byteLength || 1) >>> 0;
    if (at === 0) return use(0, bytes.byteLength);
    try {
      this.write(at, bytes);
      return use(at, bytes.byteLength);
    } finally {
      this.module._free(at);
    }
  }

  /** The same of text with a zero byte behind it. */
  withString(text, use) {
    return this.withBytes(encoder.encode(`${text}\0`), (at, n) => use(at, n - 1));
  }

  withFloats64(values, use) {
    const bytes = new Uint8Array(Float64Array.from(values).buffer);
    return this.withBytes(bytes, (at) => use(at, values.length));
  }

  withInts(ids, use) {
    const bytes = new Uint8Array(Int32Array.from(ids).buffer);
    return this.withBytes(bytes, (at) => use(at, ids.length));
  }
}
