// Tools over the APIs, with their own clients: calls that are forced, found in text, streamed, and answered. The model
// tells stories and knows no tools: grammars make it call, or say what is then read as a call.
import Anthropic from '@anthropic-ai/sdk';
import assert from 'node:assert/strict';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Ollama } from 'ollama';
import OpenAI from 'openai';
import { startServer } from './support/server.mjs';

const template = (name) => join(dirname(fileURLToPath(import.meta.url)), 'support', name);
const schema = (words) => ({ type: 'object', properties: { kind: { enum: words } }, required: ['kind'],
    additionalProperties: false });
const tool = (name, words) => ({ type: 'function', function: { name, description: `a ${name}`,
    parameters: schema(words) } });
const tools = [tool('feed', ['cat', 'dog']), tool('wash', ['car'])];
const messages = [{ role: 'user', content: 'Once upon a time' }];
const ask = { model: 'stories', messages, temperature: 0, tools };
const spoken = 'root ::= "Yes. " call "\\n" call\ncall ::= "<tool_call>\\n{\\"name\\": \\"wash\\", \\"arguments\\": ' +
    '{\\"kind\\": \\"car\\", \\"n\\": 2}}\\n</tool_call>"';
let server, client, anthropic, ollama;

before(async () => {
    server = await startServer(['--template', template('hermes.jinja')]);
    client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
    anthropic = new Anthropic({ baseURL: server.url, apiKey: 'none', maxRetries: 0 });
    ollama = new Ollama({ host: server.url });
});
after(() => server?.stop());

const prompt = async (body) => {
    const answer = await fetch(`${server.url}/apply-template`, { method: 'POST', body: JSON.stringify(body) });
    assert.equal(answer.status, 200, await answer.clone().text());
    return (await answer.json()).prompt;
};

test('OpenAI: a call is forced, of any tool or of one; serial calls are one', async () => {
    const one = await client.chat.completions.create({ ...ask, parallel_tool_calls: false, tool_choice:
        { type: 'function', function: { name: 'wash' } } });
    const { message, finish_reason: reason } = one.choices[0];
    assert.equal(reason, 'tool_calls');
    assert.equal(message.content, null);
    assert.equal(message.tool_calls.length, 1);
    assert.equal(message.tool_calls[0].function.name, 'wash');
    assert.deepEqual(JSON.parse(message.tool_calls[0].function.arguments), { kind: 'car' });
    for (let seed = 0; seed < 4; seed++) {
        const any = await client.chat.completions.create({ ...ask, seed, temperature: 1, tool_choice: 'required',
            parallel_tool_calls: false });
        const call = any.choices[0].message.tool_calls[0].function;
        assert.ok({ feed: ['cat', 'dog'], wash: ['car'] }[call.name].includes(JSON.parse(call.arguments).kind));
    }
});

test('thoughts of earlier answers reach the template, also where no tool is spoken of', async () => {
    const thought = { role: 'assistant', content: 'b', reasoning_content: 'why ' };
    assert.match(await prompt({ messages: [{ role: 'user', content: 'a' }, thought] }), /awhy b$/);
    assert.match(await prompt({ messages: [{ role: 'user', content: 'a' }, { ...thought, reasoning_content: null }] }),
        /ab$/);
});

test('OpenAI: calls are found in text, and their stream says the same', async () => {
    const whole = await client.chat.completions.create({ ...ask, grammar: spoken });
    const { message, finish_reason: reason } = whole.choices[0];
    assert.equal(reason, 'tool_calls');
    assert.equal(message.content, 'Yes. ');
    assert.deepEqual(message.tool_calls.map((c) => [c.type, c.function.name, JSON.parse(c.function.arguments)]),
        Array(2).fill(['function', 'wash', { kind: 'car', n: 2 }]));
    assert.notEqual(message.tool_calls[0].id, message.tool_calls[1].id);
    const deltas = [];
    const stream = client.chat.completions.stream({ ...ask, grammar: spoken })
        .on('chunk', (chunk) => deltas.push(...chunk.choices[0]?.delta.tool_calls ?? []));
    const last = await stream.finalChatCompletion();
    assert.equal(last.choices[0].finish_reason, 'tool_calls');
    assert.equal(last.choices[0].message.content, message.content);
    assert.deepEqual(last.choices[0].message.tool_calls.map((c) => [c.function.name, c.function.arguments]),
        message.tool_calls.map((c) => [c.function.name, c.function.arguments]));
    for (const [i, call] of last.choices[0].message.tool_calls.entries()) {
        const [first, ...more] = deltas.filter((d) => d.index === i);
        assert.deepEqual([first.id, first.type, first.function.name], [call.id, 'function', 'wash']);
        assert.equal(first.function.arguments, ''); // clients take it for the head alone
        assert.ok(more.length > 3, 'the arguments come piece by piece');
        assert.ok(more.every((d) => d.id === undefined && d.function.name === undefined && d.function.arguments));
    }
    assert.notEqual(deltas[0].id, deltas.at(-1).id);
    let half = '', why;
    for await (const { choices: [c] } of await client.chat.completions.create({ ...ask, grammar: spoken, stream: true,
        max_tokens: Math.floor(whole.usage.completion_tokens / 2) - 6 })) {
        half += c.delta.tool_calls?.[0].function.arguments ?? '';
        why = c.finish_reason ?? why;
    }
    assert.equal(why, 'length'); // what came of the call stays
    assert.ok(half.length > 1 && message.tool_calls[0].function.arguments.startsWith(half), half);
    const none = await client.chat.completions.create({ ...ask, grammar: spoken, tool_choice: 'none' });
    assert.match(none.choices[0].message.content, /^Yes\. <tool_call>/);
    assert.equal(none.choices[0].message.tool_calls, undefined);
    const serial = await client.chat.completions.create({ ...ask, grammar: spoken, parallel_tool_calls: false });
    assert.equal(serial.choices[0].message.tool_calls.length, 1);
});

test('OpenAI: the model is told of tools, calls and what they gave', async () => {
    const talk = [...messages, { role: 'assistant', content: null, tool_calls: [{ id: 'a', type: 'function',
        function: { name: 'feed', arguments: '{"kind": "dog", "n": 1}' } }] },
    { role: 'tool', tool_call_id: 'a', content: 'fed' }];
    const text = await prompt({ messages: talk, tools });
    assert.ok(text.endsWith('[feed ["kind"]][wash ["kind"]]Once upon a time<tool_call>\n{"name": "feed", ' +
        '"arguments": {"kind": "dog", "n": 1}}\n</tool_call><tool_response>feed: fed</tool_response>'), text);
    const long = await client.chat.completions.create({ ...ask, messages: talk, max_tokens: 4 });
    const short = await client.chat.completions.create({ ...ask, max_tokens: 4 });
    assert.ok(long.usage.prompt_tokens > short.usage.prompt_tokens + 20);
    const refused = (extra, words) => assert.rejects(client.chat.completions.create({ ...ask, ...extra }), (e) =>
        e instanceof OpenAI.BadRequestError && words.test(e.message));
    await refused({ tool_choice: { type: 'function', function: { name: 'fly' } } }, /no tool is called "fly"/);
    await refused({ tools: [], tool_choice: 'required' }, /the request has no tools/);
    await refused({ tools: [{ type: 'web_search' }] }, /tools\[0\]: the type "web_search" found/);
    await refused({ response_format: { type: 'json_object' } }, /tools: not together with a format/);
    await refused({ messages: [{ role: 'assistant', tool_calls: [{ function: { name: 'a', arguments: '[' } }] }] },
        /messages\[0\]\.tool_calls: the arguments of a are not a JSON object/);
});

test('Responses: calls are forced, found, streamed piece by piece, and answered', async () => {
    const offered = tools.map((t) => ({ type: 'function', strict: false, ...t.function }));
    const params = { model: 'stories', input: 'Once upon a time', temperature: 0, tools: offered };
    const one = await client.responses.create({ ...params, parallel_tool_calls: false,
        tool_choice: { type: 'function', name: 'wash' } });
    assert.equal(one.status, 'completed');
    assert.deepEqual(one.output.map((o) => [o.type, o.name, JSON.parse(o.arguments)]),
        [['function_call', 'wash', { kind: 'car' }]]);
    assert.deepEqual(one.tools.map((t) => t.name), ['feed', 'wash']);
    const whole = await client.responses.create({ ...params, grammar: spoken });
    assert.deepEqual(whole.output.map((o) => o.type), ['message', 'function_call', 'function_call']);
    assert.equal(whole.output_text, 'Yes. ');
    const seen = [], counts = [0, 0, 0];
    const stream = client.responses.stream({ ...params, grammar: spoken })
        .on('event', (event) => seen.push(event));
    const last = await stream.finalResponse();
    assert.deepEqual(seen.map((e) => e.sequence_number), [...seen.keys()]);
    for (const e of seen) if (e.type === 'response.function_call_arguments.delta') counts[e.output_index]++;
    assert.ok(counts[0] === 0 && counts[1] > 3 && counts[2] > 3, 'the arguments come piece by piece');
    const facts = (r) => r.output.map((o) => [o.type, o.name, o.arguments, o.content?.[0].text]);
    assert.deepEqual(facts(last), facts(whole));
    assert.notEqual(last.output[1].call_id, last.output[2].call_id);
    const [, call] = last.output;
    const talk = [{ role: 'user', content: 'Once upon a time' }, last.output[0], call,
        { type: 'function_call_output', call_id: call.call_id, output: 'clean' }];
    const answered = await client.responses.create({ ...params, input: talk, max_output_tokens: 4 });
    const same = await prompt({ tools, messages: [...messages, { role: 'assistant', content: 'Yes. ', tool_calls: [
        { id: 'b', function: { name: 'wash', arguments: { kind: 'car', n: 2 } } }] },
    { role: 'tool', tool_call_id: 'b', content: 'clean' }] });
    const counted = await fetch(`${server.url}/tokenize`, { method: 'POST', body: JSON.stringify({ content: same }) });
    assert.ok(Math.abs((await counted.json()).tokens.length - answered.usage.input_tokens) <= 1);
    const refused = (extra, words) => assert.rejects(client.responses.create({ ...params, ...extra }), (e) =>
        e instanceof OpenAI.BadRequestError && words.test(e.message));
    await refused({ tools: [{ type: 'web_search' }] }, /tools\[0\]: the type "web_search" found/);
    await refused({ tool_choice: { type: 'function', name: 'fly' } }, /no tool is called "fly"/);
    await refused({ input: [{ type: 'computer_call' }] }, /an item of the type "computer_call" found/);
});

test('Anthropic: uses of tools and their results', async () => {
    const offered = tools.map((t) => ({ name: t.function.name, description: 'x',
        input_schema: t.function.parameters }));
    const params = { model: 'stories', max_tokens: 100, temperature: 0, messages, tools: offered };
    const whole = await anthropic.messages.create({ ...params, tool_choice: { type: 'tool', name: 'wash',
        disable_parallel_tool_use: true } });
    assert.equal(whole.stop_reason, 'tool_use');
    assert.deepEqual(whole.content.map((c) => [c.type, c.name, c.input]), [['tool_use', 'wash', { kind: 'car' }]]);
    const pieces = [];
    const stream = anthropic.messages.stream({ ...params, tool_choice: { type: 'any',
        disable_parallel_tool_use: true } }).on('inputJson', (piece) => pieces.push(piece));
    const last = await stream.finalMessage();
    assert.equal(last.stop_reason, 'tool_use');
    assert.equal(last.content.length, 1);
    assert.ok(['cat', 'dog', 'car'].includes(last.content[0].input.kind));
    assert.deepEqual(JSON.parse(pieces.join('')), last.content[0].input);
    assert.ok(pieces.length > 3, 'the input comes piece by piece');
    const talk = [...messages, { role: 'assistant', content: whole.content }, { role: 'user', content: [
        { type: 'tool_result', tool_use_id: whole.content[0].id, content: [{ type: 'text', text: 'clean' }] },
        { type: 'text', text: 'Good.' }] }];
    const { input_tokens: n } = await anthropic.messages.countTokens({ model: 'stories', messages: talk,
        tools: offered });
    const { usage } = await anthropic.messages.create({ ...params, messages: talk, max_tokens: 4 });
    assert.equal(n, usage.input_tokens + usage.cache_read_input_tokens);
    const same = await prompt({ tools, messages: [...messages, { role: 'assistant', content: '', tool_calls: [
        { id: 'b', function: { name: 'wash', arguments: { kind: 'car' } } }] },
    { role: 'tool', tool_call_id: 'b', content: 'clean' }, { role: 'user', content: 'Good.' }] });
    const counted = await fetch(`${server.url}/tokenize`, { method: 'POST', body: JSON.stringify({ content: same }) });
    assert.ok(Math.abs((await counted.json()).tokens.length - n) <= 1);
    await assert.rejects(anthropic.messages.create({ ...params, tools: [{ type: 'bash_20250124', name: 'bash' }] }),
        /tools\[0\]: the type .*bash_20250124/);
});

test('Ollama: calls with their arguments as an object', async () => {
    assert.ok((await ollama.show({ model: 'stories' })).capabilities.includes('tools'));
    const params = { model: 'stories', messages, tools, parallel_tool_calls: false,
        tool_choice: { type: 'function', function: { name: 'wash' } } };
    const wash = [['wash', { kind: 'car' }]];
    const whole = await ollama.chat(params);
    assert.deepEqual(whole.message.tool_calls.map((c) => [c.function.name, c.function.arguments]), wash);
    let calls = [];
    for await (const part of await ollama.chat({ ...params, stream: true }))
        calls = calls.concat(part.message.tool_calls ?? []);
    assert.deepEqual(calls.map((c) => [c.function.name, c.function.arguments]), wash);
    const talk = [...messages, { role: 'assistant', content: '', tool_calls: [{ function: { name: 'feed',
        arguments: { kind: 'cat' } } }] }, { role: 'tool', content: 'fed', tool_name: 'feed' }];
    assert.match(await prompt({ messages: talk, tools }), /"kind": "cat"}}\n<\/tool_call><tool_response>feed: fed/);
});

test('another form; a template without tools tells of them in a generic one', async () => {
    const other = await startServer(['--template', template('llama3.jinja')]);
    const plain = await startServer();
    try {
        const it = new OpenAI({ baseURL: `${other.url}/v1`, apiKey: 'none', maxRetries: 0 });
        const answer = await it.chat.completions.create({ ...ask, parallel_tool_calls: false, tool_choice:
            { type: 'function', function: { name: 'wash' } } });
        assert.deepEqual(JSON.parse(answer.choices[0].message.tool_calls[0].function.arguments), { kind: 'car' });
        const without = new OpenAI({ baseURL: `${plain.url}/v1`, apiKey: 'none', maxRetries: 0 });
        const generic = await without.chat.completions.create({ ...ask, parallel_tool_calls: false, tool_choice:
            { type: 'function', function: { name: 'wash' } } });
        assert.deepEqual(JSON.parse(generic.choices[0].message.tool_calls[0].function.arguments), { kind: 'car' });
    } finally {
        await Promise.all([other.stop(), plain.stop()]);
    }
});

test('OpenAI: the older form, functions and function_call', async () => {
    const old = { model: 'stories', messages, temperature: 0, functions: tools.map((t) => t.function) };
    const one = await client.chat.completions.create({ ...old, function_call: { name: 'wash' } });
    const { message, finish_reason: reason } = one.choices[0];
    assert.equal(reason, 'function_call');
    assert.equal(message.tool_calls, undefined);
    assert.deepEqual([message.function_call.name, JSON.parse(message.function_call.arguments)],
        ['wash', { kind: 'car' }]);
    let name, text = '';
    for await (const { choices: [c] } of await client.chat.completions.create({ ...old, stream: true,
        function_call: { name: 'wash' } })) {
        name ??= c.delta.function_call?.name;
        text += c.delta.function_call?.arguments ?? '';
    }
    assert.deepEqual([name, JSON.parse(text)], ['wash', { kind: 'car' }]);
    const told = await prompt({ messages: [...messages, { role: 'assistant', content: null, function_call:
        message.function_call }, { role: 'function', name: 'wash', content: 'clean' }] });
    assert.ok(told.endsWith('<tool_call>\n{"name": "wash", "arguments": {"kind": "car"}}\n</tool_call>' +
        '<tool_response>wash: clean</tool_response>'), told);
});

test('OpenAI: allowed tools', async () => {
    const choice = (mode, names) => ({ type: 'allowed_tools', allowed_tools: { mode, tools: names.map((name) =>
        ({ type: 'function', function: { name } })) } });
    for (let seed = 0; seed < 3; seed++) {
        const one = await client.chat.completions.create({ ...ask, seed, temperature: 1, parallel_tool_calls: false,
            tool_choice: choice('required', ['wash']) });
        assert.equal(one.choices[0].message.tool_calls[0].function.name, 'wash');
    }
    const response = await client.responses.create({ model: 'stories', input: 'Once', parallel_tool_calls: false,
        tools: tools.map((t) => ({ type: 'function', ...t.function })), tool_choice: { type: 'allowed_tools',
            mode: 'required', tools: [{ type: 'function', name: 'feed' }] } });
    assert.equal(response.output[0].name, 'feed');
    await assert.rejects(client.chat.completions.create({ ...ask, tool_choice: choice('auto', ['fly']) }),
        /no tool is called "fly"/);
    await assert.rejects(client.chat.completions.create({ ...ask, tool_choice: choice('any', ['wash']) }),
        /tool_choice: mode: "any" found, auto or required/);
});
