/**
 * Runs ternary language models in this browser, or under Node: on the GPU through WebGPU, or on the CPU as
 * WebAssembly.
 */

/**
 * "bundled", the URL of a GGUF file or of a package's manifest.json, "hf:ORG/NAME[/FILE][:TAG][@REVISION]" (a GGUF file
 * of the Hugging Face hub, chosen as `tern pull` does), a picked file (or all files of a package), the id
 * of a stored model. A package's torrent is a magnet link, or a .torrent by its address or picked: its shards come from
 * web seeds and from other pages. Of a GGUF file in parts (NAME-00001-of-00003.gguf) any part's address stands for all, which lie
 * beside it; of picked ones all are given, in any order.
 */
export type Source = 'bundled' | string | URL | File | File[] | {stored: string};

export type ErrorCode =
  | 'INVALID_ARGUMENT'
  | 'OUT_OF_MEMORY'
  | 'IO'
  | 'NOT_FOUND'
  | 'MALFORMED'
  | 'UNSUPPORTED'
  | 'LIMIT'
  | 'CONTEXT_FULL'
  | 'CANCELLED'
  | 'INTERNAL'
  | 'NOT_FINITE' /* the model, or the device, made NaN or infinities of these tokens: the message names the op */
  | 'NETWORK' /* no answer, an HTTP error, fewer bytes than promised */
  | 'CORRUPT' /* a SHA-256 sum that does not match */
  | 'NO_WEBGPU'
  | 'INSECURE_CONTEXT'
  | 'NO_ADAPTER'
  | 'DEVICE_LOST'
  | 'NO_STORAGE';

/** Every failure of this package. `message` names the thing, the value found and the value expected. */
export class TernError extends Error {
  readonly code: ErrorCode;
  constructor(code: ErrorCode, message: string, options?: {cause?: unknown});
}

export interface Progress {
  phase: 'download' | 'read' | 'prepare';
  /** Bytes done and in all; `stored` of them came from OPFS. */
  loaded: number;
  total: number;
  stored: number;
  /** Bytes a second over the last seconds, and seconds left. */
  rate: number;
  secondsLeft: number;
}

/**
 * Something that went another way than one might expect, and on. `about`: "backend" for the choice of the CPU instead
 * of the GPU, "experts" for an option `experts` that makes no difference.
 */
export interface Notice {
  code: ErrorCode | 'BUSY' | 'CHANGED';
  message: string;
  about?: 'backend' | 'experts';
}

export interface LoadOptions {
  /** "auto": WebGPU where there is an adapter, else the CPU; `Tern.backend` says which. */
  backend?: 'auto' | 'webgpu' | 'cpu';
  /** Of the CPU; more than 1 needs a cross-origin isolated page. Default: the cores, or 1. */
  threads?: number;
  /** Positions of the context. Default: the model's, at most 2048. */
  contextLength?: number;
  /**
   * How keys and values of the context are stored: f32 (32 bits a number), f16 (16), q8_0 (8.5) or q4_0 (4.5), the
   * last two for heads of a multiple of 64 numbers on the GPU, 32 on the CPU. "auto", the default: f32 in small
   * contexts, else f16.
   */
  kv?: 'auto' | 'f16' | 'f32' | 'q8_0' | 'q4_0';
  /**
   * What layers multiply. "auto", the default: 8 bits in ternary layers, which BitNet models were trained with; on the
   * CPU also 8 bits by blocks in layers in block encodings (q8_0, q4_k, ...), which is many times as fast there; f32 in
   * all others. "f32": everywhere, the same numbers on CPU and GPU, and for models that were trained without 8-bit
   * activations. "int8": as "auto", but always on the CPU (backend "auto" takes it then). What it came to:
   * model.activations.
   */
  activations?: 'auto' | 'int8' | 'f32';
  /**
   * Of a package by expert (`tern package` of a mixture of experts): how many experts are in memory at once, so many of
   * each layer on an average (5, "5"), or as many as fit into so many bytes ("800M", "3.5G"), or "all", the default. The
   * others stay in OPFS, or where the package is, until a step needs them; the text is the same. Of other models all is
   * in memory, with a notice.
   */
  experts?: number | string;
  /** Keep the model in OPFS. Default true where there is OPFS; picked files are not stored unless asked for. */
  store?: boolean;
  /** Of a torrent: give the stored model to other pages as long as this Tern lives. Default false. */
  seed?: boolean;
  /**
   * Of a torrent: WebTorrent, which finds peers, as its class or the URL of a module that exports it. Default:
   * globalThis.WebTorrent, else vendor/webtorrent.min.js beside the library's folder. Without it web seeds alone are
   * asked, with a notice.
   */
  webtorrent?: (new (...args: any[]) => any) | string | URL;
  /**
   * lib/worker.js of this package, where a bundler that does not know `new Worker(new URL(...))` (esbuild) has put the
   * rest into a file elsewhere. In a browser alone.
   */
  worker?: string | URL;
  onProgress?: (progress: Progress) => void;
  /**
   * The GPU is not used and why ("auto"), the model is not stored and why, it has changed since it was stored, another
   * tab loads it.
   */
  onNotice?: (notice: Notice) => void;
  /** Aborting pauses: what was stored is kept, and the next load of the same source goes on there. */
  signal?: AbortSignal;
  /** A device of your own, or limits to request; for tests of small devices. */
  device?: {
    powerPreference?: 'high-performance' | 'low-power';
    requiredLimits?: Record<string, number>;
    withoutFeatures?: string[];
  };
}

export interface GenerateOptions {
  maxTokens?: number;
  temperature?: number;
  topK?: number;
  topP?: number;
  minP?: number;
  typicalP?: number;
  repetitionPenalty?: number;
  presencePenalty?: number;
  frequencyPenalty?: number;
  penaltyLastN?: number;
  /** The same seed gives the same text. Default: another one each time. */
  seed?: number;
  stop?: string[];
  /** Added to the logits of these ids; -Infinity does not fit into JSON, -1000 bans as well. */
  logitBias?: Record<number, number>;
  /** Each piece has its log-probability, and those of the topLogprobs (at most 20) highest. */
  logprobs?: boolean;
  topLogprobs?: number;
  /** What the text must look like: a JSON Schema, any JSON object, a GBNF grammar as llama.cpp's, a regular expression. */
  grammar?: {kind: 'schema' | 'json' | 'gbnf' | 'regex'; source: string | object};
  signal?: AbortSignal;
}

/** As in OpenAI's requests. */
export interface Tool {
  type: 'function';
  function: {name: string; description?: string; parameters?: object};
}

export interface ToolCall {
  id: string;
  name: string;
  /** JSON text: an object. */
  arguments: string;
}

export interface ChatOptions extends GenerateOptions {
  /** Told to the model by its chat template, which must know tools (ModelInfo.hasTools), else UNSUPPORTED. */
  tools?: Tool[];
  /** "required", or one by its name: the model can write nothing but calls. */
  toolChoice?: 'auto' | 'none' | 'required' | {name: string};
  parallelToolCalls?: boolean;
}

/**
 * "developer" is OpenAI's newer word for "system". What else a message holds (tool_calls, tool_call_id, name) reaches
 * the chat template as it is.
 */
export type Message =
  | {role: 'system' | 'developer' | 'user'; content: string; name?: string}
  | {
      role: 'assistant';
      content: string | null;
      tool_calls?: {id?: string; type?: 'function'; function: {name: string; arguments: string | object}}[];
    }
  | {role: 'tool'; content: string; tool_call_id?: string; name?: string};

export interface Piece {
  text: string;
  /** -1: text that was held back until the end; no token. */
  id: number;
  /** With logprobs: the token, its log-probability, and the highest ones. */
  token?: string;
  logprob?: number;
  top?: {id: number; token: string; logprob: number}[];
}

export interface Result {
  reason: 'end token' | 'stop string' | 'length' | 'context full' | 'caller';
  promptTokens: number;
  /** Of the prompt, those that were evaluated already. */
  reusedTokens: number;
  tokens: number;
  /** Tokens that the device last chose in one run, without a wait between them; 0: the host chose each. */
  steps: number;
  prefillMs: number;
  decodeMs: number;
  tokensPerSecond: number;
  /**
   * Bytes of weights read for a token, and which share of the device's measured bandwidth that was (null: not
   * measured).
   */
  bytesPerToken: number;
  bandwidthShare: number | null;
  /** Of a chat with tools. */
  toolCalls?: ToolCall[];
}

/**
 * for await (const piece of stream) ...; await stream.result. Generation begins when the stream is read, runs at most a
 * few pieces ahead of the reader (to its end while another call waits for the model), and stops when the loop is left
 * or the signal is aborted: the result then has the reason "caller". `result` alone reads it through. `text()` is whole
 * or an error: CANCELLED where the signal was aborted.
 */
export interface TextStream extends AsyncIterable<Piece> {
  readonly result: Promise<Result>;
  text(): Promise<string>;
}

export interface ModelInfo {
  name: string;
  architecture: string;
  parameters: number;
  bytes: number;
  contextLength: number;
  trainedContextLength: number;
  layers: number;
  embedding: number;
  vocabulary: number;
  hasChatTemplate: boolean;
  /** Whether its template tells the model which tools there are. */
  hasTools: boolean;
  hasTokenizer: boolean;
  /** What its layers multiply here: "int8", if any of them does, or "f32". */
  activations: 'int8' | 'f32';
}

/** What the device is and what the model takes of it, in bytes. */
export interface DeviceInfo {
  backend: 'webgpu' | 'cpu';
  vendor: string;
  architecture: string;
  description: string;
  features: string[];
  limits: Record<string, number>;
  threads: number;
  crossOriginIsolated: boolean;
  /** Bytes a second, measured on this device; null before measureBandwidth(). */
  bandwidth: number | null;
}
export interface MemoryPlan {
  weights: number;
  cache: number;
  activations: number;
  total: number;
  largestBuffer: number;
}

/** Experts of a model of which not all need be in memory. */
export interface ExpertCache {
  /** In all and in memory, of all layers, and their bytes. */
  experts: number;
  held: number;
  bytes: number;
  heldBytes: number;
  /** How often an expert that a layer of a step needed was there, or had to be brought. */
  hits: number;
  misses: number;
  /** Brought before a layer needed them. */
  prefetched: number;
  /** Those that made way for others. */
  evictions: number;
  copiedBytes: number;
  /** Of those that were brought: from OPFS, from where the package is, and the bytes of these. */
  stored: number;
  fetched: number;
  fetchedBytes: number;
}

/** A kernel of the GPU: how often it ran, and how long in all. */
export interface KernelTime {
  kernel: string;
  n: number;
  ms: number;
}

export interface Lora {
  readonly rank: number;
  readonly parameters: number;
  dispose(): Promise<void>;
}

export interface LoraOptions {
  webtorrent?: LoadOptions['webtorrent'];
  signal?: AbortSignal;
}

export type AdapterSource = string | URL | File | File[] | Uint8Array | {stored: string};

export interface StoredModel {
  id: string;
  name: string;
  source: string;
  bytes: number;
  complete: boolean;
  stored: number;
  usedAt: Date;
}

/** An adapter in OPFS; `name` is what it is loaded and deleted by. */
export interface StoredAdapter {
  id: string;
  name: string;
  /** The URL, magnet link or "file:..." that it came from; "memory": bytes. */
  source: string;
  bytes: number;
  /** False: storing it was interrupted, or a file of it turned out to be damaged. */
  complete: boolean;
  files: {name: string; bytes: number; sha256: string | null}[];
  usedAt: Date;
}

export interface FinetuneStep {
  step: number;
  steps: number;
  /** Of the step's tokens, before its update. */
  loss: number;
  norm: number;
  /** Over rows held out (of texts with 20 rows or more), now and then and after the last step; else null. */
  validationLoss: number | null;
  tokensPerSecond: number;
}

export interface FinetuneOptions {
  rank?: number;
  alpha?: number;
  learningRate?: number;
  steps?: number;
  batch?: number;
  sequence?: number;
  /** Of the first values of the adapter and the order of the text. Default 1, as of tern finetune. */
  seed?: number;
  onStep?: (step: FinetuneStep) => void;
  signal?: AbortSignal;
}

interface TextPart {
  type: 'text';
  text: string;
}
type InParts<M> = M extends {content: any} ? Omit<M, 'content'> & {content: M['content'] | TextPart[]} : never;

/** OpenAI's parameters, of which null says nothing; others are an error. Sampling not given is that of tern.chat. */
export interface CompletionRequest {
  messages: InParts<Message>[];
  model?: string;
  stream?: boolean | null;
  stream_options?: {include_usage?: boolean} | null;
  max_tokens?: number | null;
  max_completion_tokens?: number | null;
  temperature?: number | null;
  top_p?: number | null;
  n?: number | null;
  seed?: number | null;
  stop?: string | string[] | null;
  presence_penalty?: number | null;
  frequency_penalty?: number | null;
  logprobs?: boolean | null;
  top_logprobs?: number | null;
  logit_bias?: Record<string, number> | null;
  response_format?:
    | {type: 'text'}
    | {type: 'json_object'}
    | {type: 'json_schema'; json_schema: {name?: string; schema?: object; strict?: boolean | null}};
  tools?: Tool[];
  tool_choice?: 'auto' | 'none' | 'required' | {type: 'function'; function: {name: string}};
  parallel_tool_calls?: boolean;
  user?: string;
}

export interface CompletionLogprob {
  token: string;
  logprob: number;
  bytes: number[];
  top_logprobs?: CompletionLogprob[];
}

export type FinishReason = 'stop' | 'length' | 'tool_calls';

export interface CompletionToolCall {
  id: string;
  type: 'function';
  function: {name: string; arguments: string};
}

export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
}

export interface Completion {
  id: string;
  object: 'chat.completion';
  created: number;
  model: string;
  choices: {
    index: number;
    message: {role: 'assistant'; content: string | null; tool_calls?: CompletionToolCall[]};
    logprobs: {content: CompletionLogprob[]} | null;
    finish_reason: FinishReason;
  }[];
  usage: Usage;
}

export interface CompletionChunk {
  id: string;
  object: 'chat.completion.chunk';
  created: number;
  model: string;
  choices: {
    index: number;
    delta: {role?: 'assistant'; content?: string; tool_calls?: (CompletionToolCall & {index: number})[]};
    logprobs: {content: CompletionLogprob[]} | null;
    finish_reason: FinishReason | null;
  }[];
  usage?: Usage | null;
}

/** Of a model that came by BitTorrent: bytes by who gave them, and what was given. */
export interface TorrentInfo {
  infoHash: string;
  name: string;
  magnet: string;
  peers: number;
  fromPeers: number;
  fromWebSeeds: number;
  uploaded: number;
  seeding: boolean;
}

export class Tern {
  static load(source: Source, options?: LoadOptions): Promise<Tern>;
  /** Models in OPFS. */
  static readonly storage: {
    list(): Promise<StoredModel[]>;
    delete(id: string): Promise<void>;
    estimate(): Promise<{usage: number; quota: number}>;
  };
  /** LoRA adapters in OPFS, that tern.storeLora has put there. */
  static readonly adapters: {
    list(): Promise<StoredAdapter[]>;
    delete(name: string): Promise<void>;
  };
  /** What this browser offers, without loading anything: never throws. */
  static probe(): Promise<{
    /** Whether Tern.load works here: not in service workers, where no worker can be made. */
    supported: boolean;
    webgpu: boolean;
    reason?: ErrorCode;
    message?: string;
    device?: DeviceInfo;
    threads: number;
    storage: boolean;
  }>;
  readonly backend: 'webgpu' | 'cpu';
  readonly model: ModelInfo;
  readonly device: DeviceInfo;
  readonly memory: MemoryPlan;
  /** What onNotice got while loading, and of it what says why the CPU was chosen. */
  readonly notices: Notice[];
  readonly notice: Notice | null;
  /** The id in Tern.storage, or null. */
  readonly storedAs: string | null;
  /** As it is now; null: the model has not come by a torrent. */
  readonly torrent: TorrentInfo | null;
  /** Begins to give the stored model to other pages, or ends it. NO_STORAGE where it is not stored whole. */
  setSeeding(on: boolean): Promise<void>;
  generate(prompt: string, options?: GenerateOptions): TextStream;
  /** The conversation so far; what it shares with the last one is not computed again. */
  readonly chat: ((messages: Message[], options?: ChatOptions) => TextStream) & {
    /** OpenAI's chat.completions, over this model. An aborted signal is CANCELLED, also while chunks come. */
    readonly completions: {
      create(
        request: CompletionRequest & {stream: true},
        options?: {signal?: AbortSignal}
      ): Promise<AsyncIterable<CompletionChunk>>;
      create(
        request: CompletionRequest & {stream?: false | null},
        options?: {signal?: AbortSignal}
      ): Promise<Completion>;
      create(
        request: CompletionRequest,
        options?: {signal?: AbortSignal}
      ): Promise<Completion | AsyncIterable<CompletionChunk>>;
    };
  };
  /** OpenAI's embeddings, over this model. */
  readonly embeddings: {
    create(
      request: {input: string | string[]; model?: string; encoding_format?: 'float'},
      options?: {signal?: AbortSignal}
    ): Promise<{
      object: 'list';
      model: string;
      data: {object: 'embedding'; index: number; embedding: number[]}[];
      usage: {prompt_tokens: number; total_tokens: number};
    }>;
  };
  /** One vector for each text: its hidden states after the last norm, pooled; with the adapters that are set. */
  embed(
    texts: string | string[],
    options?: {pooling?: 'last' | 'mean' | 'cls'; normalize?: boolean; signal?: AbortSignal}
  ): Promise<{vector: Float32Array; tokens: number}[]>;
  tokenize(text: string, options?: {bos?: boolean; special?: boolean}): Promise<number[]>;
  detokenize(ids: number[], options?: {special?: boolean}): Promise<string>;
  /**
   * A GGUF adapter, or adapter_config.json and adapter_model.safetensors; a stored one by its name; or the package of
   * either (tern package): by the URL of its manifest.json, all of its files picked, or its torrent as of a model.
   * `webtorrent` as for Tern.load.
   */
  loadLora(source: AdapterSource, options?: LoraOptions): Promise<Lora>;
  /**
   * Keeps an adapter of this model in OPFS, with its SHA-256, for loadLora({stored: name}). `name` is the file's, or the
   * torrent's, where none is given; bytes need one. Another adapter of that name is an error (INVALID_ARGUMENT).
   */
  storeLora(source: AdapterSource, options?: {name?: string} & LoraOptions): Promise<StoredAdapter>;
  /** From now on with these adapters and no others. */
  setLoras(loras: {lora: Lora; scale?: number}[]): Promise<void>;
  /**
   * Experimental: LoRA on this model with this text; the adapter as a GGUF file. An aborted signal ends it after the
   * step under way with what it has learned; before the first step it fails with CANCELLED.
   */
  finetune(text: string, options?: FinetuneOptions): Promise<Uint8Array>;
  /** What the room for experts holds, and how often they were there; null: the model is no package by expert. */
  experts(): Promise<ExpertCache | null>;
  measureBandwidth(): Promise<number | null>;
  /**
   * Times each kernel of the GPU until stopProfile(), which gives the times, the longest first. UNSUPPORTED on the CPU
   * and on devices without the feature timestamp-query. Meanwhile each dispatch has a pass of its own: all is slower.
   */
  startProfile(): Promise<void>;
  stopProfile(): Promise<KernelTime[]>;
  /** Resolves with a message when the device is lost; this Tern is of no use then. */
  readonly lost: Promise<string>;
  dispose(): Promise<void>;
}
export const version: string;
