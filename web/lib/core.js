/** One WebAssembly module: loading, text, sessions. In a worker or under Node; it awaits the device between steps. */
import {errorOfStatus, STATUS_OK, STATUS_PENDING, TernError, throwIfAborted} from './errors.js';
import {Engine} from './engine.js';
import {Memory} from './memory.js';
import {createModule, threadsAvailable} from './module.js';

export {threadsAvailable};

const NOT_FOUND = 4;
const FIRST_READ = 64 * 1024;
/** Bytes on their way to a device before it is waited for. */
const FLUSH_BYTES = 64 * 1024 * 1024;

/** The bytes of a file in order; the head stays, since what follows it may be in it. */
class Head {
  constructor(reader) {
    this.reader = reader;
    this.bytes = new Uint8Array(0);
  }

  async #fetch(offset, length) {
    const bytes = await this.reader.read(offset, length);
    if (bytes.byteLength === length) return bytes;
    throw new TernError('NETWORK', `${bytes.byteLength} bytes read at ${offset}: ${length} expected`);
  }

  async grow(wanted) {
    const size = Math.min(wanted, this.reader.size);
    if (size <= this.bytes.byteLength) {
      throw new TernError('MALFORMED', `header: the file ends after ${this.reader.size} bytes`);
    }
    const grown = new Uint8Array(size);
    grown.set(this.bytes);
    grown.set(await this.#fetch(this.bytes.byteLength, size - this.bytes.byteLength), this.bytes.byteLength);
    this.bytes = grown;
  }

  async read(offset, length) {
    const there = this.bytes.subarray(offset, offset + length);
    if (there.byteLength === length) return there;
    if (there.byteLength === 0) return this.#fetch(offset, length);
    const rest = await this.#fetch(offset + there.byteLength, length - there.byteLength);
    const whole = new Uint8Array(length);
    whole.set(there);
    whole.set(rest, there.byteLength);
    return whole;
  }
}

export class Core {
  /**
   * @param {{threads?: number, gpu?: import('./gpu.js').Gpu | null}} [options] `gpu` for backend "webgpu"
   */
  static async create(options = {}) {
    return new Core(await createModule(options), options);
  }

  constructor(module, {threads = 1, gpu = null}) {
    this.module = module;
    this.threads = threads;
    this.gpu = gpu;
    this.memory = new Memory(module);
    this.scratch = module._malloc(64) >>> 0;
    this.stopped = null;
  }

  /** Calls an export by its name without "tern_web_". What the module does not survive fails every later call. */
  call(name, ...values) {
    if (this.stopped) throw this.stopped;
    try {
      return this.module[`_tern_web_${name}`](...values);
    } catch (cause) {
      if (cause instanceof TernError) throw cause;
      this.stopped = new TernError('INTERNAL', `the core has stopped in ${name}: ${cause?.message ?? cause}`, {cause});
      throw this.stopped;
    }
  }

  /** The same for one that can fail. @returns {boolean} false: PENDING */
  try(name, ...values) {
    const status = this.call(name, ...values);
    if (status === STATUS_OK) return true;
    if (status === STATUS_PENDING) return false;
    throw errorOfStatus(status, this.memory.string(this.call('message')));
  }

  /** The same again and again until it is not PENDING. */
  async settle(name, ...values) {
    while (!this.try(name, ...values)) await this.idle();
  }

  /** The handle that an export writes to its first parameter. */
  open(name, ...values) {
    this.try(name, this.scratch, ...values);
    return this.memory.getU32(this.scratch);
  }

  /** The JSON result of an export. */
  ask(name, ...values) {
    this.try(name, ...values);
    return JSON.parse(this.memory.string(this.call('result')));
  }

  async idle() {
    if (!this.gpu) throw new TernError('INTERNAL', 'the core waits for a device, and there is none');
    await this.gpu.idle();
  }

  get version() {
    return this.memory.string(this.call('version'));
  }

  /** @param {string} text of manifest.json @returns {{name: string, bytes: number, shards: object[]}} */
  checkManifest(text) {
    return this.memory.withString(text, (at) => this.ask('manifest', at));
  }

  /**
   * Opens an engine from a file that is read in order.
   * @param {{size: number, read: (offset: number, length: number) => Promise<Uint8Array>}} reader
   * @param {{backend?: 'cpu' | 'webgpu', contextLength?: number, activations?: 'auto' | 'int8' | 'f32',
   *   signal?: AbortSignal, manifest?: string | null,
   *   onHead?: (head: {model: object, memory: object}) => void | Promise<void>,
   *   onPiece?: (done: {loaded: number, total: number}) => void}} [options] `onHead` may refuse by throwing
   * @returns {Promise<Engine>}
   */
  async load(reader, options = {}) {
    const {backend = 'cpu', contextLength = 0, activations = 'auto', signal} = options;
    const f32Activations = activations === 'f32';
    const int8Blocks = activations === 'int8';
    const settings = JSON.stringify({backend, threads: this.threads, f32Activations, int8Blocks});
    const loader = this.memory.withString(settings, (at) => this.open('loader_open', at, reader.size));
    try {
      if (options.manifest) this.memory.withString(options.manifest, (at) => this.try('loader_manifest', loader, at));
      const head = await this.#readHead(loader, reader, signal);
      const about = this.ask('loader_describe', loader, contextLength);
      await options.onHead?.(about);
      await this.#readPieces(loader, head, options);
      const engine = this.open('loader_finish', loader);
      return await Engine.create(this, engine, {memory: about.memory, backend, contextLength});
    } finally {
      if (!this.stopped) this.call('loader_close', loader);
    }
  }

  async #readHead(loader, reader, signal) {
    const head = new Head(reader);
    for (let wanted = FIRST_READ; ; wanted = this.memory.getF64(this.scratch)) {
      throwIfAborted(signal, 'loading');
      await head.grow(wanted);
      const done = this.memory.withBytes(head.bytes, (at, n) => this.try('loader_head', loader, at, n, this.scratch));
      if (done) return head;
    }
  }

  /** The next piece, or null. */
  #nextPiece(loader) {
    const at = this.scratch, status = this.call('loader_next', loader, at, at + 8, at + 12);
    if (status === NOT_FOUND) return null;
    if (status !== STATUS_OK) throw errorOfStatus(status, this.memory.string(this.call('message')));
    return {offset: this.memory.getF64(at), bytes: this.memory.getU32(at + 8), into: this.memory.getU32(at + 12)};
  }

  async #readPieces(loader, head, {signal, onPiece}) {
    let unflushed = 0;
    for (let piece = this.#nextPiece(loader); piece; piece = this.#nextPiece(loader)) {
      throwIfAborted(signal, 'loading');
      this.memory.write(piece.into, await head.read(piece.offset, piece.bytes));
      await this.settle('loader_accept', loader);
      unflushed += piece.bytes;
      if (this.gpu && unflushed >= FLUSH_BYTES) {
        await this.gpu.flush();
        unflushed = 0;
      }
      onPiece?.({loaded: piece.offset + piece.bytes, total: head.reader.size});
    }
  }

  /** Ends the threads; the module is of no use then. */
  dispose() {
    this.stopped ??= new TernError('INVALID_ARGUMENT', 'this core has been disposed of');
    this.module.PThread?.terminateAllThreads();
  }
}
