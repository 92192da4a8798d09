// Faults by the thousand: connections that are idle or slow, aborted streams, random and mutated requests, and memory
// that stays flat over many requests. TERN_SERVE_FAULTS=N makes each N times as many; the full size is 100 (1,000
// connections, 10,000 requests), and 500 (100,000 mutated ones) with TERN=build/asan/tern, whose memory is no measure.
// TERN_TEST_SEED takes another seed.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { metric, startServer, until } from './support/server.mjs';

const times = Number(process.env.TERN_SERVE_FAULTS ?? 1);
const seed = Number(process.env.TERN_TEST_SEED ?? 17);
const head = 'POST /v1/completions HTTP/1.1\r\nHost: a\r\n';
const story = { prompt: 'Once upon a time', max_tokens: 4, temperature: 0 };
const agent = new Agent({ keepAlive: true, maxSockets: 8 });
let server, hasty; // the second closes what is idle for a second

before(async () => {
    const flags = ['--no-log', '--parallel', '8', '--ctx', '128'];
    server = await startServer([...flags, '--lora-dir', import.meta.dirname, '--template',
        join(import.meta.dirname, 'support', 'hermes.jinja')]);
    hasty = await startServer(['--idle-timeout', '1', ...flags]);
});
after(async () => {
    agent.destroy();
    for (const one of [server, hasty]) assert.equal(await one?.stop(), 0, one?.output());
});

/**
 * The status; the error where the connection ended without one. One that was kept may be closed as idle in the moment
 * that it is used again, which HTTP leaves to clients: they ask again.
 */
const post = (path, body, { port } = server) => new Promise((resolve) => {
    const sent = request({ port, path, method: 'POST', agent }, (answer) => {
        answer.resume().on('end', () => resolve(answer.statusCode)).on('error', () => resolve(0));
    });
    const again = (error) => error.code === 'ECONNRESET' && sent.reusedSocket;
    sent.on('error', (error) => resolve(again(error) ? post(path, body, { port }) : error.code)).end(body);
});

async function inTurns(n, each, width = 8) {
    let i = 0;
    await Promise.all(Array.from({ length: width }, async () => {
        while (i < n) await each(i++);
    }));
}

/** Numbers below n, the same for the same seed (mulberry32). */
function chance(state) {
    return (n) => {
        state = (state + 0x6d2b79f5) | 0;
        let t = Math.imul(state ^ (state >>> 15), 1 | state);
        t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
        return ((t ^ (t >>> 14)) >>> 0) % n;
    };
}

test('nine of ten connections idle or slow: the others are answered', async () => {
    const n = Math.min(10 * times, 1000), begun = ['', 'POST /v1', head, `${head}Content-Length: 99\r\n\r\n{"pro`];
    const idle = Array.from({ length: n * 9 / 10 }, (_, i) => {
        const socket = connect(hasty.port, '127.0.0.1');
        const closed = new Promise((resolve) => socket.on('close', resolve));
        socket.on('error', () => {}).resume().write(begun[i % begun.length]);
        return { socket, closed };
    });
    const slow = setInterval(() => idle.forEach(({ socket }, i) => i % 4 === 3 && socket.write(' ')), 200);
    const answered = async () => assert.equal(await post('/v1/completions', JSON.stringify(story), hasty), 200);
    await inTurns(Math.max(n / 10, 4), answered);
    await Promise.all(idle.map((c) => c.closed)); // slow ones too: a request must be whole in time
    clearInterval(slow);
});

test('aborted streams leave nothing behind', async () => {
    await inTurns(10 * times, async (i) => {
        const body = JSON.stringify({ prompt: `${i}. Once`, ignore_eos: true, max_tokens: 1000, stream: true });
        await new Promise((resolve) => {
            const sent = request({ port: server.port, path: '/v1/completions', method: 'POST' }, (answer) => {
                answer.once('data', () => sent.destroy()).on('error', () => {});
            });
            sent.on('error', () => {}).on('close', resolve).end(body);
        });
    });
    await until(async () => (await metric(server, 'tern_sequences_running')) === 0);
});

const tools = [{ type: 'function', function: { name: 'f', parameters: { type: 'object',
    properties: { a: { enum: [1, 'b'] } } } } }];
const messages = [{ role: 'system', content: 'a' }, { role: 'user', content: [{ type: 'text', text: 'b' }] }];
const good = [
    ['/v1/chat/completions', { messages, max_tokens: 2, stream: true, stream_options: { include_usage: true } }],
    ['/v1/chat/completions', { messages, tools, tool_choice: 'none', max_tokens: 2, logprobs: true, top_logprobs: 2 }],
    ['/v1/chat/completions', { messages, max_tokens: 3, response_format: { type: 'json_schema', json_schema: { schema:
        { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] } } } }],
    ['/v1/completions', { prompt: ['a', [1, 2]], max_tokens: 2, n: 2, best_of: 2, echo: true, stop: ['x'], seed: 1 }],
    ['/v1/completions', { prompt: 'a', max_tokens: 2, logit_bias: { 5: -100 }, grammar: 'root ::= [a-z]+ | "x" root' }],
    ['/v1/responses', { input: 'a', instructions: 'b', max_output_tokens: 2, stream: true }],
    ['/v1/responses', { input: [{ role: 'user', content: 'a' }, { type: 'function_call', call_id: 'c', name: 'f',
        arguments: '{"a": 1}' }, { type: 'function_call_output', call_id: 'c', output: 'b' }],
    tools: [{ type: 'function', ...tools[0].function }], tool_choice: { type: 'function', name: 'f' },
    max_output_tokens: 40, stream: true }],
    ['/v1/chat/completions', { messages, tools, tool_choice: 'required', max_tokens: 40, stream: true }],
    ['/v1/embeddings', { input: ['a', 'b'], dimensions: 4, encoding_format: 'base64' }],
    ['/v1/messages', { max_tokens: 2, system: 'a', messages, tools: [{ name: 'f', input_schema: {} }] }],
    ['/v1/messages/count_tokens', { messages }],
    ['/api/chat', { messages: [{ role: 'user', content: 'a' }], options: { num_predict: 2, num_ctx: 64 } }],
    ['/api/generate', { prompt: 'a', raw: true, format: 'json', options: { num_predict: 2 } }],
    ['/completion', { prompt: 'a', n_predict: 2, n_probs: 2 }],
    ['/completion', { prompt: 'a', n_predict: 2, lora: [] }],
    ['/lora-adapters', []],
    ['/v1/load_lora_adapter', { lora_name: 'a', lora_path: 'b', load_inplace: true }],
    ['/v1/unload_lora_adapter', { lora_name: 'a' }],
    ['/tokenize', { content: 'a b', with_pieces: true }],
    ['/detokenize', { tokens: [1, 2, 3] }],
    ['/apply-template', { messages: [{ role: 'user', content: 'a' }] }],
];

/** A body with some of its bytes changed, cut, doubled, or exchanged with words that JSON and requests know. */
function mutated(text, pick) {
    const words = ['null', 'true', '-1', '1e99', '0.5', '"', '{', '}', '[', ']', ',', '\\u0000', '\\ud800', '\\',
        '[[[[[[[[', '99999999999999999999', '""', '{"a":{}}', '"name"', '"role"', '"tool"', '"content"', '\x80', '\0'];
    for (let n = 1 + pick(4); n > 0; n--) {
        const at = pick(text.length + 1), end = at + pick(12);
        const again = text.slice(pick(text.length + 1)).slice(0, 40);
        const part = pick(3) ? words[pick(words.length)] : pick(2) ? again : '';
        text = text.slice(0, at) + part + text.slice(end);
    }
    return Buffer.from(text, 'latin1');
}

/** A document that is still one: some of its values exchanged, taken out, nested, or under names of other requests. */
function grafted(document, pick) {
    const values = [null, true, false, 0, 1, -1, 2, 0.5, 1e30, '', 'a', 'user', 'auto', 'required', 'x'.repeat(999), [],
        {}, [[]], { type: 'object' }, { type: 'string', pattern: '(a|b)*c' }, { enum: [1] }, { $ref: '#' }, [1, 2, 3],
        'root ::= root', 'root ::= "a" root | "b"', ['a', 'b'], { type: 'function', function: { name: 'f' } }];
    const places = [], names = new Set();
    const visit = (value, inside, key) => {
        if (inside) places.push([inside, key]);
        if (value && typeof value === 'object')
            for (const k of Object.keys(value)) {
                if (!Array.isArray(value)) names.add(k);
                visit(value[k], value, k);
            }
    };
    const all = structuredClone(document);
    visit(all);
    good.forEach(([, other]) => Object.keys(other).forEach((k) => names.add(k)));
    for (let n = 1 + pick(3); n > 0 && places.length; n--) {
        const [inside, key] = places[pick(places.length)], what = pick(6);
        const [from, of] = places[pick(places.length)];
        const other = structuredClone(pick(3) ? values[pick(values.length)] : from[of]);
        if (what === 0) delete inside[key];
        else if (what === 1) inside[key] = [inside[key], other];
        else if (what === 2 && !Array.isArray(inside)) inside[[...names][pick(names.size)]] = other;
        else inside[key] = other;
    }
    return JSON.stringify(all);
}

test('random and mutated requests are answered or refused, and never fail the server', async (t) => {
    const pick = chance(seed), seen = {};
    await inTurns(200 * times, async (i) => {
        const [path, body] = good[i % good.length];
        const bytes = pick(20) === 0 ? Buffer.from(Array.from({ length: pick(64) }, () => pick(256)))
            : pick(2) ? mutated(JSON.stringify(body), pick) : Buffer.from(grafted(body, pick));
        const status = await post(path, bytes);
        seen[status] = (seen[status] ?? 0) + 1;
        assert.ok([200, 400, 404].includes(status), `seed ${seed}: ${status} to ${path} ${bytes.toString('latin1')}`);
    });
    t.diagnostic(`answers by status: ${JSON.stringify(seen)}`);
    assert.ok(seen[200] > 0 && seen[400] > 0, JSON.stringify(seen));
    await until(async () => (await metric(server, 'tern_sequences_running')) === 0);
});

test('documents, schemas and grammars that are deep, wide or endless are answered or refused by name', async () => {
    const nest = (n, wrap, inner) => Array.from({ length: n }).reduce((inside) => wrap(inside), inner);
    const deepText = (n) => '['.repeat(n) + ']'.repeat(n);
    const schemas = [10, 60, 400].flatMap((n) => [
        nest(n, (s) => ({ type: 'object', properties: { a: s }, required: ['a'] }), { type: 'null' }),
        ...[1, 2, 9].map((maxItems) => nest(n, (s) => ({ type: 'array', items: s, maxItems }), { type: 'null' })),
        nest(n, (s) => ({ anyOf: [s, { type: 'null' }] }), { type: 'null' }),
        { type: 'string', pattern: '('.repeat(n) + 'a' + ')*'.repeat(n) },
    ]).concat([
        { $ref: '#' }, { anyOf: [{ $ref: '#' }, { $ref: '#' }] },
        { $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } }, $ref: '#/$defs/a' },
        { enum: Array.from({ length: 20000 }, (_, i) => `word${i}`) },
        { type: 'object', properties: Object.fromEntries(Array.from({ length: 3000 }, (_, i) => [`k${i}`, {}])) },
        { type: 'string', pattern: '(a{1,999}){1,999}' }, { type: 'string', maxLength: 1e9 },
        { type: 'array', minItems: 1e6, items: { type: 'string' } }, { type: 'string', pattern: '(a|a)*(a|a)*(a|a)*b' },
    ]);
    const grammars = ['root ::= root', 'root ::= root "a" | "a"', `root ::= ${'('.repeat(500)}"a"${')'.repeat(500)}`,
        `root ::= ${'('.repeat(5000)}`, 'root ::= ("a"{0,9999}){0,9999}', 'root ::= (([a-z]?){0,300} "x"?){0,300}',
        `root ::= "a"${'*'.repeat(3000)}`,
        Array.from({ length: 3000 }, (_, i) => `${i ? `r${i}` : 'root'} ::= r${i + 1} | "a"`).join('\n')];
    const bodies = [
        ...schemas.map((schema) => ['/v1/chat/completions', { messages, max_tokens: 4,
            response_format: { type: 'json_schema', json_schema: { name: 'a', schema } } }]),
        ...schemas.map((parameters) => ['/v1/chat/completions', { messages, max_tokens: 4, tool_choice: 'required',
            tools: [{ type: 'function', function: { name: 'f', parameters } }] }]),
        ...grammars.map((grammar) => ['/completion', { prompt: 'a', n_predict: 4, grammar }]),
    ].map(([path, body]) => [path, JSON.stringify(body)]).concat([50, 500, 100000].flatMap((n) => [
        ['/v1/completions', `{"prompt": ${deepText(n)}}`], ['/v1/chat/completions', deepText(n)],
        ['/v1/messages', `{"max_tokens": 2, "messages": [{"role": "user", "content": ${deepText(n)}}]}`],
        ['/v1/chat/completions', `{"messages": [{"role": "assistant", "content": "", "tool_calls": [{"id": "a",
            "function": {"name": "f", "arguments": ${JSON.stringify(deepText(n))}}}]}], "max_tokens": 2}`]]));
    const seen = {};
    await inTurns(bodies.length, async (i) => {
        const status = await post(...bodies[i]);
        seen[status] = (seen[status] ?? 0) + 1;
        assert.ok([200, 400].includes(status), `${status} to ${bodies[i][0]} ${bodies[i][1].slice(0, 300)}`);
    }, 4);
    assert.ok(seen[200] > 4 && seen[400] > 4, JSON.stringify(seen));
    assert.equal(await post('/v1/completions', JSON.stringify(story)), 200);
});

test('a grammar that meets a bound is the client\'s fault, in a stream too', async () => {
    const send = (path, body) => fetch(server.url + path, { method: 'POST', body: JSON.stringify(body) });
    const nested = { ...story, grammar: 'root ::= ("a"{0,9999}){0,9999}' };
    for (const stream of [false, true]) {
        const answer = await send('/v1/completions', { ...nested, stream });
        assert.equal(answer.status, 400);
        assert.match((await answer.json()).error.message, /more than 65536 ways: fewer or smaller repetitions/);
    }
    // The first tokens fit.
    const later = { ...story, max_tokens: 100, ignore_eos: true,
        grammar: 'root ::= ([a-zA-Z0-9 ,.]{0,200} "b"?){0,200}' };
    const whole = await send('/v1/completions', later);
    assert.equal(whole.status, 400);
    assert.match((await whole.json()).error.message, /rule `root` takes more than 524288 steps for one token/);
    const streamed = await send('/v1/completions', { ...later, stream: true });
    assert.equal(streamed.status, 200);
    assert.match(await streamed.text(), /"error".*takes more than 524288 steps/);
});

test('heads that are no HTTP close the connection', async () => {
    const pick = chance(seed);
    await inTurns(20 * times, async () => {
        const text = mutated(`${head}Content-Length: 2\r\n\r\n{}`, pick);
        await new Promise((resolve) => {
            const socket = connect(hasty.port, '127.0.0.1');
            socket.on('error', () => {}).on('close', resolve).resume().end(text);
        });
    });
    assert.equal(await post('/v1/completions', JSON.stringify(story), hasty), 200);
});

/** KiB that the server's process holds, where the system says so. */
function resident() {
    try {
        return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${server.pid}/status`, 'utf8'))[1]);
    } catch {
        return NaN;
    }
}

test('many requests take no more memory than some', async (t) => {
    const many = (n) => inTurns(n, async (i) => {
        const [path, body] = good[i % good.length];
        const status = await post(path, JSON.stringify(body));
        assert.ok([200, 400, 404].includes(status), `${status} to ${path}, request ${i}: ${server.output()}`);
    });
    await many(100 * Math.min(times, 10));
    const before = resident();
    if (!before) return t.skip('no /proc');
    await many(100 * times);
    const more = resident() - before;
    t.diagnostic(`${before} KiB after the first requests, ${more} KiB more after ${100 * times} others`);
    // What is more is of threads' arenas, not of requests.
    assert.ok(process.env.TERN?.includes('asan') || more < 8192, `${more} KiB more`);
});
