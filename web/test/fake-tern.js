/**
 * A double of the library for tests of the page alone: the shape of web/lib/index.d.ts without any model. The test
 * server hands it out as /lib/index.js; the page that is shipped never has it. What it does is steered by words in the
 * source's address and by `globalThis.fake`, which a test sets before the page starts.
 */
export const version = 'double';

const fake = () => globalThis.fake ?? {};
const wait = (ms) => new Promise((done) => setTimeout(done, ms));

export class TernError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

const FAILURES = {
  truncated: ['NETWORK', 'truncated.gguf: 1000 bytes came, 2744320 expected'],
  corrupt: ['CORRUPT', 'shard_001.bin: SHA-256 is 00ff, expected ff00'],
  nomodel: ['MALFORMED', 'nomodel.txt: the first 4 bytes are "Hell", expected "GGUF"'],
  full: ['OUT_OF_MEMORY', 'the GPU has no room for a buffer of 1.05 MB'],
  huge: ['LIMIT', 'the largest tensor takes 5.00 GB, the adapter allows 2.15 GB'],
};

const GPU = {
  backend: 'webgpu',
  vendor: 'acme',
  architecture: 'gen-1',
  description: 'Acme One',
  features: ['shader-f16', 'subgroups'],
  limits: {maxBufferSize: 268435456, maxStorageBufferBindingSize: 134217728},
  threads: 1,
  crossOriginIsolated: true,
  bandwidth: null,
};
const CPU = {
  ...GPU,
  backend: 'cpu',
  vendor: '',
  architecture: 'wasm simd128',
  description: '',
  features: [],
  limits: {},
  threads: 4,
};

let adapters = [];
let stored = [
  {
    id: 'one',
    name: 'stories',
    source: 'https://models.example/stories.gguf',
    bytes: 2744320,
    complete: true,
    stored: 2744320,
    usedAt: new Date(0),
  },
];

async function download(source, {signal, onProgress}) {
  const total = 50e6;
  const done = Number(sessionStorage.getItem('fake-done') ?? 0);
  for (let loaded = done; loaded <= total; loaded += 5e6) {
    if (signal?.aborted) {
      if (String(source).includes('part')) stored.push({...stored[0], id: 'part', name: 'half of it', complete: false});
      throw new TernError('CANCELLED', 'aborted');
    }
    sessionStorage.setItem('fake-done', String(loaded));
    onProgress?.({phase: 'download', loaded, total, stored: done, rate: 25e6, secondsLeft: (total - loaded) / 25e6});
    await wait(String(source).includes('slow') ? 150 : 2);
  }
}

export class Tern {
  static async probe() {
    const code = fake().probe;
    if (code) return {webgpu: false, reason: code, message: `the double has none (${code})`, threads: 4, storage: true};
    return {webgpu: true, device: GPU, threads: 4, storage: true};
  }

  static storage = {
    list: async () => [...stored],
    delete: async (id) => {
      stored = stored.filter((model) => model.id !== id);
    },
    estimate: async () => ({usage: 2744320, quota: 1e9}),
  };

  static adapters = {
    list: async () => [...adapters],
    delete: async (name) => {
      adapters = adapters.filter((adapter) => adapter.name !== name);
    },
  };

  static async load(source, options = {}) {
    for (const [word, [code, message]] of Object.entries(FAILURES))
      if (String(source?.name ?? source).includes(word)) throw new TernError(code, message);
    (globalThis.loads ??= []).push(String(source).split('/').pop());
    globalThis.lastLoad = {...options, onProgress: undefined, onNotice: undefined, signal: undefined};
    await download(source, options);
    return new Tern(source, options);
  }

  constructor(source, options) {
    const chat = String(source).includes('chat') || fake().chat;
    this.backend = options.backend === 'cpu' || fake().probe ? 'cpu' : 'webgpu';
    this.device = {...(this.backend === 'cpu' ? CPU : GPU)};
    this.model = {
      name: chat ? 'talker' : 'stories',
      architecture: 'bitnet-b1.58',
      parameters: 6.83e6,
      bytes: 2744320,
      contextLength: 1024,
      trainedContextLength: 1024,
      layers: 8,
      embedding: 256,
      vocabulary: 2048,
      hasChatTemplate: Boolean(chat),
      activations: 'int8',
    };
    this.memory = {weights: 2.7e6, cache: 4.2e6, activations: 1e6, total: 7.9e6, largestBuffer: 1.05e6};
    this.lost = new Promise((resolve) => {
      globalThis.loseDevice = () => {
        this.gone = true;
        resolve('the GPU process ended');
      };
    });
    this.loras = [];
    globalThis.fakeTern = this;
  }

  stream(words, options) {
    let settle;
    const result = new Promise((resolve, reject) => {
      settle = {resolve, reject};
    });
    result.catch(() => {});
    const tern = this;
    const most = options.maxTokens ?? 256;
    const counts = (reason, tokens) => ({
      reason,
      promptTokens: 5,
      tokens,
      prefillMs: 12,
      decodeMs: tokens * 10,
      tokensPerSecond: 100,
      bytesPerToken: 2.6e6,
      bandwidthShare: null,
    });
    async function* pieces() {
      let n = 0;
      for (const text of words) {
        if (n >= most) return settle.resolve(counts('length', n));
        await wait(fake().delay ?? 5);
        if (tern.gone) {
          const error = new TernError('DEVICE_LOST', 'the GPU process ended');
          settle.reject(error);
          throw error;
        }
        if (options.signal?.aborted) return settle.resolve(counts('caller', n));
        yield {text, id: n++};
      }
      settle.resolve(counts('end token', n));
    }
    const text = pieces();
    return {result, [Symbol.asyncIterator]: () => text};
  }

  generate(prompt, options = {}) {
    globalThis.lastCall = {prompt, options: {...options, signal: undefined}};
    return this.stream(
      ` ${this.loras.length ? 'adapted ' : ''}there was a bird that flew over the sea .`.split(/(?= )/),
      options,
    );
  }

  chat(messages, options = {}) {
    globalThis.lastCall = {messages, options: {...options, signal: undefined}};
    return this.stream(`Reply ${messages.length} to ${messages.at(-1).content} .`.split(/(?= )/), options);
  }

  async loadLora(source) {
    if (source?.name?.includes('bad')) throw new TernError('MALFORMED', 'bad.gguf: no adapter');
    return {rank: 8, parameters: 12345, dispose: async () => {}};
  }

  async storeLora(source, {name}) {
    if (adapters.some((adapter) => adapter.name === name))
      throw new TernError('INVALID_ARGUMENT', `there is another stored adapter "${name}"`);
    const kept = {id: name, name, source: 'memory', bytes: 12345, complete: true, files: [], usedAt: new Date(0)};
    adapters.push(kept);
    return kept;
  }

  async setLoras(loras) {
    this.loras = loras;
  }

  async finetune(text, {steps = 10, onStep, signal}) {
    if (text.length < 8) throw new TernError('INVALID_ARGUMENT', 'the text has 2 tokens, at least 16 expected');
    for (let step = 1; step <= steps && !signal?.aborted; step++) {
      await wait(3);
      onStep?.({
        step,
        steps,
        loss: 2 + 2 * Math.exp(-step / 20) + 0.1 * Math.sin(step * 7),
        norm: 1,
        tokensPerSecond: 5000,
      });
    }
    return new TextEncoder().encode('GGUF double');
  }

  async experts() {
    return fake().experts ?? null;
  }
  async measureBandwidth() {
    return (this.device.bandwidth = 100e9);
  }
  async startProfile() {}
  async stopProfile() {
    return [];
  }
  async dispose() {}
}
