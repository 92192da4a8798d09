/** Generating text step by step, with turns for the event loop in between. */
import {TernError} from './errors.js';

const TURN_MS = 8;

/** Lets messages and timers come in. */
export const turn = typeof setImmediate === 'function' ? () => new Promise((done) => setImmediate(done)) : () => {
  const {port1, port2} = new MessageChannel();
  return new Promise((done) => {
    port1.onmessage = () => {
      port1.close();
      done();
    };
    port2.postMessage(null);
  });
};

/** Of a piece's logprobs: its own, then those of the highest; a model without a tokenizer has no texts for them. */
function logprobsOf(engine, at, n) {
  const {memory} = engine.core, ids = memory.ints(at, 2 * n), values = memory.floats(at, 2 * n);
  const all = Array.from({length: n}, (_, i) => ({id: ids[2 * i], logprob: values[2 * i + 1]}));
  const text = (id) => engine.model.hasTokenizer ? engine.detokenize([id], {special: true}) : '';
  const [own, ...top] = all.map((each) => ({...each, token: text(each.id)}));
  return {logprob: own.logprob, token: own.token, top};
}

/**
 * The pieces since the last step; nLogprobs of each, 0: none.
 * @returns {import('./index.js').Piece[]}
 */
function takePieces(engine, handle, nLogprobs) {
  const {core} = engine, {memory} = core, at = core.call('generation_take', handle) >>> 0;
  const n = memory.getU32(at), ids = memory.ints(memory.getU32(at + 4), n);
  const ends = memory.ints(memory.getU32(at + 8), n);
  const text = memory.getU32(at + 12), logprobs = memory.getU32(at + 16);
  return Array.from(ids, (id, i) => {
    const start = i ? ends[i - 1] : 0;
    const piece = {id, text: memory.text(text + start, ends[i] - start)};
    if (nLogprobs === 0 || id < 0) return piece;
    return {...piece, ...logprobsOf(engine, logprobs + 8 * nLogprobs * i, nLogprobs)};
  });
}

/** true: it has ended. */
async function step(core, handle) {
  if (core.try('generation_step', handle, core.scratch)) return core.memory.getU32(core.scratch) !== 0;
  await core.idle();
  return false;
}

function resultOf(engine, handle) {
  const result = engine.core.ask('generation_result', handle);
  const {bandwidth} = engine;
  result.bandwidthShare = bandwidth ? (result.bytesPerToken * result.tokensPerSecond) / bandwidth : null;
  return result;
}

const randomSeed = () => crypto.getRandomValues(new Uint32Array(1))[0];

/** What the core takes: a seed, where none is given another one each time, and a schema as text. */
function settingsOf({seed = randomSeed(), grammar, ...options}) {
  const source = typeof grammar?.source === 'object' ? JSON.stringify(grammar.source) : grammar?.source;
  return JSON.stringify({...options, seed, ...(grammar ? {grammar: {...grammar, source}} : {})});
}

function openGeneration(engine, ids, options) {
  const {core} = engine, {memory} = core, json = settingsOf(options);
  if (!Array.isArray(ids) && !ArrayBuffer.isView(ids)) {
    throw new TernError('INVALID_ARGUMENT', 'prompt: text or token ids expected');
  }
  return memory.withInts(ids, (at, n) => memory.withString(json, (settings) =>
    core.open('generation_open', engine.session, at, n, settings)));
}

/** @param {import('./engine.js').Engine} engine @param {number[]} ids */
export async function* generate(engine, ids, {signal, ...options} = {}) {
  engine.needIdle();
  const {core} = engine, handle = openGeneration(engine, ids, options);
  const nLogprobs = options.logprobs ? 1 + Math.min(options.topLogprobs ?? 0, engine.model.vocabulary) : 0;
  let turnedAt = performance.now();
  engine.busy = true;
  try {
    for (let done = false; !done;) {
      if (signal?.aborted) core.call('generation_stop', handle);
      done = await step(core, handle);
      yield* takePieces(engine, handle, nLogprobs);
      if (!done && performance.now() - turnedAt > TURN_MS) {
        await turn();
        turnedAt = performance.now();
      }
    }
    return resultOf(engine, handle);
  } finally {
    if (!core.stopped) core.call('generation_close', handle);
    engine.busy = false;
  }
}
