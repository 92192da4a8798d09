// 64 requests of every kind at once: each gives byte for byte the text that it gives alone, however the server cuts
// prompts into steps, with and without reuse of prefixes, and where a pool that is too small puts sequences back.
import assert from 'node:assert/strict';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { trainAdapter } from './support/adapters.mjs';
import { metric, startServer } from './support/server.mjs';

const folder = mkdtempSync(join(tmpdir(), 'tern-mixed-'));
const schema = { type: 'object', properties: { name: { type: 'string', maxLength: 12 }, age: { type: 'integer' } },
    required: ['name', 'age'] };
const tools = [{ type: 'function', function: { name: 'f', parameters: schema } }];
const say = (text) => [{ role: 'user', content: text }];

/** The i-th of 64: [path, body]. Every kind comes with short and long prompts, seeds, adapters, streamed and not. */
function request(i) {
    const text = 'Once upon a time there was a girl. '.repeat(1 + i % 5) + ['', 'She', 'Then one day'][i % 3];
    const shared = { model: ['stories', 'moon', 'stories', 'sea'][(i >> 3) % 4], seed: i, stream: i % 2 === 1,
        max_tokens: 8 + i % 13 };
    const kinds = [
        ['/v1/completions', { prompt: text, temperature: 0 }],
        ['/v1/completions', { prompt: text, temperature: 1.2, top_p: 0.9, frequency_penalty: 0.5, logprobs: 2 }],
        ['/v1/completions', { prompt: [text, 'A dog'], n: 3, temperature: 1, stop: ['.', 'the'] }],
        ['/v1/completions', { prompt: text, grammar: 'root ::= ("red" | "blue") (" " root)?', temperature: 1 }],
        ['/v1/chat/completions', { messages: say(text), temperature: 0.8, top_k: 40, logit_bias: { 5: -100 } }],
        ['/v1/chat/completions', { messages: say(text), temperature: 1, max_tokens: 40,
            response_format: { type: 'json_schema', json_schema: { name: 'a', schema } } }],
        ['/v1/chat/completions', { messages: say(text), n: 2, repetition_penalty: 1.2, min_p: 0.05 }],
        ['/v1/chat/completions', { messages: say(text), tools, tool_choice: 'required', temperature: 1,
            max_tokens: 60 }],
    ];
    const [path, body] = kinds[i % kinds.length];
    return [path, { ...shared, ...body, stream: (i >> 2) % 2 === 1 }];
}
const requests = Array.from({ length: 64 }, (_, i) => request(i));

/** Sixteen texts of one prompt, which all run together, whenever they arrive: as long as the context allows, so that a
 * small pool has no room for them. */
const crowd = ['/v1/completions', { model: 'stories', prompt: 'Once upon a time', n: 16, max_tokens: 240,
    temperature: 1, seed: 7, ignore_eos: true }];

/** What a document or stream says of each choice: its text, its calls and its log-probabilities, without ids. */
function said(text, stream) {
    const documents = stream ? text.split('\n').filter((line) => line.startsWith('data: {'))
        .map((line) => JSON.parse(line.slice(6))) : [JSON.parse(text)];
    const choices = [];
    for (const document of documents) {
        assert.ok(document.choices, text);
        for (const c of document.choices) {
            const own = choices[c.index] ??= { text: '', calls: '', logprobs: [] };
            const message = c.message ?? c.delta;
            own.text += c.text ?? message?.content ?? '';
            for (const { function: f } of message?.tool_calls ?? []) own.calls += (f.name ?? '') + (f.arguments ?? '');
            own.logprobs.push(...c.logprobs?.token_logprobs ?? []);
            own.reason = c.finish_reason ?? own.reason;
        }
    }
    return choices;
}

async function ask(server, [path, body]) {
    const answer = await fetch(server.url + path, { method: 'POST', body: JSON.stringify(body) });
    const text = await answer.text();
    assert.equal(answer.status, 200, `${path} ${JSON.stringify(body)}: ${text}`);
    return said(text, body.stream);
}

let adapters, alone, crowdAlone;
const flags = ['--template', join(import.meta.dirname, 'support', 'hermes.jinja'), '--ctx', '256', '--no-log'];

async function withServer(more, use) {
    const server = await startServer([...flags, ...adapters, ...more]);
    try {
        return await use(server);
    } finally {
        assert.equal(await server.stop(), 0, server.output());
    }
}

before(async () => {
    adapters = ['moon', 'sea'].flatMap((name) => ['--lora', `${name}=${trainAdapter(folder, name, `The ${name}. `)}`]);
    alone = await withServer(['--parallel', '1', '--no-prefix-reuse'], async (server) => {
        const texts = [];
        for (const one of requests) texts.push(await ask(server, one));
        crowdAlone = await ask(server, crowd);
        return texts;
    });
    assert.ok(new Set(alone.map((choices) => JSON.stringify(choices))).size > 48); // they do differ
    assert.equal(alone.flat().filter((c) => c.calls.startsWith('f{')).length, 8);
});

for (const [name, more, seen] of [
    ['prefixes reused', ['--parallel', '16'], 'tern_cached_tokens_total'],
    ['no prefixes reused', ['--parallel', '64', '--no-prefix-reuse']],
    ['prompts in pieces, with guesses', ['--parallel', '16', '--chunk', '3', '--draft', 'ngram']],
    ['steps of eight tokens', ['--parallel', '8', '--batch', '8', '--no-prefix-reuse']],
    ['a small pool', ['--parallel', '16', '--cache', '3M'], 'tern_preemptions_total'],
    ['a small pool without reuse, in pieces', ['--parallel', '16', '--cache', '3M', '--chunk', '5',
        '--no-prefix-reuse'], 'tern_preemptions_total'],
])
    test(`64 mixed requests give what each gives alone: ${name}`, async () => {
        await withServer(more, async (server) => {
            const texts = await Promise.all(requests.map((one) => ask(server, one)));
            for (const [i, text] of texts.entries()) assert.deepEqual(text, alone[i], JSON.stringify(requests[i]));
            if (seen === 'tern_preemptions_total') assert.deepEqual(await ask(server, crowd), crowdAlone);
            if (seen) assert.ok(await metric(server, seen) > 0, seen);
        });
    });
