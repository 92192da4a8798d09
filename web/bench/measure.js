/** How fast an engine reads a prompt and decodes: in a browser's worker or under Node. */

const WARM_UP = 16;

/** The engine's session with so many steps at a time. */
function reopen(engine, {contextLength, steps}) {
  const {core} = engine, json = JSON.stringify({contextLength, steps});
  core.call('session_close', engine.session);
  engine.session = core.memory.withString(json, (at) => core.open('session_open', engine.handle, at));
}

function promptOf(engine, {prompt, promptTokens}) {
  if (promptTokens) return Array.from({length: promptTokens}, (_, i) => 1 + ((i * 7) % 59)); // ids that all models have
  try {
    const ids = engine.tokenize(prompt, {bos: true});
    if (ids.length) return ids;
  } catch (error) {
    if (error.code !== 'UNSUPPORTED' && error.code !== 'NOT_FOUND' && error.code !== 'INVALID_ARGUMENT') throw error;
  }
  return [1, 2, 3, 4];
}

async function generate(engine, prompt, maxTokens) {
  engine.core.call('session_truncate', engine.session, 0);
  const stream = engine.generate(prompt, {maxTokens, temperature: 0, ignoreEos: true}), ids = [];
  for (;;) {
    const {value, done} = await stream.next();
    if (done) return {ids, result: value};
    ids.push(value.id);
  }
}

/** One run: rates, and what a token took of the device. */
async function once(engine, prompt, tokens) {
  const before = engine.counters, {ids, result} = await generate(engine, prompt, tokens), after = engine.counters;
  const perRun = (name) => (after[name] - before[name]) / Math.max(1, after.runs - before.runs);
  return {
    tokensPerSecond: result.tokensPerSecond,
    prefillTokensPerSecond: result.prefillMs > 0 ? (1000 * prompt.length) / result.prefillMs : null,
    dispatches: Math.round(perRun('dispatches')),
    submits: perRun('submits'),
    bytesPerToken: result.bytesPerToken,
    ids,
  };
}

/**
 * The best of the runs.
 * @param {import('../lib/engine.js').Engine} engine
 * @param {{steps: number, tokens: number, repeat: number, prompt: string, promptTokens?: number,
 *   contextLength: number}} options
 * @param {(line: string) => void} say
 */
export async function measure(engine, options, say = () => {}) {
  reopen(engine, options);
  const prompt = promptOf(engine, options), warmUp = Math.min(WARM_UP, options.tokens);
  const start = performance.now();
  await generate(engine, prompt, warmUp);
  say(`warm-up     ${warmUp} tokens in ${((performance.now() - start) / 1000).toFixed(2)} s, pipelines made`);
  let best = null, prefill = 0;
  for (let i = 0; i < options.repeat; i++) {
    const run = await once(engine, prompt, options.tokens);
    const rates = `${run.tokensPerSecond.toFixed(1)} tokens/s, prompt ${run.prefillTokensPerSecond?.toFixed(1)}`;
    const counts = `${run.dispatches} dispatches and ${run.submits.toFixed(3)} submits a token`;
    say(`run ${i + 1}       ${rates}, ${counts}`);
    if (!best || run.tokensPerSecond > best.tokensPerSecond) best = run;
    prefill = Math.max(prefill, run.prefillTokensPerSecond ?? 0);
  }
  best.prefillTokensPerSecond = prefill || null;
  best.bandwidth = await engine.measureBandwidth(1);
  best.share = best.bandwidth ? (best.bytesPerToken * best.tokensPerSecond) / best.bandwidth : null;
  return best;
}
