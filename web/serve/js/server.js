/** A model of the server that this page came from, with what the chat needs of `Tern` (lib/index.js). */

const KEY = 'tern-key';

/** The key that the person gave, for this tab alone. */
export function useKey(key) {
  sessionStorage.setItem(KEY, key);
}

function headers() {
  const key = sessionStorage.getItem(KEY);
  return key ? {authorization: `Bearer ${key}`} : {};
}

const TITLES = {
  KEY: 'This server asks for a key',
  NOT_FOUND: 'The server does not have this',
  BUSY: 'The server has no time',
  REFUSED: 'The server refused',
  SERVER: 'The server does not answer',
};
const failed = (code, message) => Object.assign(new Error(message), {code, title: TITLES[code]});

/** An error as the server says it. */
async function failure(response) {
  const text = await response.text();
  let message = text;
  try {
    const {error} = JSON.parse(text);
    message = error?.message ?? error ?? text;
  } catch {
    /* no document: its text */
  }
  return failed({401: 'KEY', 404: 'NOT_FOUND', 429: 'BUSY', 503: 'BUSY'}[response.status] ?? 'REFUSED', message);
}

/** @param {string} path @param {any} [body] @param {AbortSignal} [signal] @returns {Promise<Response>} */
export async function ask(path, body, signal) {
  const asked = {method: body ? 'POST' : 'GET', headers: headers(), body: body && JSON.stringify(body), signal};
  let response;
  try {
    response = await fetch(path, asked);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw failed('SERVER', String(error?.message ?? error));
  }
  if (!response.ok) throw await failure(response);
  return response;
}

export const json = async (path, body) => (await ask(path, body)).json();

/** The page's options in the server's words. */
function optionsOf(options) {
  return {
    temperature: options.temperature,
    top_p: options.topP,
    min_p: options.minP,
    typical_p: options.typicalP,
    top_k: options.topK,
    num_predict: options.maxTokens,
    repeat_penalty: options.repetitionPenalty,
    presence_penalty: options.presencePenalty,
    frequency_penalty: options.frequencyPenalty,
    repeat_last_n: options.penaltyLastN,
    seed: options.seed,
    stop: options.stop,
  };
}

/** What the last line of a stream says, as the library has it. */
function resultOf(line) {
  const seconds = line.eval_duration / 1e9;
  return {
    tokens: line.eval_count,
    tokensPerSecond: seconds > 0 ? line.eval_count / seconds : 0,
    promptTokens: line.prompt_eval_count,
    prefillMs: line.prompt_eval_duration / 1e6,
    reason: line.done_reason,
  };
}

/** Lines of a stream, parsed. */
async function* lines(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const {done, value} = await reader.read();
    const all = (rest + (value ?? '')).split('\n');
    rest = done ? '' : all.pop();
    for (const line of all) if (line.trim()) yield JSON.parse(line);
    if (done) return;
  }
}

/** Text as it is generated; `result` once it ended. */
class Pieces {
  result;

  constructor(path, body, {signal}) {
    this.path = path;
    this.body = body;
    this.signal = signal;
  }

  async *[Symbol.asyncIterator]() {
    for await (const line of lines(await ask(this.path, this.body, this.signal))) {
      if (line.error) throw failed('REFUSED', line.error);
      const text = line.message?.content ?? line.response ?? '';
      const thought = line.message?.thinking ?? line.thinking ?? '';
      if (text || thought) yield {text, thought};
      if (line.done) this.result = resultOf(line);
    }
    if (!this.result) throw failed('SERVER', 'The answer was cut off.');
  }
}

/** One of the server's models or adapters. */
export class ServerModel {
  /** @param {string} name @param {any} shown what /api/show says of it */
  constructor(name, shown) {
    const info = shown.model_info ?? {};
    const ofModel = (key) => info[`${info['general.architecture']}.${key}`];
    this.name = name;
    this.model = {
      name,
      architecture: info['general.architecture'],
      parameters: info['general.parameter_count'],
      encoding: shown.details?.quantization_level,
      contextLength: ofModel('context_length') ?? Infinity,
      hasChatTemplate: Boolean(shown.template),
    };
  }

  static async open(name) {
    return new ServerModel(name, await json('api/show', {model: name}));
  }

  chat(messages, options) {
    return new Pieces('api/chat', {model: this.name, messages, options: optionsOf(options)}, options);
  }

  generate(prompt, options) {
    return new Pieces('api/generate', {model: this.name, prompt, raw: true, options: optionsOf(options)}, options);
  }
}
