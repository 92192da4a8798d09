// docs/reference/endpoints.md is true: every endpoint is asked, every field is sent.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { root, startServer } from './support/server.mjs';

const page = readFileSync(join(root, 'docs', 'reference', 'endpoints.md'), 'utf8');
/** Rows of the tables, by the endpoint of their heading. */
const sections = page.split('\n## ').slice(1).map((part) => [/^Fields of `POST (.*)`/.exec(part)?.[1],
    part.split('\n').filter((line) => line.startsWith('| `')).map((line) => line.split('|').slice(1, -1)
        .map((cell) => cell.trim().replaceAll('`', '')))]);
let server;

before(async () => {
    server = await startServer();
});
after(() => server?.stop());

async function post(path, body) {
    const answer = await fetch(server.url + path, { method: 'POST', body: JSON.stringify(body) });
    return [answer.status, await answer.text()];
}

test('endpoints are there, or are not', async () => {
    const [, rows] = sections[0];
    assert.ok(rows.length > 40);
    for (const row of rows) {
        const [method, path] = row[0].split(' ');
        const answer = await fetch(server.url + path, { method, body: method === 'POST' ? '{}' : undefined });
        const text = await answer.text();
        const missing = answer.status === 404 && text.includes('no endpoint');
        assert.equal(missing ? 'no' : 'yes', row.at(-1), `${row[0]}: ${answer.status} ${text.slice(0, 200)}`);
    }
});

const sound = {
    '/v1/completions': { prompt: 'a', max_tokens: 1 },
    '/v1/chat/completions': { messages: [{ role: 'user', content: 'a' }], max_tokens: 1 },
    '/v1/responses': { input: 'a', max_output_tokens: 1 },
    '/v1/messages': { messages: [{ role: 'user', content: 'a' }], max_tokens: 1 },
    '/infill': { input_prefix: 'a', input_suffix: 'b', n_predict: 1 },
    '/rerank': { query: 'a', documents: ['b'] },
    '/v1/embeddings': { input: 'a' },
    '/api/generate': { prompt: 'a', stream: false, options: { num_predict: 1 } },
};
/** Values of which one at least says something of a field. */
const values = [{ a: 1 }, 7, true, 'x', ['x']];

for (const [path, rows] of sections.slice(1)) {
    test(`fields of ${path}`, async () => {
        assert.ok(rows.length > 2);
        const [, usual] = await post(path, sound[path]); // a model without what it takes refuses by another name
        for (const [name, , what] of rows) {
            const answers = [];
            for (const value of values) answers.push(await post(path, { ...sound[path], [name]: value }));
            const says = (part) => answers.some(([status, text]) => status === 400 && text.includes(part));
            assert.ok(!says(`"${name}: an unknown field`), name);
            const untouched = answers.every(([status, text]) => status === 200 || text === usual);
            const found = untouched ? 'ignored' : says(`${name}: not supported`) ? 'refused' : 'obeyed';
            assert.equal(found, what, `${name}: ${JSON.stringify(answers)}`.slice(0, 900));
        }
    });
}
