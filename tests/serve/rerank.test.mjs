// Rating documents: by the tokens yes and no, and by a classifier; refused for other models. Other paths of embeddings.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { extendGguf } from './support/gguf.mjs';
import { program, root, startServer } from './support/server.mjs';

const stories = join(root, 'models', 'stories.gguf');
const query = 'a fox', documents = [' The fox ran.', ' A dog sat.', ' The moon sang to the sea.'];
const nEmbd = 256, no = 2046;
/** Numbers from a seed, about -1 to 1. */
const weights = Array.from({ length: 2 * nEmbd }, (_, i) => Math.fround(Math.sin(i * i + 1)));
const folder = mkdtempSync(join(tmpdir(), 'tern-rerank-')), at = (name) => join(folder, name);
let server, plain;

before(async () => {
    extendGguf(stories, at('words.gguf'), { 'tokenizer.chat_template.rerank': 'Is {query} in{document}? ' },
        {}, { [no]: 'no' }); // in the place of a token that nothing uses
    extendGguf(stories, at('head.gguf'), { 'bitnet-b1.58.pooling_type': 4 },
        { 'cls.output.weight': { rows: 2, cols: nEmbd, values: weights } });
    server = await startServer(['-m', `head=${at('head.gguf')}`, '--template', 'chatml'], `words=${at('words.gguf')}`);
    plain = await startServer();
});
after(() => Promise.all([server?.stop(), plain?.stop()]));

async function post(path, body, to = server) {
    const answer = await fetch(to.url + path, { method: 'POST', body: JSON.stringify(body) });
    return [answer.status, await answer.json()];
}

async function take(path, body, to) {
    const [status, answer] = await post(path, body, to);
    assert.equal(status, 200, JSON.stringify(answer));
    return answer;
}

const near = (a, b) => assert.ok(Math.abs(a - b) < 1e-4, `${a} and ${b}`);

const tokens = async (content) => (await take('/tokenize', { model: 'words', content })).tokens;

/** The log-probability of a token behind a text. */
async function logprobOf(prompt, id) {
    const [choice] = (await take('/v1/completions', { model: 'words', prompt: [...await tokens(prompt), id],
        max_tokens: 0, echo: true, logprobs: 1 })).choices;
    return choice.logprobs.token_logprobs.at(-1);
}

test('scores are the share of yes, best first', async () => {
    const answer = await take('/v1/rerank', { model: 'words', query, documents });
    assert.equal(answer.object, 'list');
    assert.equal(answer.model, 'words');
    assert.ok(answer.usage.total_tokens > 20);
    assert.equal(answer.results.length, 3);
    for (const { index, relevance_score } of answer.results) {
        const prompt = `Is ${query} in${documents[index]}? `, [yes] = await tokens('yes');
        const [a, b] = await Promise.all([yes, no].map((id) => logprobOf(prompt, id)));
        near(relevance_score, 1 / (1 + Math.exp(b - a)));
    }
    const scores = answer.results.map((r) => r.relevance_score);
    assert.deepEqual(scores, [...scores].sort((a, b) => b - a));
});

test('a classifier rates by the first of two labels', async () => {
    const answer = await take('/rerank', { model: 'head', query, documents });
    for (const { index, relevance_score } of answer.results) {
        const { embedding } = await take('/api/embeddings', { model: 'head', prompt: query + documents[index] });
        const label = (row) => embedding.reduce((sum, x, i) => sum + x * weights[row * nEmbd + i], 0);
        near(relevance_score, 1 / (1 + Math.exp(label(1) - label(0))));
    }
});

test('a converted file keeps its classifier', async () => {
    const copy = at('copy.gguf');
    execFileSync(program, ['convert', at('head.gguf'), '-o', copy], { stdio: 'ignore' });
    const again = await startServer([], `head=${copy}`);
    try {
        const body = { model: 'head', query, documents };
        const [a, b] = await Promise.all([server, again].map((to) => take('/rerank', body, to)));
        assert.deepEqual(a.results, b.results);
    } finally {
        await again.stop();
    }
});

test('forms and members of Jina, Cohere, llama.cpp and TEI', async () => {
    const all = await take('/v1/reranking', { model: 'words', query, documents });
    for (const path of ['/rerank', '/reranking', '/v2/rerank']) {
        const objects = documents.map((text) => ({ text }));
        const answer = await take(path, { model: 'words', query, documents: objects, top_n: 2,
            return_documents: true });
        assert.deepEqual(answer.results, all.results.slice(0, 2).map((r) => ({ ...r, document: {
            text: documents[r.index] } })));
    }
    const tei = await take('/rerank', { model: 'words', query, texts: documents, return_text: true });
    assert.deepEqual(tei, all.results.map((r) => ({ index: r.index, score: r.relevance_score,
        text: documents[r.index] })));
    for (const [body, message] of [[{ documents }, /query: none found/], [{ query }, /documents: none found/],
        [{ query, documents: [] }, /documents/], [{ query, documents: [1] }, /documents/],
        [{ query, documents, top_n: 0 }, /top_n/], [{ query, documents, rank_fields: ['a'] }, /rank_fields/]])
        assert.match((await post('/rerank', { model: 'words', ...body }))[1].error.message, message);
});

test('other models refuse, and say why', async () => {
    const [status, answer] = await post('/v1/rerank', { query, documents }, plain);
    assert.equal(status, 400);
    assert.match(answer.error.message, /the model stories cannot rate documents: .*cls\.output\.weight/);
});

test('embeddings of llama.cpp, and the older ones of Ollama', async () => {
    const [{ data: [{ embedding }] }, [first], old] = await Promise.all([
        take('/v1/embeddings', { input: query }, plain), take('/embedding', { content: query }, plain),
        take('/api/embeddings', { model: 'x', prompt: query }, plain)]);
    assert.deepEqual(first, { index: 0, embedding: [embedding] });
    const length = Math.hypot(...old.embedding);
    assert.ok(length > 1.5);
    old.embedding.forEach((x, i) => near(x / length, embedding[i]));
    const [raw] = await take('/embeddings', { content: [query], embd_normalize: -1 }, plain);
    assert.deepEqual(raw.embedding[0], old.embedding);
    const [short, coded] = await Promise.all([{ dimensions: 8 }, { dimensions: 8, encoding_format: 'base64' }].map(
        async (more) => (await take('/v1/embeddings', { input: query, ...more }, plain)).data[0].embedding));
    near(Math.hypot(...short), 1);
    const bytes = Buffer.from(coded, 'base64');
    short.forEach((x, i) => near(x, bytes.readFloatLE(4 * i)));
    const norm = Math.hypot(...embedding.slice(0, 8));
    short.forEach((x, i) => near(x, embedding[i] / norm));
});
