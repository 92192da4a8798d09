// Members that clients of llama.cpp's server, vLLM and OpenAI send: at values that change nothing they are taken, and
// those that choose tokens are obeyed. A server with one model answers to any name.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startServer } from './support/server.mjs';

let server;
before(async () => {
    server = await startServer(['--draft', 'ngram']);
});
after(() => server?.stop());

const prompt = 'Once upon a time there was a fox and a fox and a';
const messages = [{ role: 'user', content: prompt }];

async function post(path, body, to = server) {
    const answer = await fetch(to.url + path, { method: 'POST', body: JSON.stringify(body) });
    return [answer.status, await answer.json()];
}

/** The text of /completion, which must be taken. */
async function text(more) {
    const [status, answer] = await post('/completion', { prompt, n_predict: 24, seed: 5, temperature: 1, ...more });
    assert.equal(status, 200, JSON.stringify(answer));
    return answer.content;
}

const llama = { dynatemp_range: 0, dynatemp_exponent: 1, xtc_probability: 0, xtc_threshold: 0.1, dry_multiplier: 0,
    dry_base: 1.75, dry_allowed_length: 2, dry_penalty_last_n: -1, dry_sequence_breakers: ['\n', ':', '"', '*'],
    mirostat: 0, mirostat_tau: 5, mirostat_eta: 0.1, min_keep: 0, top_n_sigma: -1, repeat_penalty: 1,
    repeat_last_n: 64, cache_prompt: true, id_slot: -1, n_keep: 0, t_max_predict_ms: -1, response_fields: [],
    post_sampling_probs: false, return_progress: false, tfs_z: 1, penalize_nl: false };
const openai = { verbosity: 'medium', store: false, metadata: { a: 'b' }, parallel_tool_calls: true, functions: [],
    function_call: 'none', service_tier: 'auto', user: 'me', safety_identifier: 'x', prompt_cache_key: 'k',
    skip_special_tokens: true, length_penalty: 1, use_beam_search: false, min_tokens: 0 };

test('values that change nothing are taken', async () => {
    assert.equal(await text({ ...llama, n_probs: 0 }), await text({}));
    const ask = { messages, max_tokens: 12, seed: 1 };
    const [, plain] = await post('/v1/chat/completions', ask);
    for (const more of [llama, openai, { top_k: -1 }, { logit_bias: [] }]) {
        const [status, answer] = await post('/v1/chat/completions', { ...ask, ...more });
        assert.equal(status, 200, JSON.stringify(answer));
        assert.equal(answer.choices[0].message.content, plain.choices[0].message.content);
    }
    assert.equal((await post('/v1/completions', { prompt, max_tokens: 4, ...llama }))[0], 200);
    const [status, endless] = await post('/v1/chat/completions', { messages, max_tokens: -1, seed: 1 });
    assert.equal(status, 200);
    assert.ok(endless.usage.completion_tokens > 12);
});

test('other values are refused by name', async () => {
    const refused = [{ verbosity: 'huge' }, { functions: [{}] }, { mirostat: 1 }, { min_keep: 2 },
        { samplers: ['quick'] }, { samplers: 'kz' }, { samplers: ['top_k', 'top_k'] }, { t_max_predict_ms: 100 },
        { skip_special_tokens: false }, { min_tokens: 3 }, { dry_sequence_breakers: [''] }, { xtc_probability: 2 },
        { logit_bias: [[1]] }, { logit_bias: [[{}, 1]] }];
    for (const more of refused) {
        const [status, answer] = await post('/v1/chat/completions', { messages, max_tokens: 2, ...more });
        assert.equal(status, 400, JSON.stringify(more));
        const name = Object.keys(more)[0];
        const words = { samplers: 'sampler', dry_sequence_breakers: 'DRY breaker', functions: 'tools' };
        assert.match(answer.error.message, new RegExp(words[name] ?? name), JSON.stringify(more));
    }
});

test('samplers that people set are obeyed, and a seed gives the same text', async () => {
    const plain = await text({});
    const sets = [{ xtc_probability: 1, xtc_threshold: 0.05 }, { dry_multiplier: 8, dry_allowed_length: 1 },
        { dynatemp_range: 0.9 }, { top_n_sigma: 0.3 }, { mirostat: 2, mirostat_tau: 1 },
        { samplers: ['temperature'], temperature: 1.5 }];
    const texts = await Promise.all(sets.map((more) => text(more)));
    for (const [i, more] of sets.entries()) assert.equal(await text(more), texts[i], JSON.stringify(more));
    assert.ok(texts.filter((t) => t !== plain).length >= 4, JSON.stringify([plain, texts]));
    assert.equal(await text({ samplers: ['top_k'], top_k: 1 }), await text({ samplers: 'k', top_k: 1 }));
    assert.equal(await text({ samplers: ['top_k'], top_k: 1 }), await text({ temperature: 0 }));
    const [, chat] = await post('/v1/chat/completions', { messages, max_tokens: 12, mirostat: 2, mirostat_tau: 0.5 });
    assert.ok(chat.choices[0].message.content);
});

test('biases are pairs, objects and texts', async () => {
    const [, { tokens: [id] }] = await post('/tokenize', { content: ' fox' });
    const first = async (logit_bias) => await text({ n_predict: 1, temperature: 0, logit_bias });
    assert.equal(await first([[id, 50]]), ' fox');
    assert.equal(await first({ [id]: 50 }), ' fox');
    assert.equal(await first([[' fox', 50]]), ' fox');
    const plain = await first([]);
    const [, { tokens }] = await post('/tokenize', { content: plain });
    assert.notEqual(await first([[tokens[0], false]]), plain);
    assert.notEqual(await first([[plain, -100]]), plain);
});

test('one model answers to any name, and says its own', async () => {
    for (const [path, body] of [['/v1/chat/completions', { messages }], ['/v1/completions', { prompt }],
        ['/v1/messages', { messages }], ['/api/chat', { messages, stream: false, options: { num_predict: 2 } }]]) {
        const [status, answer] = await post(path, { model: 'gpt-4o', max_tokens: path[1] === 'v' ? 2 : undefined,
            ...body });
        assert.equal(status, 200, JSON.stringify(answer));
        assert.equal(answer.model, 'stories');
    }
    assert.equal((await fetch(`${server.url}/v1/models/gpt-4o`)).status, 404);
    const strict = await startServer(['--strict-model']);
    try {
        const [status, answer] = await post('/v1/chat/completions', { model: 'gpt-4o', messages }, strict);
        assert.equal(status, 404);
        assert.equal(answer.error.code, 'model_not_found');
        assert.match(answer.error.message, /the model "gpt-4o" does not exist/);
        const known = { model: 'stories', messages, max_tokens: 1 };
        assert.equal((await post('/v1/chat/completions', known, strict))[0], 200);
    } finally {
        await strict.stop();
    }
});

test('unknown paths say so', async () => {
    const [status, answer] = await post('/v1/foo', {});
    assert.equal(status, 404);
    assert.equal(answer.error.message, 'no endpoint POST /v1/foo');
    assert.equal(answer.error.code, null);
    assert.equal(answer.error.type, 'invalid_request_error');
    assert.deepEqual((await post('/api/foo', {}))[1], { error: 'no endpoint POST /api/foo' });
    for (const [path, kind] of [['audio/speech', 'sound'], ['images/generations', 'images'], ['videos', 'video']])
        assert.equal((await post(`/v1/${path}`, {}))[1].error.message,
            `no endpoint POST /v1/${path}: ${kind} is not supported, text alone is`);
});
