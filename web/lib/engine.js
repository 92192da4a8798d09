/** One opened model: text, its session, generating. Made by Core.load. */
import {TernError, throwIfAborted} from './errors.js';
import {finetune} from './finetune.js';
import {generate} from './generation.js';
import {Lora, loadLora} from './lora.js';
import {chatWithTools} from './tools.js';

/** Flags of tern_engine_tokenize. */
const BOS = 1, SPECIAL = 2;
const POOLINGS = ['last', 'mean', 'cls'];
/** Tokens of a step of an embedding whose states all count. */
const MEAN_TOKENS = 16;

export class Engine {
  static async create(core, handle, about) {
    const engine = new Engine(core, handle, about);
    try {
      const {contextLength, kv} = about;
      engine.session = engine.#openSession({contextLength: contextLength || null, kv});
    } catch (error) {
      if (!core.stopped) core.call('engine_close', handle);
      throw error;
    }
    await core.gpu?.idle();
    return engine;
  }

  constructor(core, handle, {memory, backend, source = 0}) {
    this.core = core;
    this.handle = handle;
    /** @type {import('./index.js').ModelInfo} */
    this.model = core.ask('engine_describe', handle);
    /** @type {import('./index.js').MemoryPlan} */
    this.memory = memory;
    this.backend = backend;
    /** Of its experts, where they are not all in memory. */
    this.source = source;
    /** Bytes a second, once measured. @type {number | null} */
    this.bandwidth = null;
    this.busy = false;
    /** @type {Set<Lora>} */
    this.loras = new Set();
    /** Those that the session uses. @type {{lora: Lora, scale?: number}[]} */
    this.uses = [];
  }

  #openSession(options) {
    return this.core.memory.withString(JSON.stringify(options), (at) =>
      this.core.open('session_open', this.handle, at));
  }

  get contextLength() {
    return this.core.call('session_n_ctx', this.session);
  }

  #tokens() {
    return [...this.core.memory.ints(this.core.call('tokens'), this.core.call('n_tokens'))];
  }

  /** @param {string} text @param {{bos?: boolean, special?: boolean}} [options] @returns {number[]} */
  tokenize(text, {bos = false, special = false} = {}) {
    const how = (bos ? BOS : 0) | (special ? SPECIAL : 0);
    this.core.memory.withString(text, (at, n) => this.core.try('tokenize', this.handle, at, n, how));
    return this.#tokens();
  }

  /** @param {number[]} ids @param {{special?: boolean}} [options] */
  detokenize(ids, {special = false} = {}) {
    this.core.memory.withInts(ids, (at, n) => this.core.try('detokenize', this.handle, at, n, special ? 1 : 0));
    return this.core.memory.text(this.core.call('text'), this.core.call('text_bytes'));
  }

  /**
   * The conversation as the model's chat template renders it.
   * @param {import('./index.js').Message[]} messages @param {import('./index.js').Tool[]} [tools]
   */
  chatPrompt(messages, tools) {
    const variables = JSON.stringify({messages, add_generation_prompt: true, ...(tools?.length ? {tools} : {})});
    this.core.memory.withString(variables, (at) => this.core.try('chat_prompt', this.handle, at));
    return this.#tokens();
  }

  /**
   * One vector for a text, with the adapters of the conversation.
   * @param {string} text
   * @param {{pooling?: 'last' | 'mean' | 'cls', normalize?: boolean, signal?: AbortSignal}} [options]
   * @returns {Promise<{vector: Float32Array, tokens: number}>}
   */
  async embed(text, {pooling = 'last', normalize = true, signal} = {}) {
    const {core} = this, {memory} = core, n = this.model.embedding;
    const ids = Int32Array.from(this.tokenize(text, {bos: true}));
    const maxOutputs = pooling === 'mean' ? Math.max(1, Math.min(ids.length, MEAN_TOKENS)) : 1;
    const at = memory.allocate(ids.byteLength + 4 * n, 'an embedding'), out = at + ids.byteLength;
    const how = [POOLINGS.indexOf(pooling), normalize ? 1 : 0, out];
    let session = 0;
    try {
      session = this.#openSession({contextLength: ids.length || 1, keepHidden: true, maxOutputs});
      if (this.uses.length) this.#useLoras(session, this.uses);
      await core.gpu?.idle();
      memory.write(at, new Uint8Array(ids.buffer));
      while (!core.try('session_embed', session, at, ids.length, ...how)) {
        await core.idle();
        throwIfAborted(signal, 'embedding');
      }
      return {vector: memory.floats(out, n), tokens: ids.length};
    } finally {
      if (session && !core.stopped) core.call('session_close', session);
      memory.free(at);
    }
  }

  /**
   * Goes on from a text, or from tokens. What the session holds already is not computed again.
   * @param {string | number[]} prompt @param {import('./index.js').GenerateOptions} [options]
   * @returns {AsyncGenerator<import('./index.js').Piece, import('./index.js').Result>} an aborted signal ends it with
   *   the reason "caller"
   */
  generate(prompt, options = {}) {
    const ids = typeof prompt === 'string' ? this.tokenize(prompt, {bos: true, special: true}) : prompt;
    return generate(this, ids, options);
  }

  /**
   * The answer to a conversation; with tools, the calls that it makes are in the result.
   * @param {import('./index.js').Message[]} messages @param {import('./index.js').ChatOptions} [options]
   */
  chat(messages, {tools, toolChoice = 'auto', parallelToolCalls = true, ...options} = {}) {
    if (!tools?.length || toolChoice === 'none') return generate(this, this.chatPrompt(messages), options);
    return chatWithTools(this, messages, {tools, toolChoice, parallelToolCalls, ...options});
  }

  /** Throws while the model is generating. */
  needIdle() {
    if (this.busy) throw new TernError('INVALID_ARGUMENT', 'the model is generating: one thing at a time is expected');
  }

  /** A GGUF adapter, or PEFT's two files. @param {{name: string, bytes: Uint8Array}[]} files */
  async loadLora(files) {
    const lora = loadLora(this, files);
    await this.core.gpu?.idle();
    return lora;
  }

  /**
   * From now on with these adapters and no others; the conversation so far is read anew.
   * @param {{lora: Lora, scale?: number}[]} uses
   */
  async setLoras(uses) {
    this.needIdle();
    this.#useLoras(this.session, uses);
    this.uses = uses;
    await this.core.gpu?.idle();
  }

  #useLoras(session, uses) {
    const {memory} = this.core;
    const handles = new Uint8Array(Int32Array.from(uses, ({lora}) => lora.handle | 0).buffer);
    const scales = new Uint8Array(Float32Array.from(uses, ({scale = 1}) => scale).buffer);
    memory.withBytes(handles, (at) => memory.withBytes(scales, (scaleAt) =>
      this.core.try('session_set_loras', session, at, scaleAt, uses.length)));
  }

  /**
   * A LoRA adapter of this model, as a GGUF file, from a text (experimental).
   * @param {string} text @param {import('./index.js').FinetuneOptions} [options] @returns {Promise<Uint8Array>}
   */
  finetune(text, options = {}) {
    return finetune(this, text, options);
  }

  /** Bytes a second that the device reads, or null. */
  async measureBandwidth(seconds = 0.5) {
    const {core} = this;
    const measured = this.backend === 'webgpu' ? await core.gpu.measureRead(seconds)
      : core.call('engine_measure', this.handle, seconds);
    this.bandwidth = measured > 0 ? measured : null;
    return this.bandwidth;
  }

  /** Times each kernel of the GPU from now on. Errors: UNSUPPORTED (the CPU, a device without timestamps). */
  startProfile() {
    if (this.backend !== 'webgpu')
      throw new TernError('UNSUPPORTED', `backend ${this.backend} has no timestamps: "webgpu" expected`);
    this.core.gpu.startProfile();
  }

  /** Ends that. @returns {Promise<import('./index.js').KernelTime[]>} the longest first */
  async stopProfile() {
    return this.backend === 'webgpu' ? this.core.gpu.stopProfile() : [];
  }

  get counters() {
    return this.core.ask('engine_counters', this.handle);
  }

  /** What the room for experts holds and how often they were there; null: there is none. */
  get experts() {
    const cache = this.core.ask('engine_experts', this.handle);
    return cache && {...cache, ...this.core.experts.counts(this.source)};
  }

  dispose() {
    this.core.experts.remove(this.source);
    if (!this.handle || this.core.stopped) return;
    this.core.call('session_close', this.session);
    this.uses = [];
    for (const lora of this.loras) lora.close();
    this.core.call('engine_close', this.handle);
    this.session = this.handle = 0;
  }
}
