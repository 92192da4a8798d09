// Fill in the middle by tokens that the file names, in the forms of llama.cpp, OpenAI and Ollama; refused without them.
import assert from 'node:assert/strict';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { extendGguf } from './support/gguf.mjs';
import { root, startServer } from './support/server.mjs';

const stories = join(root, 'models', 'stories.gguf');
const [pre, suf, mid, repo, file] = [2040, 2041, 2042, 2043, 2044]; // ordinary tokens take their part
const before_ = 'Once upon a time there was a', behind = '. The fox was happy.';
const greedy = { temperature: 0, seed: 1 };
let server, plain, turned;

before(async () => {
    const folder = mkdtempSync(join(tmpdir(), 'tern-infill-'));
    const keys = { 'tokenizer.ggml.fim_pre_token_id': pre, 'tokenizer.ggml.fim_suf_token_id': suf,
        'tokenizer.ggml.fim_mid_token_id': mid };
    const names = { 'tokenizer.ggml.fim_rep_token_id': repo, 'tokenizer.ggml.fim_sep_token_id': file };
    extendGguf(stories, join(folder, 'gap.gguf'), keys);
    extendGguf(stories, join(folder, 'repo.gguf'), { ...keys, ...names });
    server = await startServer(['-m', `repo=${join(folder, 'repo.gguf')}`, '--ctx', '256', '--template', 'chatml'],
        `gap=${join(folder, 'gap.gguf')}`);
    plain = await startServer();
    turned = await startServer(['--spm-infill', '--ctx', '256', '--template', 'chatml'],
        `gap=${join(folder, 'gap.gguf')}`);
});
after(() => Promise.all([server?.stop(), plain?.stop(), turned?.stop()]));

async function post(path, body, to = server) {
    const answer = await fetch(to.url + path, { method: 'POST', body: JSON.stringify(body) });
    return [answer.status, await answer.json()];
}

async function take(path, body) {
    const [status, answer] = await post(path, body);
    assert.equal(status, 200, JSON.stringify(answer));
    return answer;
}

const tokens = async (content, more) => (await take('/tokenize', { content, parse_special: false, ...more })).tokens;
const bos = async () => (await tokens('', { add_special: true }));
/** What a model makes of these ids. */
const complete = async (model, prompt, more) => (await take('/completion', { model, prompt, n_predict: 12, ...greedy,
    ...more })).content;

test('the parts stand between their tokens', async () => {
    const ids = [...await bos(), pre, ...await tokens(before_), suf, ...await tokens(behind), mid];
    const text = await complete('gap', ids);
    assert.ok(text.length > 5);
    const ask = { model: 'gap', prompt: before_, suffix: behind, max_tokens: 12, ...greedy };
    assert.equal((await take('/v1/completions', ask)).choices[0].text, text);
    const infill = { model: 'gap', input_prefix: before_, input_suffix: behind, n_predict: 12, ...greedy };
    const answer = await take('/infill', infill);
    assert.equal(answer.content, text);
    assert.equal(answer.tokens_evaluated, ids.length);
    assert.equal(answer.truncated, false);
    const { response } = await take('/api/generate', { model: 'gap', prompt: before_, suffix: behind, stream: false,
        options: { temperature: 0, num_predict: 12 } });
    assert.equal(response, text);
    const [, shown] = await post('/api/show', { model: 'gap' });
    assert.ok(shown.capabilities.includes('insert'));
});

test('--spm-infill puts the suffix first', async () => {
    const behindIds = await tokens(behind);
    const ids = [...await bos(), suf, ...behindIds, pre, ...await tokens(before_), ...await tokens(' big'), mid];
    const body = { input_prefix: before_, input_suffix: behind, prompt: ' big', n_predict: 12, ...greedy };
    const [, answer] = await post('/infill', body, turned);
    assert.equal(answer.content, await complete('gap', ids));
    assert.equal(answer.tokens_evaluated, ids.length);
});

test('an empty suffix is none; what cannot be done with one is refused by name', async () => {
    const ask = { model: 'gap', prompt: before_, max_tokens: 4, ...greedy };
    const [a, b] = await Promise.all([ask, { ...ask, suffix: '' }].map((body) => take('/v1/completions', body)));
    assert.equal(a.choices[0].text, b.choices[0].text);
    for (const [more, message] of [[{ suffix: 1 }, /suffix: 1 found/], [{ suffix: 'x', echo: true }, /echo/],
        [{ suffix: 'x', prompt: [1, 2] }, /prompt: token ids found/]]) {
        const [status, answer] = await post('/v1/completions', { ...ask, ...more });
        assert.equal(status, 400);
        assert.match(answer.error.message, message);
    }
    for (const [body, message] of [[{ input_prefix: 'a' }, /input_suffix: none found/],
        [{ input_suffix: 'a' }, /input_prefix: none found/],
        [{ input_prefix: 'a', input_suffix: 'b', input_extra: [{ filename: 'c' }] }, /input_extra: text/]])
        assert.match((await post('/infill', { model: 'gap', ...body }))[1].error.message, message);
});

test('files come before the text, with their names where the model has tokens for them', async () => {
    const extra = [{ filename: 'fox.txt', text: 'The fox ran.' }, { text: 'A dog sat.' }];
    const body = { input_prefix: before_, input_suffix: behind, input_extra: extra, prompt: ' big', n_predict: 12,
        ...greedy };
    const gap = [pre, ...await tokens(before_), ...await tokens(' big'), suf, ...await tokens(behind), mid];
    const line = await tokens('\n\n--- snippet ---\n\n');
    const files = [...line, ...await tokens('The fox ran.'), ...line, ...await tokens('A dog sat.')];
    const shared = { model: 'gap', ...body };
    assert.equal((await take('/infill', shared)).content, await complete('gap', [...await bos(), ...files, ...gap]));
    const named = [repo, ...await tokens('myproject\n'), file, ...await tokens('fox.txt\n'),
        ...await tokens('The fox ran.'), file, ...await tokens('tmp\n'), ...await tokens('A dog sat.'), file,
        ...await tokens('filename\n')];
    const answer = await take('/infill', { ...shared, model: 'repo' });
    assert.equal(answer.content, await complete('repo', [...await bos(), ...named, ...gap]));
});

test('texts that are too long are shortened for editors', async () => {
    const long = 'The fox was happy. '.repeat(100);
    const body = { model: 'gap', input_prefix: long, input_suffix: long, n_predict: 8, ...greedy };
    const answer = await take('/infill', body);
    assert.equal(answer.truncated, true);
    assert.equal(answer.tokens_evaluated, 248);
    const [status] = await post('/v1/completions', { model: 'gap', prompt: long, suffix: long });
    assert.equal(status, 400);
});

test('members that editors send are obeyed', async () => {
    const body = { model: 'gap', input_prefix: before_, input_suffix: behind, input_extra: [], prompt: '', ...greedy };
    const sent = { ...body, n_predict: 16, stop: [], n_indent: 0, top_k: 40, top_p: 0.9, samplers: ['top_k', 'top_p',
        'infill'], stream: false, cache_prompt: true, t_max_prompt_ms: 500, t_max_predict_ms: 1000, response_fields: [
        'content', 'timings/prompt_n', 'timings/predicted_per_token_ms', 'truncated', 'none'] };
    const answer = await take('/infill', sent);
    assert.deepEqual(Object.keys(answer), sent.response_fields.slice(0, 4));
    const empty = await take('/infill', { ...body, n_predict: 0, samplers: [], t_max_prompt_ms: 1, t_max_predict_ms: 1,
        response_fields: [''] });
    assert.deepEqual(empty, {});
});

test('a line that begins with less than n_indent spaces and tabs ends the text', async () => {
    const grammar = 'root ::= "a" "\\n" "    b\\n" "  c\\nd\\n"';
    const body = { prompt: before_, n_predict: 40, grammar, ...greedy };
    assert.equal((await take('/completion', body)).content, 'a\n    b\n  c\nd\n');
    assert.equal((await take('/completion', { ...body, n_indent: 1 })).content, 'a\n    b\n  c\n');
    const cut = await take('/completion', { ...body, n_indent: 3 });
    assert.equal(cut.content, 'a\n    b\n  ');
    assert.equal(cut.stop_type, 'limit');
});

test('a model without the tokens refuses by name', async () => {
    for (const [path, body] of [['/v1/completions', { prompt: 'a', suffix: 'b' }],
        ['/infill', { input_prefix: 'a', input_suffix: 'b' }],
        ['/api/generate', { prompt: 'a', suffix: 'b', stream: false }]]) {
        const [status, answer] = await post(path, body, plain);
        assert.equal(status, 400);
        assert.match(answer.error.message ?? answer.error, /cannot fill in the middle: .* has no prefix token/);
    }
});
