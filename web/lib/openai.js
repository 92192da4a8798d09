/** The shapes of OpenAI's API over one Tern: chat.completions.create and embeddings.create. */
import {TernError, throwIfAborted} from './errors.js';

/** What each parameter becomes; null: it may stand there, and says nothing here. */
const PARAMETERS = {
  max_tokens: 'maxTokens',
  max_completion_tokens: 'maxTokens',
  temperature: 'temperature',
  top_p: 'topP',
  seed: 'seed',
  presence_penalty: 'presencePenalty',
  frequency_penalty: 'frequencyPenalty',
  logprobs: 'logprobs',
  top_logprobs: 'topLogprobs',
  logit_bias: 'logitBias',
  tools: 'tools',
  parallel_tool_calls: 'parallelToolCalls',
  model: null,
  messages: null,
  stream: null,
  stream_options: null,
  stop: null,
  response_format: null,
  tool_choice: null,
  n: null,
  user: null
};

const REASONS = {
  'end token': 'stop',
  'stop string': 'stop',
  length: 'length',
  'context full': 'length'
};

const wrong = (name, value, expected) =>
  new TernError(
    'INVALID_ARGUMENT',
    `chat.completions.create: ${name} is ${JSON.stringify(value)}, expected ${expected}`
  );

function grammarOf(format) {
  if (format === undefined || format === null || format.type === 'text') return {};
  if (format.type === 'json_object') return {grammar: {kind: 'json', source: ''}};
  const schema = format.json_schema?.schema;
  if (format.type === 'json_schema' && typeof schema === 'object')
    return {grammar: {kind: 'schema', source: JSON.stringify(schema)}};
  throw wrong('response_format', format, '{type: "text"}, {type: "json_object"} or {type: "json_schema", json_schema}');
}

function choiceOf(choice) {
  if (choice === undefined || choice === null) return {};
  if (['auto', 'none', 'required'].includes(choice)) return {toolChoice: choice};
  if (typeof choice.function?.name === 'string') return {toolChoice: {name: choice.function.name}};
  throw wrong('tool_choice', choice, '"auto", "none", "required" or {type: "function", function: {name}}');
}

/** @returns {import('./index.js').ChatOptions} */
function optionsOf(request, signal) {
  const options = {...grammarOf(request.response_format), ...choiceOf(request.tool_choice)};
  for (const [name, value] of Object.entries(request)) {
    if (!Object.hasOwn(PARAMETERS, name)) throw wrong(name, value, `one of ${Object.keys(PARAMETERS).join(', ')}`);
    if (PARAMETERS[name] && value !== undefined && value !== null) options[PARAMETERS[name]] = value;
  }
  if (request.stop !== undefined && request.stop !== null) options.stop = [request.stop].flat();
  return {...options, ...(signal ? {signal} : {})};
}

/** Content in parts is joined; images are none of a text model. */
function messageOf(message, i) {
  if (!Array.isArray(message?.content)) return message;
  const other = message.content.find((part) => part?.type !== 'text');
  if (other) throw wrong(`messages[${i}].content`, other, 'parts of the type "text"');
  return {...message, content: message.content.map((part) => part.text).join('')};
}

const bytesOf = (token) => [...new TextEncoder().encode(token)];
const entryOf = ({token, logprob}) => ({token, logprob, bytes: bytesOf(token)});
const logprobOf = (piece) => ({...entryOf(piece), top_logprobs: piece.top.map(entryOf)});
const hasLogprob = (piece) => piece.logprob !== undefined;

const callOf = ({id, name, arguments: text}) => ({id, type: 'function', function: {name, arguments: text}});
const finishOf = (result) => (result.toolCalls?.length ? 'tool_calls' : REASONS[result.reason]);
const usageOf = (result) => ({
  prompt_tokens: result.promptTokens,
  completion_tokens: result.tokens,
  total_tokens: result.promptTokens + result.tokens
});

const hex = (byte) => byte.toString(16).padStart(2, '0');
const newId = () => `chatcmpl-${Array.from(crypto.getRandomValues(new Uint8Array(12)), hex).join('')}`;
const about = (tern, object) => ({
  id: newId(),
  object,
  created: Math.floor(Date.now() / 1000),
  model: tern.model.name
});

/** Of a whole answer: one that was cut short by the signal is no answer. */
async function resultOf(stream, signal) {
  const result = await stream.result;
  if (result.reason === 'caller') throwIfAborted(signal, 'the completion');
  return result;
}

async function choiceFrom(stream, index, {logprobs, signal}) {
  const pieces = [];
  for await (const piece of stream) pieces.push(piece);
  const result = await resultOf(stream, signal);
  const text = pieces.map((piece) => piece.text).join('');
  const calls = result.toolCalls ?? [];
  const message = {
    role: 'assistant',
    content: calls.length && !text ? null : text,
    ...(calls.length ? {tool_calls: calls.map(callOf)} : {})
  };
  const content = logprobs ? {content: pieces.filter(hasLogprob).map(logprobOf)} : null;
  return {choice: {index, message, logprobs: content, finish_reason: finishOf(result)}, result};
}

async function whole(tern, messages, options, n) {
  const all = [];
  for (let i = 0; i < n; i++) {
    const seed = options.seed === undefined ? {} : {seed: options.seed + i};
    all.push(await choiceFrom(tern.chat(messages, {...options, ...seed}), i, options));
  }
  const usages = all.map(({result}) => usageOf(result));
  const prompt = usages[0].prompt_tokens;
  const completion = usages.reduce((sum, usage) => sum + usage.completion_tokens, 0);
  return {
    ...about(tern, 'chat.completion'),
    choices: all.map(({choice}) => choice),
    usage: {prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion}
  };
}

async function* chunks(tern, stream, {logprobs, signal}, usage) {
  const head = about(tern, 'chat.completion.chunk');
  const chunk = (delta, rest = {}) => ({
    ...head,
    choices: [{index: 0, delta, logprobs: null, finish_reason: null, ...rest}],
    ...(usage ? {usage: null} : {})
  });
  yield chunk({role: 'assistant', content: ''});
  for await (const piece of stream) {
    const content = logprobs && hasLogprob(piece) ? {logprobs: {content: [logprobOf(piece)]}} : {};
    if (piece.text || content.logprobs) yield chunk({content: piece.text}, content);
  }
  const result = await resultOf(stream, signal);
  const calls = (result.toolCalls ?? []).map((call, index) => ({index, ...callOf(call)}));
  if (calls.length) yield chunk({tool_calls: calls});
  yield chunk({}, {finish_reason: finishOf(result)});
  if (usage) yield {...head, choices: [], usage: usageOf(result)};
}

/** @param {import('./index.js').Tern} tern @param {any} request @param {{signal?: AbortSignal}} [options] */
export async function createCompletion(tern, request, {signal} = {}) {
  const options = optionsOf(request, signal);
  if (!Array.isArray(request.messages)) throw wrong('messages', request.messages, 'a list of messages');
  const messages = request.messages.map(messageOf);
  const n = request.n ?? 1;
  if (!Number.isInteger(n) || n < 1) throw wrong('n', n, 'a whole number above 0');
  if (!request.stream) return whole(tern, messages, options, n);
  if (n > 1) throw wrong('n', n, '1 with stream');
  const usage = Boolean(request.stream_options?.include_usage);
  return chunks(tern, tern.chat(messages, options), options, usage);
}

/** @param {import('./index.js').Tern} tern @param {any} request @param {{signal?: AbortSignal}} [options] */
export async function createEmbeddings(tern, {input, encoding_format: format = 'float'}, {signal} = {}) {
  if (format !== 'float')
    throw new TernError('INVALID_ARGUMENT', `embeddings.create: encoding_format is "${format}", expected "float"`);
  const vectors = await tern.embed(input, signal ? {signal} : {});
  const tokens = vectors.reduce((sum, each) => sum + each.tokens, 0);
  return {
    object: 'list',
    model: tern.model.name,
    data: vectors.map(({vector}, index) => ({object: 'embedding', index, embedding: [...vector]})),
    usage: {prompt_tokens: tokens, total_tokens: tokens}
  };
}
