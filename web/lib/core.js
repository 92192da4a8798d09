/** One WebAssembly module: loading, text, sessions. In a worker or under Node; it awaits the device between steps. */
import {bytesFor, errorOfStatus, STATUS_OK, STATUS_PENDING, TernError, throwIfAborted} from './errors.js';
import {Engine} from './engine.js';
import {ExpertHost} from './experts.js';
import {Memory} from './memory.js';
import {createModule} from './module.js';
import {KV_TYPES} from './options.js';

const NOT_FOUND = 4;
const FIRST_READ = 64 * 1024;
/** Bytes on their way to a device before it is waited for. */
const FLUSH_BYTES = 64 * 1024 * 1024;

/** What is read of a file, or of one of its parts; the head stays, since what follows it may be in it. */
class Head {
  /**
   * @param {{name: string, offset: number, bytes: number}} part
   * @param {(offset: number, length: number) => Promise<Uint8Array>} read
   */
  constructor({name, offset, bytes}, read) {
    Object.assign(this, {name: name && `${name}: `, offset, size: bytes, readAt: read});
    this.bytes = new Uint8Array(0);
  }

  async #fetch(offset, length, read) {
    const bytes = await read(this.offset + offset, length);
    if (bytes.byteLength === length) return bytes;
    throw new TernError('NETWORK', `${bytes.byteLength} bytes read at ${offset}: ${length} expected`);
  }

  async grow(wanted) {
    const size = Math.min(wanted, this.size);
    if (size <= this.bytes.byteLength) {
      throw new TernError('MALFORMED', `${this.name}header: the file ends after ${this.size} bytes`);
    }
    const grown = bytesFor(size, `${this.name}header`);
    grown.set(this.bytes);
    const there = this.bytes.byteLength;
    grown.set(await this.#fetch(there, size - there, this.readAt), there);
    this.bytes = grown;
  }

  /** In order, from the reader. @param {{read: (offset: number, length: number) => Promise<Uint8Array>}} reader */
  async read(offset, length, reader) {
    const inOrder = (at, n) => reader.read(at, n);
    const there = this.bytes.subarray(offset, offset + length);
    if (there.byteLength === length) return there;
    if (there.byteLength === 0) return this.#fetch(offset, length, inOrder);
    const rest = await this.#fetch(offset + there.byteLength, length - there.byteLength, inOrder);
    const whole = new Uint8Array(length);
    whole.set(there);
    whole.set(rest, there.byteLength);
    return whole;
  }
}

class Heads {
  constructor(reader) {
    this.reader = reader;
    let offset = 0;
    this.list = (reader.parts ?? [{name: '', bytes: reader.size}]).map(({name, bytes}, i) => {
      const read = (at, n) => (i === 0 ? reader.read(at, n) : reader.peek(at, n));
      const head = new Head({name, offset, bytes}, read);
      offset += bytes;
      return head;
    });
  }

  /** No piece is of two parts. */
  read(offset, length) {
    const head = this.list.find((each) => offset < each.offset + each.size) ?? this.list[0];
    return head.read(offset - head.offset, length, this.reader);
  }
}

/** The core says which part it means; its name says it to people. */
function errorOfPart(error, parts) {
  const [, number] = /^part (\d+) of \d+: /.exec(error.message) ?? [];
  const name = parts?.[Number(number) - 1]?.name;
  return name ? new TernError(error.code, `${name}: ${error.message}`, {cause: error}) : error;
}

export class Core {
  /**
   * @param {{threads?: number, gpu?: import('./gpu.js').Gpu | null}} [options] `gpu` for backend "webgpu"
   */
  static async create(options = {}) {
    const experts = new ExpertHost();
    return new Core(await createModule({...options, experts}), {...options, experts});
  }

  constructor(module, {threads = 1, gpu = null, experts = new ExpertHost()}) {
    this.experts = experts;
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
    throw this.experts.named(errorOfStatus(status, this.memory.string(this.call('message'))));
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
   * @param {{size: number, read: (offset: number, length: number) => Promise<Uint8Array>, parts?: {name: string, bytes:
   *   number}[] | null, peek?: (offset: number, length: number) => Promise<Uint8Array>}} reader `parts`: of a file that
   *   is split, one behind another; their heads but for the first are read by `peek`, out of order
   * @param {{backend?: 'cpu' | 'webgpu', contextLength?: number, kv?: string, activations?: 'auto' | 'int8' | 'f32',
   *   signal?: AbortSignal, manifest?: string | null, experts?: string | null,
   *   shards?: import('./experts.js').ExpertShards | null,
   *   onHead?: (head: {model: object, memory: object}) => void | Promise<void>,
   *   onPiece?: (done: {loaded: number, total: number}) => void}} [options] `onHead` may refuse by throwing;
   *   `shards`: of experts of a package by expert, the engine's from here on; `experts`: how many are in memory, as
   *   --experts
   */
  async load(reader, options = {}) {
    const {backend = 'cpu', activations = 'auto'} = options;
    const {experts = null, shards = null} = options;
    const settings = JSON.stringify({backend, threads: this.threads, activations, experts});
    const source = shards ? this.experts.add(shards) : 0;
    try {
      return await this.#load(reader, {...options, source, settings});
    } catch (error) {
      this.experts.remove(source);
      throw error;
    }
  }

  async #load(reader, options) {
    const {backend = 'cpu', contextLength = 0, signal, source, settings} = options;
    const kv = KV_TYPES.indexOf(options.kv ?? 'auto');
    const loader = this.memory.withString(settings, (at) => this.open('loader_open', at, reader.size));
    try {
      if (options.manifest) {
        this.memory.withString(options.manifest, (at) =>
          source ? this.try('loader_experts', loader, at, source) : this.try('loader_manifest', loader, at)
        );
      }
      const heads = await this.#readHeads(loader, reader, signal);
      const about = this.ask('loader_describe', loader, contextLength, kv);
      await options.onHead?.(about);
      await this.#readPieces(loader, heads, options);
      const engine = this.open('loader_finish', loader);
      return await Engine.create(this, engine, {memory: about.memory, backend, contextLength, kv, source});
    } finally {
      if (!this.stopped) this.call('loader_close', loader);
    }
  }

  async #readHeads(loader, reader, signal) {
    const heads = new Heads(reader);
    const sizes = heads.list.map(({size}) => size);
    if (reader.parts) this.memory.withFloats64(sizes, (at, n) => this.try('loader_parts', loader, at, n));
    for (const head of heads.list) {
      await this.#readHead(loader, head, signal).catch((error) => {
        throw errorOfPart(error, reader.parts);
      });
    }
    return heads;
  }

  async #readHead(loader, head, signal) {
    for (let wanted = FIRST_READ; ; wanted = this.memory.getF64(this.scratch)) {
      throwIfAborted(signal, 'loading');
      await head.grow(wanted);
      const done = this.memory.withBytes(head.bytes, (at, n) => this.try('loader_head', loader, at, n, this.scratch));
      if (done) return;
    }
  }

  #nextPiece(loader) {
    const at = this.scratch, status = this.call('loader_next', loader, at, at + 8, at + 12);
    if (status === NOT_FOUND) return null;
    if (status !== STATUS_OK) throw errorOfStatus(status, this.memory.string(this.call('message')));
    return {offset: this.memory.getF64(at), bytes: this.memory.getU32(at + 8), into: this.memory.getU32(at + 12)};
  }

  async #readPieces(loader, heads, {signal, onPiece}) {
    let unflushed = 0;
    for (let piece = this.#nextPiece(loader); piece; piece = this.#nextPiece(loader)) {
      throwIfAborted(signal, 'loading');
      this.memory.write(piece.into, await heads.read(piece.offset, piece.bytes));
      await this.settle('loader_accept', loader);
      unflushed += piece.bytes;
      if (this.gpu && unflushed >= FLUSH_BYTES) {
        await this.gpu.flush();
        unflushed = 0;
      }
      onPiece?.({loaded: piece.offset + piece.bytes, total: heads.reader.size});
    }
  }

  /** Ends the threads; the module is of no use then. */
  dispose() {
    this.stopped ??= new TernError('INVALID_ARGUMENT', 'this core has been disposed of');
    this.module.PThread?.terminateAllThreads();
  }
}
