// Thoughts over the APIs, with their own clients: they come apart, in streams as well, end by their budget, and are
// turned off in the words of each API. An assistant's last message is continued. The model tells stories and does not
// think: its template opens thoughts, and the budget ends them.
import Anthropic from '@anthropic-ai/sdk';
import assert from 'node:assert/strict';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Ollama } from 'ollama';
import OpenAI from 'openai';
import { root, startServer } from './support/server.mjs';

const template = join(dirname(fileURLToPath(import.meta.url)), 'support', 'think.jinja');
const messages = [{ role: 'user', content: 'Once upon a time' }];
const ask = { model: 'stories', messages, temperature: 0, max_tokens: 40 };
let server, plain, client, anthropic, ollama;

before(async () => {
    server = await startServer(['--template', template, '--reasoning-budget', '6', '--reasoning-budget-message',
        ' Enough.']);
    plain = await startServer();
    client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
    anthropic = new Anthropic({ baseURL: server.url, apiKey: 'none', maxRetries: 0 });
    ollama = new Ollama({ host: server.url });
});
after(() => Promise.all([server?.stop(), plain?.stop()]));

async function post(path, body, to = server) {
    const answer = await fetch(to.url + path, { method: 'POST', body: JSON.stringify(body) });
    return [answer.status, await answer.json()];
}
const prompt = async (body, to) => (await post('/apply-template', body, to))[1].prompt;
const marked = /^[^<]+ Enough\.$/;

test('OpenAI: thoughts come apart and end by their budget; the stream says the same', async () => {
    const whole = await client.chat.completions.create(ask);
    const { message } = whole.choices[0];
    assert.match(message.reasoning_content, marked);
    assert.ok(message.content && !/think/.test(message.content), message.content);
    const n = whole.usage.completion_tokens_details.reasoning_tokens;
    assert.ok(n >= 6 && n < whole.usage.completion_tokens, String(n));
    const said = { content: '', reasoning_content: '' }, order = [];
    for await (const { choices: [c] } of await client.chat.completions.create({ ...ask, stream: true }))
        for (const key of Object.keys(said)) {
            if (!c.delta[key]) continue;
            said[key] += c.delta[key];
            if (order.at(-1) !== key) order.push(key);
        }
    assert.deepEqual(order, ['reasoning_content', 'content']);
    assert.equal(said.reasoning_content, message.reasoning_content);
    assert.equal(said.content, message.content);
    const longer = await client.chat.completions.create({ ...ask, thinking_budget_tokens: 12 });
    assert.ok(longer.usage.completion_tokens_details.reasoning_tokens >= n + 6);
    const cut = await client.chat.completions.create({ ...ask, max_tokens: 3 });
    assert.equal(cut.choices[0].finish_reason, 'length');
    assert.equal(cut.choices[0].message.content, '');
    assert.ok(cut.choices[0].message.reasoning_content);
    const raw = await client.chat.completions.create({ ...ask, reasoning_format: 'none', thinking_budget_tokens: -1 });
    assert.equal(raw.choices[0].message.reasoning_content, undefined);
});

test('OpenAI: thoughts are turned off, and the template is told', async () => {
    const off = [{ enable_thinking: false }, { reasoning_effort: 'none' }, { thinking: { type: 'disabled' } },
        { chat_template_kwargs: { enable_thinking: false } }, { thinking_budget_tokens: 0 }];
    const texts = [];
    for (const more of off) {
        const { choices: [{ message }] } = await client.chat.completions.create({ ...ask, max_tokens: 6, ...more });
        assert.equal(message.reasoning_content, undefined, JSON.stringify(more));
        texts.push(message.content);
    }
    assert.equal(new Set(texts).size, 1);
    assert.match(await prompt({ messages, reasoning_effort: 'low' }), /time\[low\]<think>\n$/);
    assert.match(await prompt({ messages, chat_template_kwargs: { reasoning_effort: 'x', enable_thinking: false } }),
        /time\[x\]<think>\n\n<\/think>\n\n$/);
    for (const [more, words] of [[{ reasoning_effort: 'huge' }, /reasoning_effort: "huge" found, none/],
        [{ chat_template_kwargs: { messages: [] } }, /chat_template_kwargs: messages found/],
        [{ chat_template_kwargs: 1 }, /chat_template_kwargs/], [{ enable_thinking: 1 }, /enable_thinking/]]) {
        const [status, answer] = await post('/v1/chat/completions', { ...ask, ...more });
        assert.equal(status, 400);
        assert.match(answer.error.message, words);
    }
});

test('a grammar and forced calls begin behind the thoughts; a template without tools gets a generic form', async () => {
    const schema = { type: 'object', properties: { kind: { enum: ['cat'] } }, required: ['kind'],
        additionalProperties: false };
    const json = await client.chat.completions.create({ ...ask, response_format: { type: 'json_schema',
        json_schema: { name: 'a', schema } } });
    assert.match(json.choices[0].message.reasoning_content, marked);
    assert.deepEqual(JSON.parse(json.choices[0].message.content), { kind: 'cat' });
    const tools = [{ type: 'function', function: { name: 'feed', parameters: schema } }];
    const called = await client.chat.completions.create({ ...ask, tools, tool_choice: 'required', max_tokens: 100,
        parallel_tool_calls: false });
    assert.match(called.choices[0].message.reasoning_content, marked);
    assert.deepEqual(called.choices[0].message.tool_calls.map((c) => [c.function.name,
        JSON.parse(c.function.arguments)]), [['feed', { kind: 'cat' }]]);
    const talk = [...messages, called.choices[0].message, { role: 'tool', tool_call_id:
        called.choices[0].message.tool_calls[0].id, content: 'fed' }, { role: 'user', content: 'And?' }];
    const told = await prompt({ messages: talk, tools });
    assert.match(told, /<tools>\n\{"type":"function","function":\{"name":"feed".*<tool_call>.*Once upon a time/s);
    assert.ok(told.includes('<tool_call>\n{"name":"feed","arguments":{"kind":"cat"}}\n</tool_call><tool_response>\n' +
        'feed: fed\n</tool_response>\nAnd?'), told);
    assert.match(server.output(), /note: the chat template of stories has no tools/);
});

test('Anthropic: blocks of thinking', async () => {
    const params = { model: 'stories', max_tokens: 40, temperature: 0, messages,
        thinking: { type: 'enabled', budget_tokens: 8 } };
    const whole = await anthropic.messages.create(params);
    assert.deepEqual(whole.content.map((c) => c.type), ['thinking', 'text']);
    assert.match(whole.content[0].thinking, marked);
    const last = await anthropic.messages.stream(params).finalMessage();
    assert.deepEqual(last.content.map((c) => [c.type, c.thinking ?? c.text]),
        whole.content.map((c) => [c.type, c.thinking ?? c.text]));
    const off = await anthropic.messages.create({ ...params, thinking: { type: 'disabled' } });
    assert.deepEqual(off.content.map((c) => c.type), ['text']);
    const schema = { type: 'object', properties: { a: { enum: [1] } }, required: ['a'], additionalProperties: false };
    const json = await anthropic.messages.create({ ...params, output_config: { effort: 'low',
        format: { type: 'json_schema', schema } } });
    assert.deepEqual(JSON.parse(json.content.at(-1).text), { a: 1 });
    await assert.rejects(anthropic.messages.create({ ...params, context_management: { edits: [{}] } }),
        /context_management: not supported/);
    const counted = await anthropic.messages.countTokens({ model: 'stories', messages: [...messages,
        { role: 'assistant', content: whole.content }, { role: 'user', content: 'b' }] });
    assert.ok(counted.input_tokens > 0);
    const { data } = await anthropic.models.list();
    assert.deepEqual(data.map((m) => [m.type, m.id, m.display_name]), [['model', 'stories', 'stories']]);
    assert.equal((await anthropic.models.retrieve('stories')).type, 'model');
});

test('Ollama: thinking', async () => {
    const params = { model: 'stories', messages, options: { temperature: 0, num_predict: 40 } };
    assert.ok((await ollama.show({ model: 'stories' })).capabilities.includes('thinking'));
    const whole = await ollama.chat({ ...params, think: true });
    assert.match(whole.message.thinking, marked);
    let thinking = '', content = '';
    for await (const part of await ollama.chat({ ...params, think: 'high', stream: true })) {
        thinking += part.message.thinking ?? '';
        content += part.message.content;
    }
    assert.match(thinking, marked);
    assert.ok(content);
    assert.equal((await ollama.chat({ ...params, think: false })).message.thinking, undefined);
    const generated = await ollama.generate({ model: 'stories', prompt: 'Once', options: params.options });
    assert.match(generated.thinking, marked);
    const [status, answer] = await post('/api/chat', { ...params, think: true }, plain);
    assert.equal(status, 400);
    assert.match(answer.error, /does not support thinking/);
});

test('Responses: an item of reasoning, and conversations by the id of the last response', async () => {
    const params = { model: 'stories', input: 'Once upon a time', temperature: 0, max_output_tokens: 40,
        include: ['reasoning.encrypted_content', 'message.output_text.logprobs'], top_logprobs: 2 };
    const whole = await client.responses.create(params);
    assert.deepEqual(whole.output.map((o) => o.type), ['reasoning', 'message']);
    assert.match(whole.output[0].content[0].text, marked);
    assert.ok(whole.usage.output_tokens_details.reasoning_tokens >= 6);
    assert.equal(whole.output[1].content[0].logprobs[0].top_logprobs.length, 2);
    const events = [];
    const last = await client.responses.stream(params).on('event', (e) => events.push(e)).finalResponse();
    assert.deepEqual(last.output.map((o) => [o.type, o.content[0].text]),
        whole.output.map((o) => [o.type, o.content[0].text]));
    const text = events.filter((e) => e.type === 'response.reasoning_text.delta').map((e) => e.delta).join('');
    assert.equal(text, whole.output[0].content[0].text);
    const second = { model: 'stories', input: 'And then?', temperature: 0, max_output_tokens: 12,
        reasoning: { effort: 'none' } };
    const after = await client.responses.create({ ...second, previous_response_id: whole.id });
    assert.equal(after.previous_response_id, whole.id);
    const spelled = await client.responses.create({ ...second, input: [{ role: 'user', content: 'Once upon a time' },
        ...whole.output, { role: 'user', content: 'And then?' }] });
    assert.equal(after.usage.input_tokens, spelled.usage.input_tokens);
    assert.equal(after.output_text, spelled.output_text);
    const third = await client.responses.create({ ...second, instructions: 'Be short.', store: false,
        previous_response_id: after.id });
    const again = await client.responses.create({ ...second, instructions: 'Be short.', input: [{ role: 'user',
        content: 'Once upon a time' }, ...whole.output, { role: 'user', content: 'And then?' }, ...after.output,
    { role: 'user', content: 'And then?' }] });
    assert.equal(third.usage.input_tokens, again.usage.input_tokens);
    assert.equal(third.output_text, again.output_text);
    for (const id of [third.id, 'resp_x'])
        await assert.rejects(client.responses.create({ ...second, previous_response_id: id }),
            /no response ".*" is kept/);
    await assert.rejects(client.responses.create({ ...second, include: ['x'] }), /include: "x" found/);
});

test('--chat-template-kwargs: variables of the server, a model and a request', async () => {
    const preset = join(mkdtempSync(join(tmpdir(), 'tern-kwargs-')), 'preset');
    writeFileSync(preset, `[own]\nmodel = ${join(root, 'models', 'stories.gguf')}\nchat-template = ${template}\n`
        + 'chat-template-kwargs = {"reasoning_effort": "model"}\n');
    const flag = ['--chat-template-kwargs', '{"reasoning_effort": "server", "enable_thinking": false}'];
    const set = await startServer(['--template', template, ...flag, '--models-preset', preset]);
    try {
        const off = '<think>\n\n</think>\n\n', on = '<think>\n';
        for (const [body, end] of [[{}, `[server]${off}`], [{ model: 'own' }, `[model]${on}`],
            [{ enable_thinking: true }, `[server]${on}`], [{ reasoning_effort: 'low' }, `[low]${on}`],
            [{ chat_template_kwargs: { enable_thinking: true, reasoning_effort: 'x' } }, `[x]${on}`]]) {
            const text = await prompt({ model: 'stories', messages, ...body }, set);
            assert.ok(text.endsWith(`Once upon a time${end}`), `${JSON.stringify(body)}: ${text}`);
        }
        const [, { choices }] = await post('/v1/chat/completions', ask, set);
        assert.equal(choices[0].message.reasoning_content, undefined);
        for (const [path, body] of [['/v1/responses', { input: 'Once', max_output_tokens: 40 }], ['/v1/messages', {
            messages, max_tokens: 40 }]]) {
            const [status, answer] = await post(path, { model: 'stories', ...body,
                chat_template_kwargs: { enable_thinking: true }, reasoning_budget: 3 }, set);
            assert.equal(status, 200);
            assert.deepEqual((answer.output ?? answer.content).map((part) => part.type), path === '/v1/responses'
                ? ['reasoning', 'message'] : ['thinking', 'text']);
        }
    } finally {
        await set.stop();
    }
    writeFileSync(preset, `[own]\nmodel = ${join(root, 'models', 'stories.gguf')}\nchat-template-kwargs = {\n`);
    await assert.rejects(startServer(['--models-preset', preset]), /--chat-template-kwargs/);
});

test('earlier thoughts reach the template, which keeps or drops them', async () => {
    const thought = { role: 'assistant', content: 'b', reasoning_content: 'why' };
    const user = (content) => ({ role: 'user', content });
    assert.match(await prompt({ messages: [user('a'), thought, user('c')] }),
        /a<think>\nwhy\n<\/think>\n\nbc<think>\n$/);
    assert.match(await prompt({ messages: [user('a'), thought, user('c'), { role: 'assistant', content: 'd' },
        user('e')] }), /abcde<think>\n$/);
});

test("an assistant's last message is continued", async () => {
    const begun = [...messages, { role: 'assistant', content: ' there was a' }];
    assert.match(await prompt({ messages: begun }, plain), /Once upon a time there was a$/);
    assert.match(await prompt({ messages: begun }), /Once upon a time there was a$/);
    assert.match(await prompt({ messages: begun, continue_final_message: false }), /there was a<think>\n$/);
    assert.match(await prompt({ messages, add_generation_prompt: false }), /time$/);
    const same = { messages: [{ role: 'user', content: 'Once upon a time there was a' }] };
    const to = (path, body) => post(path, { temperature: 0, max_tokens: 8, ...body }, plain);
    const [, whole] = await to('/v1/chat/completions', same);
    const text = whole.choices[0].message.content;
    assert.equal((await to('/v1/chat/completions', { messages: begun }))[1].choices[0].message.content, text);
    assert.equal((await to('/v1/messages', { messages: begun }))[1].content[0].text, text);
    const [, line] = await post('/api/chat', { messages: begun, stream: false,
        options: { temperature: 0, num_predict: 8 } }, plain);
    assert.equal(line.message.content, text);
    const thinks = await client.chat.completions.create({ ...ask, messages: [...messages, { role: 'assistant',
        content: '<think>\nI' }] });
    assert.match(thinks.choices[0].message.reasoning_content, marked); // what the message began goes on
});
