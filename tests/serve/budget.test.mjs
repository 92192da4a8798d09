// A request's cost falls on itself: a grammar that takes long ends with an error that names its rule. Others' tokens go
// on meanwhile, at their pace and with their text.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { root, startServer } from './support/server.mjs';

let server;
before(async () => {
    server = await startServer([], join(root, 'models', 'chat.gguf'));
});
after(() => server.stop());

const say = [{ role: 'user', content: 'Tell me a story.' }];
const long = { prompt: 'Once upon a time', max_tokens: 400, temperature: 0, ignore_eos: true };
const constrained = { ...long, max_tokens: 100, grammar: 'root ::= ([a-z]+ " "?)+' };

/** Streams an answer: {status, text, error}, and the longest time without a byte in ms. */
async function stream(body, path = '/v1/completions') {
    const answer = await fetch(server.url + path, { method: 'POST', body: JSON.stringify({ stream: true, ...body }) });
    if (answer.status !== 200) return { status: answer.status, error: (await answer.json()).error.message };
    let longest = 0, last, whole = '';
    for await (const part of answer.body) {
        const now = performance.now();
        longest = Math.max(longest, now - (last ?? now));
        last = now;
        whole += Buffer.from(part);
    }
    const events = whole.split('\n').filter((line) => line.startsWith('data: {'))
        .map((line) => JSON.parse(line.slice(6)));
    return { status: 200, longest, text: events.map((e) => e.choices?.[0]?.text ?? '').join(''),
        error: events.find((e) => e.error)?.error.message };
}

const schema = { type: 'object', required: ['a'],
    properties: { a: { type: 'string', pattern: '^(.{1,1000}){1,100}$' } } };
const attacks = {
    'a repetition of repetitions': ['/v1/completions', { prompt: 'Once', max_tokens: 200, n: 8,
        grammar: 'root ::= (.{1,1000}){1,100}' }, /rule `root` takes more than 524288 steps for one token/],
    'a rule of another name': ['/v1/completions', { prompt: 'Once', max_tokens: 200, n: 4,
        grammar: 'root ::= "a" slow\nslow ::= ([a-zA-Z0-9 ,.]{0,200} "b"?){0,200}' }, /rule `slow` takes more than/],
    'a pattern of a schema': ['/v1/chat/completions', { messages: say, max_tokens: 200, n: 4,
        response_format: { type: 'json_schema', json_schema: { name: 'x', schema } } },
    /schema: \/properties\/a\/pattern takes more than/],
    'the parameters of a tool': ['/v1/chat/completions', { messages: say, max_tokens: 200, n: 4,
        tools: [{ type: 'function', function: { name: 'f', parameters: schema } }], tool_choice: 'required' },
    /tool f: schema: \/properties\/a\/pattern takes more than|tools:/],
};

test('others go on beside a grammar that takes long', async (t) => {
    const alone = [await stream(long), await stream(constrained)];
    for (const one of alone) assert.equal(one.error, undefined);
    for (const [name, [path, body, error]] of Object.entries(attacks)) {
        const attack = stream({ ignore_eos: true, temperature: 1, seed: 3, ...body }, path);
        const beside = await Promise.all([stream(long), stream(constrained)]);
        beside.forEach((one, i) => {
            assert.equal(one.text, alone[i].text, name);
            assert.equal(one.error, undefined);
            assert.ok(one.longest < 2000, `${name}: ${one.longest} ms without a token`);
        });
        t.diagnostic(`${name}: at most ${beside.map((one) => one.longest.toFixed()).join(' and ')} ms without a token`);
        assert.match((await attack).error, error);
    }
});

test('a request that is not streamed ends with status 400 and the same words', async () => {
    const [path, body, error] = attacks['a repetition of repetitions'];
    const answer = await fetch(server.url + path, { method: 'POST',
        body: JSON.stringify({ ignore_eos: true, temperature: 1, seed: 3, ...body }) });
    assert.equal(answer.status, 400);
    assert.match((await answer.json()).error.message, error);
});

test('a client that goes away takes its grammar with it', async () => {
    const [path, body] = attacks['a repetition of repetitions'];
    for (let i = 0; i < 4; i++) {
        const stop = new AbortController();
        const gone = fetch(server.url + path, { method: 'POST', signal: stop.signal,
            body: JSON.stringify({ stream: true, ignore_eos: true, seed: i, ...body }) });
        await gone.then((answer) => answer.body.getReader().read());
        stop.abort();
    }
    assert.equal((await stream(constrained)).error, undefined);
});
