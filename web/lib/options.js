/** Options as people write them: unknown names and wrong types are errors that say what was expected. */

import {TernError} from './errors.js';

const is = {
  number: (value) => typeof value === 'number' && Number.isFinite(value),
  count: (value) => Number.isInteger(value) && value > 0,
  size: (value) => is.count(value) || (is.string(value) && /^(all|\d+|\d+(\.\d+)?[KMGT])$/.test(value)),
  string: (value) => typeof value === 'string',
  strings: (value) => Array.isArray(value) && value.every((each) => typeof each === 'string'),
  boolean: (value) => typeof value === 'boolean',
  address: (value) => value instanceof URL || (is.string(value) && value !== ''),
  library: (value) => typeof value === 'function' || is.address(value),
  function: (value) => typeof value === 'function',
  signal: (value) => typeof value?.addEventListener === 'function' && typeof value.aborted === 'boolean',
  object: (value) => typeof value === 'object' && value !== null,
  list: (value) => Array.isArray(value),
  choice: (value) => ['auto', 'none', 'required'].includes(value) || typeof value?.name === 'string'
};
const WORDS = {
  number: 'a finite number',
  count: 'a whole number above 0',
  size: 'a number for each layer, bytes ("800M", "3.5G") or "all"',
  string: 'a text',
  strings: 'a list of texts',
  boolean: 'true or false',
  address: 'a URL',
  library: 'a class, or the URL of a module that exports it',
  function: 'a function',
  signal: 'an AbortSignal',
  object: 'an object',
  list: 'a list',
  choice: '"auto", "none", "required" or {name}'
};

/** In the order of tern_kv_type. */
export const KV_TYPES = ['auto', 'f16', 'f32', 'q8_0', 'q4_0'];

export const LOAD = {
  backend: ['auto', 'webgpu', 'cpu'],
  threads: 'count',
  activations: ['auto', 'int8', 'f32'],
  contextLength: 'count',
  kv: KV_TYPES,
  experts: 'size',
  store: 'boolean',
  seed: 'boolean',
  webtorrent: 'library',
  worker: 'address',
  onProgress: 'function',
  onNotice: 'function',
  signal: 'signal',
  device: 'object'
};
export const GENERATE = {
  maxTokens: 'count',
  temperature: 'number',
  topK: 'number',
  topP: 'number',
  minP: 'number',
  typicalP: 'number',
  repetitionPenalty: 'number',
  presencePenalty: 'number',
  frequencyPenalty: 'number',
  penaltyLastN: 'number',
  seed: 'number',
  stop: 'strings',
  logitBias: 'object',
  logprobs: 'boolean',
  topLogprobs: 'number',
  grammar: 'object',
  signal: 'signal'
};
export const CHAT = {...GENERATE, tools: 'list', toolChoice: 'choice', parallelToolCalls: 'boolean'};
export const EMBED = {pooling: ['last', 'mean', 'cls'], normalize: 'boolean', signal: 'signal'};
export const FINETUNE = {
  rank: 'count',
  alpha: 'number',
  learningRate: 'number',
  steps: 'count',
  batch: 'count',
  sequence: 'count',
  seed: 'number',
  onStep: 'function',
  signal: 'signal'
};
export const LORA = {webtorrent: 'library', signal: 'signal'};
export const STORE_LORA = {name: 'string', ...LORA};
export const TOKENIZE = {bos: 'boolean', special: 'boolean'};
export const DETOKENIZE = {special: 'boolean'};

/**
 * The options that are set. Errors: INVALID_ARGUMENT.
 * @param {any} options @param {Record<string, string | string[]>} known @param {string} where for messages
 */
export function checkOptions(options, known, where) {
  if (!is.object(options))
    throw new TernError('INVALID_ARGUMENT', `${where}: options are ${show(options)}, expected an object`);
  const set = {};
  for (const [name, value] of Object.entries(options)) {
    const kind = Object.hasOwn(known, name) ? known[name] : null;
    if (!kind)
      throw new TernError(
        'INVALID_ARGUMENT',
        `${where}: there is no option "${name}", expected ${Object.keys(known).join(', ')}`
      );
    if (value === undefined) continue;
    const right = Array.isArray(kind) ? kind.includes(value) : is[kind](value);
    if (!right) {
      const expected = Array.isArray(kind) ? kind.map((each) => `"${each}"`).join(' or ') : WORDS[kind];
      throw new TernError('INVALID_ARGUMENT', `${where}: ${name} is ${show(value)}, expected ${expected}`);
    }
    set[name] = value;
  }
  return set;
}

export function checkText(text, where) {
  if (typeof text !== 'string') throw new TernError('INVALID_ARGUMENT', `${where} is ${show(text)}, expected a text`);
  return text;
}

const ROLES = ['system', 'user', 'assistant', 'tool'];
/** OpenAI's newer word for "system", which templates do not know. */
const DEVELOPER = 'developer';

/** @param {any} messages @returns {import('./index.js').Message[]} */
export function checkMessages(messages) {
  if (!Array.isArray(messages) || messages.length === 0) {
    throw new TernError(
      'INVALID_ARGUMENT',
      `messages are ${show(messages)}, expected a list of {role, content} that is not empty`
    );
  }
  return messages.map((message, i) => {
    const {role: given, content, ...rest} = message ?? {};
    const role = given === DEVELOPER ? 'system' : given;
    if (!ROLES.includes(role)) {
      throw new TernError(
        'INVALID_ARGUMENT',
        `messages[${i}].role is ${show(role)}, expected "system", "user", "assistant" or "tool"`
      );
    }
    const calls = Array.isArray(rest.tool_calls) && rest.tool_calls.length > 0;
    return {role, content: checkText(calls ? (content ?? '') : content, `messages[${i}].content`), ...rest};
  });
}

/** @param {any} ids */
export function checkIds(ids) {
  if (
    (!Array.isArray(ids) && !ArrayBuffer.isView(ids)) ||
    !Array.from(/** @type {any} */ (ids)).every(Number.isInteger)
  ) {
    throw new TernError('INVALID_ARGUMENT', `ids are ${show(ids)}, expected a list of whole numbers`);
  }
  return Array.from(/** @type {any} */ (ids));
}

function show(value) {
  if (typeof value === 'function') return 'a function';
  if (typeof value !== 'object' || value === null)
    return typeof value === 'string' ? JSON.stringify(value) : String(value);
  const text =
    JSON.stringify(value, (key, each) => (typeof each === 'number' && !Number.isFinite(each) ? String(each) : each)) ??
    'an object';
  return text.length > 80 ? `${text.slice(0, 77)}...` : text;
}
