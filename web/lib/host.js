/**
 * What happens beside the core, in its thread: loading a model, and what a Tern can be asked. Errors of the device are
 * DEVICE_LOST.
 */

import {readAdapter} from './adapter.js';
import {storeAdapter} from './adapter-store.js';
import {Core} from './core.js';
import {TernError, errorToWire, throwIfAborted} from './errors.js';
import {ExpertShards} from './experts.js';
import {openModel} from './open.js';
import {cpuInfo, defaultThreads, gpuInfo} from './platform.js';
import {Remote} from './remote.js';

/** What the other side may call. */
export const METHODS = Object.freeze([
  'load',
  'generate',
  'chat',
  'embed',
  'tokenize',
  'detokenize',
  'loadLora',
  'storeLora',
  'disposeLora',
  'setLoras',
  'finetune',
  'experts',
  'measureBandwidth',
  'startProfile',
  'stopProfile',
  'reads',
  'supply',
  'dispose'
]);

/** Why the GPU cannot be had, as against what is wrong with the request. */
const NO_GPU = ['NO_WEBGPU', 'INSECURE_CONTEXT', 'NO_ADAPTER', 'UNSUPPORTED'];

const INT8_ON_CPU = 'activations "int8" are the CPU\'s alone: the CPU is used';

export class Host {
  constructor() {
    this.onLost = (message) => void message;
    this.lostMessage = null;
    this.loras = new Map();
    this.nextLora = 1;
    this.used = [];
    this.turn = Promise.resolve();
    /** Calls that wait for their turn, and the one that hands pieces over. */
    this.waiting = 0;
    this.streaming = null;
    this.remote = new Remote();
    this.core = this.engine = this.gpu = this.shards = null;
  }

  /** @param {any} source @param {any} options @param {any} call @returns {Promise<any>} what the Tern shows */
  async load(source, options, call) {
    await this.#open(options, (notice) => call.emit('notice', notice));
    throwIfAborted(call.signal, 'loading');
    const opened = await this.#guard(() => this.#openSource(source, options, call));
    this.engine = await this.#guard(() => this.#read(opened, options, call));
    const model = {...this.engine.model, contextLength: this.engine.contextLength};
    const {backend, device, engine, shards} = this;
    return {backend, model, memory: engine.memory, device, id: opened.id, elsewhere: shards?.elsewhere ?? false};
  }

  #openSource(source, {store}, call) {
    return openModel(source, {
      store,
      remote: this.remote,
      signal: call.signal,
      checkManifest: (text) => this.core.checkManifest(text),
      onNotice: (notice) => call.emit('notice', notice),
      onProgress: (progress) => call.emit('progress', progress)
    });
  }

  /** What turns out to be no model is not kept. */
  async #read({reader, manifest, name, experts: from}, {contextLength, kv, activations, experts}, call) {
    const onPiece = ({loaded, total}) => loaded === total && call.emit('progress', prepare(total));
    try {
      const how = {backend: this.backend, contextLength, kv, activations, manifest, signal: call.signal, onPiece};
      if (!from && experts !== undefined) call.emit('notice', allThere(name));
      if (from) await reader.keepRest();
      const shards = (this.shards = from && (await ExpertShards.open(from.experts, {name, ...from})));
      const engine = await this.core.load(reader, {...how, shards, experts: from ? experts : null});
      await reader.close();
      return engine;
    } catch (error) {
      await reader.close({abort: true, discard: error.code === 'MALFORMED'});
      const told = from && experts === undefined ? advised(error) : error;
      throw named(told, [name, ...(reader.parts ?? []).map((part) => part.name)]);
    }
  }

  /** What the page has of a torrent: it sends what `want` asks for. Lasts as long as the page. */
  reads(call) {
    return this.remote.attach(call);
  }

  supply(read, bytes, error) {
    this.remote.supply(read, bytes, error);
  }

  async #open({backend = 'auto', threads, activations, device = {}}, onNotice) {
    const forCpu = backend === 'auto' && activations === 'int8';
    if (forCpu) onNotice({code: 'UNSUPPORTED', message: INT8_ON_CPU, about: 'backend'});
    this.gpu = backend === 'cpu' || forCpu ? null : await this.#openGpu(device, backend === 'auto', onNotice);
    this.backend = this.gpu ? 'webgpu' : 'cpu';
    const n = threads ?? (this.gpu ? 1 : await defaultThreads());
    this.core = await Core.create({threads: n, gpu: this.gpu});
    this.device = this.gpu ? gpuInfo(this.gpu.info, n) : cpuInfo(n);
    const {gpu} = this;
    gpu?.lost.then((message) => gpu === this.gpu && this.#lose(message));
  }

  async #openGpu(device, optional, onNotice) {
    try {
      const {Gpu} = await import('./gpu.js');
      return await Gpu.open({software: !optional, ...device});
    } catch (error) {
      if (!optional || !NO_GPU.includes(error.code)) throw error;
      onNotice({code: error.code, message: `${error.message}; the CPU is used`, about: 'backend'});
      return null;
    }
  }

  #lose(message) {
    if (!this.core) return;
    this.lostMessage = message;
    this.onLost(message);
  }

  /** What fails while the device is lost fails for that. */
  async #guard(action) {
    try {
      return await action();
    } catch (error) {
      if (this.gpu && /^device lost/i.test(error?.message ?? '')) this.lostMessage ??= error.message;
      if (this.lostMessage === null || error?.code === 'CANCELLED') throw error;
      throw new TernError('DEVICE_LOST', this.lostMessage, {cause: error});
    }
  }

  /**
   * One after the other: what uses the session. Who is cancelled waits no longer; who waits does not wait for the
   * reader of a stream.
   */
  #inTurn(signal, action) {
    const before = this.turn;
    this.waiting++;
    this.streaming?.release();
    const result = Promise.race([before, aborted(signal)]).then(() => {
      this.waiting--;
      throwIfAborted(signal, 'waiting for the model');
      if (!this.engine) throw new TernError('INVALID_ARGUMENT', 'this Tern has been disposed of');
      return this.#guard(action);
    });
    this.turn = Promise.allSettled([before, result]);
    return result;
  }

  generate(prompt, options, call) {
    return this.#stream(call, () => this.engine.generate(prompt, {...options, signal: call.signal}));
  }

  chat(messages, options, call) {
    return this.#stream(call, () => this.engine.chat(messages, {...options, signal: call.signal}));
  }

  /** Hands pieces over as fast as they are taken, or as fast as they come while somebody waits for the session. */
  #stream(call, begin) {
    return this.#inTurn(call.signal, async () => {
      this.streaming = call;
      if (this.waiting) call.release();
      try {
        return await pump(begin(), call);
      } finally {
        this.streaming = null;
      }
    });
  }

  embed(texts, options, call) {
    return this.#inTurn(call.signal, async () => {
      const vectors = [];
      for (const text of texts) {
        throwIfAborted(call.signal, 'embedding');
        vectors.push(await this.engine.embed(text, {...options, signal: call.signal}));
      }
      return vectors;
    });
  }

  tokenize(text, options) {
    return this.#guard(() => this.engine.tokenize(text, options));
  }

  detokenize(ids, options) {
    return this.#guard(() => this.engine.detokenize(ids, options));
  }

  async loadLora(source, {signal}) {
    const files = await readAdapter(source, {signal});
    return this.#inTurn(signal, async () => {
      const lora = await this.engine.loadLora(files);
      const id = this.nextLora++;
      this.loras.set(id, lora);
      return {id, rank: lora.rank, parameters: lora.parameters};
    });
  }

  /** What is no adapter of this model is not kept. */
  async storeLora(source, about, {signal}) {
    const files = await readAdapter(source, {signal});
    await this.#inTurn(signal, async () => (await this.engine.loadLora(files)).dispose());
    return storeAdapter(files, about);
  }

  /** One that is in use is taken out of use first. */
  disposeLora(id, call) {
    return this.#inTurn(call.signal, async () => {
      if (this.used.some((use) => use.id === id)) await this.#use(this.used.filter((use) => use.id !== id));
      await this.loras.get(id)?.dispose();
      this.loras.delete(id);
    });
  }

  setLoras(loras, call) {
    return this.#inTurn(call.signal, () => this.#use(loras));
  }

  async #use(loras) {
    await this.engine.setLoras(loras.map(({id, scale}) => ({lora: this.#lora(id), scale})));
    this.used = loras;
  }

  #lora(id) {
    const lora = this.loras.get(id);
    if (!lora) throw new TernError('INVALID_ARGUMENT', 'this adapter has been disposed of');
    return lora;
  }

  finetune(text, options, call) {
    return this.#inTurn(call.signal, () =>
      this.engine.finetune(text, {...options, signal: call.signal, onStep: (step) => call.emit('step', step)})
    );
  }

  /** What the room for experts holds, and how often they were there. */
  experts() {
    return this.#guard(() => this.engine.experts);
  }

  measureBandwidth(call) {
    return this.#inTurn(call.signal, () => this.engine.measureBandwidth());
  }

  startProfile(call) {
    return this.#inTurn(call.signal, async () => this.engine.startProfile());
  }

  stopProfile(call) {
    return this.#inTurn(call.signal, () => this.engine.stopProfile());
  }

  /** Frees the module, its threads and the device. */
  async dispose() {
    const {engine, core, gpu, shards} = this;
    this.engine = this.core = this.gpu = null;
    this.loras.clear();
    try {
      await shards?.forgotten;
      engine?.dispose();
      core?.dispose();
    } finally {
      gpu?.destroy();
    }
  }
}

/** An error of reading a model, with the name of its file. */
function named(error, [name, ...parts]) {
  const {code, message} = errorToWire(error);
  const told = code === 'CANCELLED' || !name || [name, ...parts].some((each) => message.includes(each));
  return told ? error : new TernError(code, `${name}: ${message}`, {cause: error});
}

const allThere = (name) => ({
  code: 'UNSUPPORTED',
  message: `experts: ${name} is no package by expert (tern package makes one): all of it is in memory`,
  about: 'experts'
});

/** What does when not all experts fit. */
function advised(error) {
  if (error?.code !== 'OUT_OF_MEMORY') return error;
  const message = `${error.message}; fewer experts in memory, as {experts: "1G"}, take less`;
  return new TernError('OUT_OF_MEMORY', message, {cause: error});
}

/** Resolves when the signal is aborted. */
function aborted(signal) {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    signal.addEventListener('abort', () => resolve(undefined), {once: true});
  });
}

/** What is left after an abort is dropped. */
async function pump(pieces, call) {
  for (;;) {
    const {done, value} = await pieces.next();
    if (done) return value;
    if (!call.signal.aborted) await call.push(value);
  }
}

const prepare = (total) => ({phase: 'prepare', loaded: total, total, stored: 0, rate: 0, secondsLeft: 0});
