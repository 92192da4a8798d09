/** OpenAI's shapes over one model: completions, streams, logprobs, grammars, tools, embeddings. */
import assert from 'node:assert/strict';
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {after, before, describe, test} from 'node:test';
import {fileURLToPath} from 'node:url';
import {Tern} from '../lib/index.js';
import {withText} from './browser/gguf.mjs';
import {MODEL, missing} from './support/built.mjs';

const HERMES = readFileSync(new URL('../../tests/serve/support/hermes.jinja', import.meta.url), 'utf8');
const CHAT = fileURLToPath(new URL('../../models/chat.gguf', import.meta.url));
const options = {backend: 'cpu', threads: 1};
const messages = [{role: 'user', content: 'Once upon a time'}];
const schema = (words) => ({type: 'object', properties: {kind: {enum: words}}, required: ['kind']});
const tool = (name, words) => ({type: 'function', function: {name, description: name, parameters: schema(words)}});
const tools = [tool('feed', ['cat', 'dog']), tool('wash', ['car'])];

describe("OpenAI's shapes", {skip: missing('wasm/tern.wasm')}, () => {
  let folder, tern;
  const create = (request) => tern.chat.completions.create({messages, temperature: 0, max_tokens: 12, ...request});

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'tern-openai-'));
    writeFileSync(join(folder, 'tools.gguf'), withText(readFileSync(MODEL), 'tokenizer.chat_template', HERMES));
    tern = await Tern.load(join(folder, 'tools.gguf'), options);
  });
  after(async () => {
    await tern?.dispose();
    rmSync(folder, {recursive: true});
  });

  test('a completion, whole and as a stream', async () => {
    const expected = await tern.chat(messages, {temperature: 0, maxTokens: 12}).text();
    const whole = await create({
      n: 2,
      model: 'any',
      messages: [{role: 'user', content: [{type: 'text', text: 'Once upon a time'}]}]
    });
    assert.equal(whole.object, 'chat.completion');
    assert.deepEqual(
      whole.choices.map(({message, finish_reason: reason}) => [message, reason]),
      [1, 2].map(() => [{role: 'assistant', content: expected}, 'length'])
    );
    assert.equal(whole.usage.completion_tokens, 24);
    assert.equal(whole.usage.total_tokens, whole.usage.prompt_tokens + 24);
    const chunks = [];
    for await (const chunk of await create({stream: true, stream_options: {include_usage: true}})) chunks.push(chunk);
    assert.equal(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '').join(''), expected);
    assert.deepEqual(chunks[0].choices[0].delta, {role: 'assistant', content: ''});
    assert.equal(chunks.at(-2).choices[0].finish_reason, 'length');
    assert.deepEqual([chunks.at(-1).choices, chunks.at(-1).usage.completion_tokens], [[], 12]);
    assert.equal(new Set(chunks.map((chunk) => chunk.id)).size, 1);
  });

  test('several choices, and choices without a seed, are several samples', async () => {
    const how = {temperature: 1.5, max_tokens: 16, n: 3};
    const texts = ({choices}) => choices.map(({message}) => message.content);
    const [one, two, seeded, again] = [
      texts(await create(how)),
      texts(await create(how)),
      texts(await create({...how, seed: 5})),
      texts(await create({...how, seed: 5}))
    ];
    assert.equal(new Set([...one, ...two, ...seeded]).size, 9);
    assert.deepEqual(again, seeded);
  });

  test('an aborted request is CANCELLED, whole or as a stream', async () => {
    const cancelled = {code: 'CANCELLED', message: 'the completion was cancelled'};
    const request = {messages, temperature: 0, max_tokens: 500};
    const control = new AbortController();
    const whole = tern.chat.completions.create(request, {signal: control.signal});
    setTimeout(() => control.abort(), 30);
    await assert.rejects(whole, cancelled);
    const other = new AbortController();
    const stream = await tern.chat.completions.create({...request, stream: true}, {signal: other.signal});
    await assert.rejects(async () => {
      for await (const chunk of stream) if (chunk.choices[0].delta.content) other.abort();
    }, cancelled);
    const refused = tern.chat.completions.create(request, {signal: AbortSignal.abort()});
    await assert.rejects(refused, {code: 'CANCELLED'});
    assert.equal((await create({})).choices[0].finish_reason, 'length');
  });

  test('what says nothing: null, and the role that stands for "system"', async () => {
    const said = (role) => create({messages: [{role, content: 'Be brief.'}, ...messages]});
    const nothing = {stop: null, seed: null, n: null, stream: null, logprobs: null, response_format: null};
    const [plain, system, developer] = [await create(nothing), await said('system'), await said('developer')];
    assert.equal(plain.choices.length, 1);
    assert.equal(developer.choices[0].message.content, system.choices[0].message.content);
    assert.equal(developer.usage.prompt_tokens, system.usage.prompt_tokens);
  });

  test('logprobs are those of the model, before biases; a bias bans', async () => {
    const {logprobs} = (await create({max_tokens: 3, logprobs: true, top_logprobs: 5})).choices[0];
    const [first] = logprobs.content;
    assert.equal(logprobs.content.length, 3);
    assert.deepEqual([first.token, first.logprob], [first.top_logprobs[0].token, first.top_logprobs[0].logprob]);
    const shares = first.top_logprobs.map((each) => Math.exp(each.logprob));
    assert.ok(shares.every((share, i) => share > 0 && share <= (shares[i - 1] ?? 1)));
    assert.ok(shares.reduce((sum, share) => sum + share) <= 1 + 1e-6);
    const pieces = [];
    for await (const piece of tern.chat(messages, {temperature: 0, maxTokens: 1, logprobs: true})) pieces.push(piece);
    const ban = {[pieces[0].id]: -1000};
    const other = (await create({max_tokens: 1, logprobs: true, logit_bias: ban})).choices[0].logprobs.content[0];
    assert.deepEqual([other.token, other.logprob], [first.top_logprobs[1].token, first.top_logprobs[1].logprob]);
    const all = (await create({max_tokens: 1, logprobs: true, top_logprobs: 20, temperature: 1, seed: 3})).choices[0];
    const found = all.logprobs.content[0].top_logprobs.find((each) => each.token === all.logprobs.content[0].token);
    assert.equal(found?.logprob ?? all.logprobs.content[0].logprob, all.logprobs.content[0].logprob);
  });

  test('a JSON Schema, any JSON, a regular expression', async () => {
    const format = {type: 'json_schema', json_schema: {name: 'pet', schema: schema(['cat', 'dog'])}};
    const {message, finish_reason: reason} = (await create({max_tokens: 60, response_format: format})).choices[0];
    assert.ok(['cat', 'dog'].includes(JSON.parse(message.content).kind), message.content);
    assert.equal(reason, 'stop');
    const any = await create({max_tokens: 4, response_format: {type: 'json_object'}});
    assert.match(any.choices[0].message.content, /^\s*\{/);
    const text = await tern.chat(messages, {maxTokens: 30, grammar: {kind: 'regex', source: '[0-9]{3}'}}).text();
    assert.match(text, /^[0-9]{3}$/);
    const wrong = {type: 'json_schema', json_schema: {schema: {type: 'nothing'}}};
    await assert.rejects(create({response_format: wrong}), {code: /MALFORMED|UNSUPPORTED/});
    const pet = await tern.chat(messages, {maxTokens: 60, grammar: {kind: 'schema', source: schema(['cow'])}}).text();
    assert.deepEqual(JSON.parse(pet), {kind: 'cow'});
  });

  test('tools: a call that is forced, whole and streamed, and its answer told to the model', async () => {
    const choice = {type: 'function', function: {name: 'wash'}};
    const ask = {tools, tool_choice: choice, parallel_tool_calls: false, max_tokens: 80};
    const {message, finish_reason: reason} = (await create(ask)).choices[0];
    assert.deepEqual([reason, message.content, message.tool_calls.length], ['tool_calls', null, 1]);
    assert.equal(message.tool_calls[0].function.name, 'wash');
    assert.deepEqual(JSON.parse(message.tool_calls[0].function.arguments), {kind: 'car'});
    const chunks = [];
    for await (const chunk of await create({...ask, stream: true})) chunks.push(chunk.choices[0]);
    const streamed = chunks.flatMap((each) => each.delta.tool_calls ?? []);
    assert.deepEqual(streamed[0].function, message.tool_calls[0].function);
    assert.equal(chunks.at(-1).finish_reason, 'tool_calls');
    const answered = [...messages, message, {role: 'tool', tool_call_id: message.tool_calls[0].id, content: 'clean'}];
    assert.equal((await create({messages: answered, tools})).choices.length, 1);
    assert.ok(tern.model.hasTools);
    const plain = await Tern.load(CHAT, options);
    assert.equal(plain.model.hasTools, false);
    const refused = plain.chat.completions.create({messages, tools});
    await assert.rejects(refused, {code: 'UNSUPPORTED', message: /chat template of chat does not know tools/});
    await plain.dispose();
  });

  test('embeddings', async () => {
    const {data, usage} = await tern.embeddings.create({input: ['a cat', 'a cat', 'the sea']});
    const dot = (a, b) => a.embedding.reduce((sum, value, i) => sum + value * b.embedding[i], 0);
    assert.equal(data[0].embedding.length, tern.model.embedding);
    assert.ok(Math.abs(dot(data[0], data[1]) - 1) < 1e-5 && dot(data[0], data[2]) < 0.999);
    assert.ok(usage.prompt_tokens >= 6);
    const [mean] = await tern.embed('a cat', {pooling: 'mean', normalize: false});
    const long = await tern.embed('The cat sat on the mat. '.repeat(8), {pooling: 'mean'});
    assert.ok(Math.abs(long[0].vector.reduce((sum, x) => sum + x * x, 0) - 1) < 1e-5);
    assert.ok(mean.vector instanceof Float32Array && mean.vector.some((value, i) => value !== data[0].embedding[i]));
  });

  test('what is wrong is named', async () => {
    await assert.rejects(create({max_token: 3}), {
      code: 'INVALID_ARGUMENT',
      message: /max_token is 3, expected one of/
    });
    await assert.rejects(create({messages: 'x'}), {code: 'INVALID_ARGUMENT', message: /a list of messages/});
    await assert.rejects(create({logit_bias: {x: 1}}), {code: 'INVALID_ARGUMENT', message: /logitBias: x/});
    await assert.rejects(create({top_logprobs: 21, logprobs: true}), {message: /topLogprobs: 21, at most 20/});
    writeFileSync(join(folder, 'letter.gguf'), 'Dear reader');
    await assert.rejects(Tern.load(join(folder, 'letter.gguf'), options), {
      code: 'MALFORMED',
      message: /^letter\.gguf: /
    });
  });
});
