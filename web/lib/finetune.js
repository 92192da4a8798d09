/** Fine-tuning a LoRA adapter on a text, step by step, with turns for the event loop in between (experimental). */
import {turn} from './generation.js';
import {throwIfAborted} from './errors.js';

function openTuning(engine, text, options) {
  const {core} = engine, {memory} = core, json = JSON.stringify(options);
  return memory.withString(text, (at, n) => memory.withString(json, (settings) =>
    core.open('tuning_open', engine.handle, at, n, settings)));
}

async function takeSteps(core, handle, {signal, onStep}) {
  const n = core.call('tuning_n_steps', handle);
  for (let i = 0; i < n; i++) {
    await turn();
    if (i > 0 && signal?.aborted) return;
    throwIfAborted(signal, 'fine-tuning');
    await core.settle('tuning_step', handle);
    onStep?.(JSON.parse(core.memory.string(core.call('result'))));
  }
}

async function takeAdapter(core, handle) {
  await core.settle('tuning_adapter', handle);
  return core.memory.bytes(core.call('tuning_bytes', handle), core.call('tuning_n_bytes', handle));
}

/**
 * The adapter as a GGUF file. An aborted signal ends it after the step under way, with what it has learned until then.
 * @param {import('./engine.js').Engine} engine @param {string} text
 * @param {import('./index.js').FinetuneOptions} [options]
 * @returns {Promise<Uint8Array>}
 */
export async function finetune(engine, text, {signal, onStep, ...options} = {}) {
  engine.needIdle();
  const {core} = engine;
  throwIfAborted(signal, 'fine-tuning');
  engine.busy = true;
  let handle = 0;
  try {
    handle = openTuning(engine, text, options);
    await takeSteps(core, handle, {signal, onStep});
    return await takeAdapter(core, handle);
  } finally {
    if (handle && !core.stopped) core.call('tuning_close', handle);
    engine.busy = false;
  }
}
