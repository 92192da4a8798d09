// The client of the OpenAI API against tern serve.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import OpenAI from 'openai';
import { metric, startServer, until } from './support/server.mjs';

const story = 'Once upon a time';
const ask = { model: 'stories', messages: [{ role: 'user', content: story }], temperature: 0 };
let server, client;

before(async () => {
    server = await startServer();
    client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
});
after(() => server?.stop());

test('models are listed and found', async () => {
    const list = await client.models.list();
    assert.deepEqual(list.data.map((m) => m.id), ['stories']);
    assert.equal((await client.models.retrieve('stories')).owned_by, 'tern');
    await assert.rejects(client.models.retrieve('others'), OpenAI.NotFoundError);
});

test('a chat answers, and its stream says the same', async () => {
    const whole = await client.chat.completions.create({ ...ask, max_tokens: 16 });
    assert.equal(whole.choices[0].message.role, 'assistant');
    assert.equal(whole.choices[0].finish_reason, 'length');
    assert.equal(whole.usage.completion_tokens, 16);
    const stream = await client.chat.completions.create({ ...ask, max_tokens: 16, stream: true,
        stream_options: { include_usage: true } });
    let text = '', reason, usage;
    for await (const chunk of stream) {
        text += chunk.choices[0]?.delta.content ?? '';
        reason = chunk.choices[0]?.finish_reason ?? reason;
        usage = chunk.usage ?? usage;
    }
    assert.equal(text, whole.choices[0].message.content);
    assert.equal(reason, 'length');
    assert.equal(usage.total_tokens, whole.usage.total_tokens);
});

test('parts of a message are joined; a developer speaks as the system', async () => {
    const parts = [{ type: 'text', text: 'Once upon ' }, { type: 'text', text: 'a time' }];
    const joined = await client.chat.completions.create({ ...ask, max_tokens: 8,
        messages: [{ role: 'user', content: parts }] });
    const plain = await client.chat.completions.create({ ...ask, max_tokens: 8 });
    assert.equal(joined.choices[0].message.content, plain.choices[0].message.content);
    const [a, b] = await Promise.all(['developer', 'system'].map((role) => client.chat.completions.create({ ...ask,
        max_tokens: 8, messages: [{ role, content: 'Once. ' }, ...ask.messages] })));
    assert.equal(a.choices[0].message.content, b.choices[0].message.content);
});

test('completions: text, several prompts, ids, echo, stop strings', async () => {
    const one = await client.completions.create({ model: 'stories', prompt: story, max_tokens: 12, temperature: 0 });
    const many = await client.completions.create({ model: 'stories', prompt: [story, story], max_tokens: 12,
        temperature: 0, n: 2 });
    assert.deepEqual(many.choices.map((c) => c.text), Array(4).fill(one.choices[0].text));
    assert.deepEqual(many.choices.map((c) => c.index), [0, 1, 2, 3]);
    const echo = await client.completions.create({ model: 'stories', prompt: story, max_tokens: 12, temperature: 0,
        echo: true });
    assert.equal(echo.choices[0].text, story + one.choices[0].text);
    const word = one.choices[0].text.trim().split(' ')[2];
    const stopped = await client.completions.create({ model: 'stories', prompt: story, max_tokens: 12, temperature: 0,
        stop: word });
    assert.equal(stopped.choices[0].finish_reason, 'stop');
    assert.equal(stopped.choices[0].text, one.choices[0].text.split(word)[0]);
});

test('log-probabilities belong to the tokens and are sorted', async () => {
    const chat = await client.chat.completions.create({ ...ask, max_tokens: 6, logprobs: true, top_logprobs: 3 });
    const { content } = chat.choices[0].logprobs;
    assert.equal(content.length, 6);
    assert.equal(content.map((t) => t.token).join(''), chat.choices[0].message.content);
    for (const t of content) {
        assert.equal(t.top_logprobs.length, 3);
        assert.ok(t.top_logprobs[0].logprob >= t.top_logprobs[1].logprob);
        assert.equal(t.top_logprobs[0].token, t.token); // greedy
        assert.equal(t.top_logprobs[0].logprob, t.logprob);
        assert.equal(Buffer.from(t.bytes).toString(), t.token);
    }
    const text = await client.completions.create({ model: 'stories', prompt: story, max_tokens: 4, temperature: 0,
        logprobs: 2 });
    assert.equal(text.choices[0].logprobs.tokens.join(''), text.choices[0].text);
    assert.equal(text.choices[0].logprobs.text_offset[1], text.choices[0].logprobs.tokens[0].length);
    // Offsets count characters of `text`, which has no special tokens: each token stands where its offset says.
    const echoed = (await client.completions.create({ model: 'stories', prompt: 'Caf\u00e9 \ud83e\udd8a and',
        echo: true, max_tokens: 2, temperature: 0, logprobs: 0 })).choices[0];
    const { tokens, text_offset: offsets } = echoed.logprobs, letters = [...echoed.text];
    assert.deepEqual(offsets.slice(0, 2), [0, 0]);
    assert.equal(tokens[0], '<|begin_of_text|>');
    let whole = 0;
    for (let i = 1; i < tokens.length; i++) {
        if (tokens[i].includes('\ufffd')) continue; // a part of a character
        assert.equal(letters.slice(offsets[i], offsets[i] + [...tokens[i]].length).join(''), tokens[i], `token ${i}`);
        whole++;
    }
    assert.ok(whole > 3 && offsets.at(-1) < letters.length);
});

test('the same seed gives the same text, in any company', async () => {
    const params = { model: 'stories', prompt: story, max_tokens: 24, temperature: 1 };
    const seeds = [...Array(16).keys()];
    const alone = [];
    for (const seed of seeds) alone.push((await client.completions.create({ ...params, seed })).choices[0].text);
    const together = await Promise.all(seeds.map((seed) => client.completions.create({ ...params, seed })));
    assert.deepEqual(together.map((t) => t.choices[0].text), alone);
    assert.ok(new Set(alone).size > 8);
});

test('best_of keeps the likeliest', async () => {
    const params = { model: 'stories', prompt: story, max_tokens: 8, temperature: 1, seed: 7, logprobs: 0 };
    const mean = (c) => c.logprobs.token_logprobs.reduce((a, b) => a + b) / c.logprobs.token_logprobs.length;
    const all = await client.completions.create({ ...params, n: 4 });
    const best = await client.completions.create({ ...params, best_of: 4, n: 1 });
    const highest = all.choices.reduce((a, b) => (mean(a) >= mean(b) ? a : b));
    assert.equal(best.choices.length, 1);
    assert.equal(best.choices[0].text, highest.text);
});

test('a schema and a grammar hold', async () => {
    const schema = { type: 'object', properties: { age: { type: 'integer' }, kind: { enum: ['cat', 'dog'] } },
        required: ['age', 'kind'], additionalProperties: false };
    let n = 0;
    for (let seed = 0; seed < 4; seed++) {
        const chat = await client.chat.completions.create({ ...ask, temperature: 0.5, seed, max_tokens: 200,
            response_format: { type: 'json_schema', json_schema: { name: 'pet', schema } } });
        if (chat.choices[0].finish_reason === 'length') continue;
        const pet = JSON.parse(chat.choices[0].message.content);
        assert.ok(Number.isInteger(pet.age) && ['cat', 'dog'].includes(pet.kind));
        n++;
    }
    assert.ok(n > 0);
    const text = await client.completions.create({ model: 'stories', prompt: story, max_tokens: 20, temperature: 1,
        seed: 1, grammar: 'root ::= " yes" | " no"' });
    assert.match(text.choices[0].text, /^ (yes|no)$/);
    assert.equal(text.choices[0].finish_reason, 'stop');
    await assert.rejects(client.completions.create({ model: 'stories', prompt: story, grammar: 'root ::= (' }),
        OpenAI.BadRequestError);
});

test('what cannot be done is refused by name', async () => {
    const refused = async (extra, words) => assert.rejects(client.chat.completions.create({ ...ask, ...extra }),
        (e) => e instanceof OpenAI.BadRequestError && words.test(e.message));
    await refused({ temperature: -1 }, /temperature: -1 found, a number from 0 to 100 expected/);
    await refused({ max_tokens: 1.5 }, /max_tokens: 1\.5 found, a whole number/);
    await refused({ frobnicate: 1 }, /frobnicate: an unknown field/);
    await refused({ messages: [] }, /messages: .* at least one message expected/);
    await refused({ messages: [{ role: 'user', content: [{ type: 'image_url' }] }] }, /"image_url" found/);
    await refused({ messages: [{ role: 'user', content: 'a '.repeat(20000) }] }, /prompt/);
    await assert.rejects(client.models.retrieve('gpt-9'), OpenAI.NotFoundError);
});

test('a client that leaves frees its sequence', async () => {
    const stream = await client.completions.create({ model: 'stories', prompt: story, max_tokens: 100000,
        ignore_eos: true, stream: true });
    let n = 0;
    for await (const chunk of stream) if (chunk && ++n === 3) stream.controller.abort();
    await until(async () => (await metric(server, 'tern_sequences_running')) === 0);
    const abort = new AbortController();
    const whole = client.completions.create({ model: 'stories', prompt: story, max_tokens: 100000, ignore_eos: true },
        { signal: abort.signal });
    await until(async () => (await metric(server, 'tern_sequences_running')) === 1);
    abort.abort();
    await assert.rejects(whole, OpenAI.APIUserAbortError);
    await until(async () => (await metric(server, 'tern_sequences_running')) === 0);
});
