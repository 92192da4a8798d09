// The server itself: keys, origins, limits, bad bodies, clients that leave or say nothing, its end, its log, and text
// that is the same in any company. TERN_SERVE_FAULTS=N makes the faults N times as many.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { metric, program, root, startServer, until } from './support/server.mjs';

const times = Number(process.env.TERN_SERVE_FAULTS ?? 1);
const folder = mkdtempSync(join(tmpdir(), 'tern-serve-'));
const story = { prompt: 'Once upon a time', max_tokens: 12, temperature: 0 };
const post = (url, body, headers = {}) => fetch(`${url}/v1/completions`, { method: 'POST', headers,
    body: typeof body === 'string' ? body : JSON.stringify(body) });

async function withServer(flags, use) {
    const server = await startServer(flags);
    try {
        await use(server);
    } finally {
        assert.equal(await server.stop(), 0, server.output());
    }
}

/** A connection that has sent these bytes, and resolves when the server closes it. */
function connection(port, bytes) {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => {});
    const closed = new Promise((resolve) => socket.on('close', resolve));
    socket.resume();
    socket.write(bytes);
    return { socket, closed };
}

test('a model without a template has that of its family, and a line says so', async () => {
    const model = join(folder, 'tiny.gguf');
    execFileSync(program, ['synth', '--preset', 'bitnet-tiny', '--layers', '1', '-o', model], { stdio: 'ignore' });
    const server = await startServer([], model);
    try {
        assert.match(server.output(), /tiny\S* has no chat template: bitnet, by its family \(bitnet-b1\.58\); --t/);
        const messages = [{ role: 'user', content: 'Hi' }];
        const ask = (path, fields) => fetch(`${server.url}${path}`,
            { method: 'POST', body: JSON.stringify({ messages, ...fields }) });
        const answer = await ask('/v1/chat/completions', { max_tokens: 2 });
        assert.equal(answer.status, 200, await answer.text());
        assert.match((await (await ask('/apply-template', {})).json()).prompt, /User: Hi<\|eot_id\|>Assistant: $/);
        const props = await (await fetch(`${server.url}/props`)).json();
        assert.match(props.chat_template, /eot_id/);
    } finally {
        assert.equal(await server.stop(), 0, server.output());
    }
});

test('a template that cannot be read refuses conversations alone', async () => {
    const bytes = readFileSync(join(root, 'models', 'chat.gguf'));
    bytes.write('{% fur', bytes.indexOf('{% for'));
    const model = join(folder, 'unreadable.gguf');
    writeFileSync(model, bytes);
    const server = await startServer(['-c', '256'], model);
    const messages = [{ role: 'user', content: 'Hi' }];
    const ask = async (path, body) => {
        const answer = await fetch(`${server.url}${path}`, { method: 'POST', body: JSON.stringify(body) });
        return [answer.status, await answer.text()];
    };
    const conversations = {
        '/v1/chat/completions': { messages }, '/apply-template': { messages },
        '/api/chat': { model: 'unreadable', messages },
        '/v1/messages': { model: 'unreadable', max_tokens: 2, messages }, '/v1/responses': { input: 'Hi' },
        '/api/generate': { model: 'unreadable', prompt: 'Hi' }
    };
    try {
        assert.match(server.output(), /no conversations, its chat template line 1: tag \{% fur %\}; --template takes/);
        for (const [path, body] of Object.entries(conversations)) {
            const [status, text] = await ask(path, body);
            assert.equal(status, 400, `${path}: ${text}`);
            assert.match(text, /chat template line 1: tag \{% fur %\}/, path);
        }
        for (const path of ['/completion', '/v1/completions'])
            assert.equal((await ask(path, { prompt: 'Once', max_tokens: 2 }))[0], 200, path);
        assert.equal((await ask('/tokenize', { content: 'Once' }))[0], 200);
    } finally {
        assert.equal(await server.stop(), 0, server.output());
    }
});

test('a key is asked for, in both forms; health needs none', async () => {
    const file = join(folder, 'keys');
    writeFileSync(file, '# two\nfirst\nsecond\n');
    await withServer(['--api-key', file], async ({ url }) => {
        assert.equal((await post(url, story)).status, 401);
        assert.equal((await post(url, story, { authorization: 'Bearer firs' })).status, 401);
        assert.equal((await post(url, story, { authorization: 'Bearer second' })).status, 200);
        assert.equal((await post(url, story, { 'x-api-key': 'first' })).status, 200);
        assert.equal((await fetch(`${url}/health`)).status, 200);
    });
    await assert.rejects(startServer(['--host', '0.0.0.0']), /--api-key FILE expected/);
});

test('pages of another origin are refused, those of --cors answered', async () => {
    await withServer(['--cors', 'https://a.example'], async ({ url }) => {
        assert.equal((await post(url, story, { origin: 'https://b.example' })).status, 403);
        // fetch sets Host itself: a name that points here is a page of a stranger, an address is the server's own.
        const own = (host) => new Promise((resolve) => {
            const headers = { host, origin: `http://${host}` };
            request(`${url}/v1/completions`, { method: 'POST', headers }, (answer) => {
                answer.resume();
                resolve(answer.statusCode);
            }).end(JSON.stringify(story));
        });
        assert.equal(await own('rebound.example:8080'), 403);
        for (const host of ['127.0.0.1:8080', '[::1]:8080', 'localhost']) assert.equal(await own(host), 200);
        const answer = await post(url, story, { origin: 'https://a.example' });
        assert.equal(answer.headers.get('access-control-allow-origin'), 'https://a.example');
    });
});

/** The status lines that come back for these bytes. */
const answers = (port, bytes) => new Promise((resolve) => {
    let text = '';
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes));
    socket.setTimeout(2000, () => socket.destroy());
    socket.on('data', (data) => { text += data; });
    socket.on('error', () => {});
    socket.on('close', () => resolve(text.match(/HTTP\/1\.1 \d+/g) ?? []));
});

test('a request whose length or host has two meanings is refused, and the connection closed', async () => {
    const hidden = 'GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n';
    const post = (fields) => `POST /tokenize HTTP/1.1\r\nHost: x\r\n${fields}\r\n\r\n`;
    const n = hidden.length;
    await withServer(['--no-log'], async ({ port }) => {
        for (const fields of [`Content-Length : ${n}`, `Content-Length:\r\n ${n}`, `Content-Length:\r\n\t${n}`,
            'Transfer-Encoding:\r\n chunked', `Content-Length: ${n}\r\nContent-Length: 2`,
            `Content-Length: +${n}`, `Content-Length: ${n}\r\nTransfer-Encoding: chunked`,
            'Transfer-Encoding: gzip, chunked', 'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked',
            `X y: 1\r\nContent-Length: ${n}`])
            assert.deepEqual([...new Set(await answers(port, post(fields) + hidden))], ['HTTP/1.1 400'], fields);
        for (const hosts of ['', 'Host: a\r\nHost: b\r\n', 'Host:\r\n a\r\n'])
            assert.deepEqual(await answers(port, `GET /v1/models HTTP/1.1\r\n${hosts}Connection: close\r\n\r\n`),
                ['HTTP/1.1 400'], hosts);
        assert.deepEqual(await answers(port, hidden), ['HTTP/1.1 200']);
    });
});

test('a Host that anybody may register is refused where no key is needed', async () => {
    const get = (host) => `GET /v1/models HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`;
    const all = ['evil.example', 'evil.example:8080', 'localhost.evil.example', 'internal', '127.0.0.1:80', '[::1]',
        'box', 'box.local', 'a.localhost:1', 'chat.example', 'chat.example:444'];
    const taken = async (port) => {
        const found = [];
        for (const host of all) if ((await answers(port, get(host)))[0] === 'HTTP/1.1 200') found.push(host);
        return found;
    };
    await withServer(['--no-log'], async ({ port }) => assert.deepEqual(await taken(port), all.slice(3, 9)));
    await withServer(['--no-log', '--cors', 'https://chat.example'], async ({ port }) =>
        assert.deepEqual(await taken(port), all.slice(3)));
});

test('a unix socket replaces no file and no other server', async () => {
    const file = join(folder, 'notes.txt'), path = join(folder, 'server.sock');
    writeFileSync(file, 'precious');
    const run = (path) => spawnSync(program, ['serve', '-m', join(root, 'models', 'stories.gguf'), '--unix', path,
        '--no-log'], { encoding: 'utf8', timeout: 20000 });
    assert.match(run(file).stderr, /notes\.txt exists/);
    assert.equal(readFileSync(file, 'utf8'), 'precious');
    const health = () => new Promise((resolve) => request({ socketPath: path, path: '/health' }, (answer) =>
        answer.resume().on('end', () => resolve(answer.statusCode))).on('error', () => resolve(0)).end());
    const first = await startServer(['--unix', path, '--no-log']);
    assert.match(run(path).stderr, /server\.sock exists/);
    assert.equal(await health(), 200);
    await first.stop('SIGKILL');
    assert.ok(statSync(path).isSocket()); // left over: the next server takes its place
    const second = await startServer(['--unix', path, '--no-log']);
    assert.equal(await health(), 200);
    assert.equal(await second.stop(), 0);
    assert.throws(() => statSync(path), /ENOENT/);
});

test('limits are said', async () => {
    const flags = ['--max-body', '2000', '--max-tokens', '5', '--timeout', '1'];
    await withServer(flags, async ({ url }) => {
        assert.equal((await post(url, { prompt: 'a'.repeat(3000) })).status, 413);
        const answer = await (await post(url, story)).json();
        assert.equal(answer.usage.completion_tokens, 5);
        const other = await fetch(`${url}/v1/completions`);
        assert.equal(other.status, 405);
        assert.equal(other.headers.get('allow'), 'POST, OPTIONS');
        assert.match((await other.json()).error.message, /GET \/v1\/completions: POST, OPTIONS expected/);
        assert.equal((await fetch(`${url}/lora-adapters`, { method: 'PUT' })).headers.get('allow'),
            'GET, HEAD, POST, OPTIONS');
        assert.equal((await fetch(`${url}/none`)).status, 404);
    });
});

test('bodies that are no requests are refused', async () => {
    await withServer([], async ({ url }) => {
        const bodies = ['', '{', '[]', '{"prompt": "\\ud800"}', `${'['.repeat(5000)}`, '{"prompt": 1e999}', '\0',
            '{"prompt": "a", "prompt": "b"}', '{"prompt": [1, 99999999]}', '{"prompt": ""}'];
        for (let i = 0; i < times; i++)
            for (const body of bodies) {
                const answer = await post(url, body);
                if (body === '{"prompt": ""}') continue; // BOS alone may be a prompt
                assert.equal(answer.status, 400, body.slice(0, 40));
                assert.equal((await answer.json()).error.type, 'invalid_request_error');
            }
    });
});

test('idle connections and half-sent bodies are closed, and hold nobody up', async () => {
    await withServer(['--idle-timeout', '1'], async (server) => {
        const head = 'POST /v1/completions HTTP/1.1\r\nHost: a\r\n';
        const begun = ['', 'POST /v1', head, `${head}Content-Length: 100\r\n\r\n{"prompt"`];
        const open = Array.from({ length: 40 * times }, (_, i) => connection(server.port, begun[i % begun.length]));
        assert.equal((await post(server.url, story)).status, 200);
        await Promise.all(open.map((c) => c.closed));
    });
});

test('clients that leave free their sequences', async () => {
    await withServer([], async (server) => {
        for (let i = 0; i < 4 * times; i++) {
            const body = JSON.stringify({ prompt: 'Once', max_tokens: 100000, ignore_eos: true, stream: i % 2 === 0 });
            const sent = Array.from({ length: 8 }, () => request(`${server.url}/v1/completions`, { method: 'POST' }));
            for (const r of sent) {
                r.on('error', () => {}).on('response', (answer) => answer.on('error', () => {}).resume());
                r.end(body);
            }
            await until(async () => (await metric(server, 'tern_sequences_running')) > 0);
            sent.forEach((r) => r.destroy());
            await until(async () => (await metric(server, 'tern_sequences_running')) === 0 &&
                (await metric(server, 'tern_sequences_waiting')) === 0);
        }
    });
});

test('the same text with other chunks, guesses, a small pool and no reuse', async () => {
    const asks = Array.from({ length: 64 }, (_, seed) => ({ prompt: 'Once upon a time '.repeat(seed % 5 + 1), seed,
        temperature: 1, max_tokens: 24 }));
    let expected;
    for (const flags of [['--parallel', '1', '--no-prefix-reuse'],
        ['--parallel', '16', '--chunk', '3', '--draft', 'ngram'],
        ['--parallel', '16', '--max-step-ms', '1'],
        ['--parallel', '5', '--draft-model', join(root, 'models', 'stories.gguf'), '--draft-tokens', '5'],
        ['--parallel', '8', '--ctx', '128', '--cache', '1M']]) {
        await withServer(flags, async (server) => {
            const { url } = server;
            const answers = await Promise.all(asks.map(async (ask) => (await post(url, ask)).json()));
            const texts = answers.map((answer) => answer.choices[0].text);
            expected ??= texts;
            assert.deepEqual(texts, expected, flags.join(' '));
            if (!flags.includes('--draft-model')) return; // whether guesses pay goes by what steps took
            assert.ok(await metric(server, 'tern_drafted_tokens_total') >=
                await metric(server, 'tern_accepted_tokens_total'));
        });
    }
});

test('SIGTERM lets what runs come to its end; SIGHUP opens the log anew', async () => {
    const log = join(folder, 'log');
    const server = await startServer(['--log', log]);
    await post(server.url, story);
    await until(() => readFileSync(log, 'utf8').includes('/v1/completions')); // the line comes after the answer
    renameSync(log, `${log}.1`);
    server.signal('SIGHUP');
    await until(async () => {
        await fetch(`${server.url}/health`);
        try {
            return readFileSync(log, 'utf8').includes('/health');
        } catch {
            return false;
        }
    });
    assert.match(readFileSync(`${log}.1`, 'utf8'), /"path":"\/v1\/completions","status":200/);
    assert.doesNotMatch(readFileSync(`${log}.1`, 'utf8'), /Once/);
    const answer = await post(server.url, { ...story, max_tokens: 600, ignore_eos: true, stream: true });
    const ended = server.stop();
    await until(() => server.output().includes('stopping'));
    assert.match(await answer.text(), /data: \[DONE\]/);
    assert.equal(await ended, 0);
});

test('no new tokens: the prompt is evaluated, in the ways of each API', async () => {
    await withServer([], async ({ url }) => {
        const send = async (path, body) => {
            const answer = await fetch(url + path, { method: 'POST', body: JSON.stringify(body) });
            const text = await answer.text();
            assert.equal(answer.status, 200, text);
            return text.startsWith('{') && !body.stream ? JSON.parse(text) : text;
        };
        const prompt = 'Once upon a time there was a little dog. '.repeat(12), temperature = 0;
        const none = await send('/v1/completions', { prompt, max_tokens: 0 });
        assert.equal(none.choices[0].text, '');
        assert.equal(none.choices[0].finish_reason, 'length');
        assert.equal(none.usage.completion_tokens, 0);
        const native = await send('/completion', { prompt, n_predict: 0 });
        assert.deepEqual([native.content, native.tokens_predicted, native.stop_type], ['', 0, 'limit']);
        assert.equal(native.tokens_evaluated, none.usage.prompt_tokens);
        assert.ok(native.tokens_cached > 64); // of the first one, which was evaluated
        const echoed = await send('/v1/completions', { prompt: 'Once upon', max_tokens: 0, echo: true,
            logprobs: 0, n: 2 });
        const one = await send('/v1/completions', { prompt: 'Once upon', max_tokens: 1, echo: true, logprobs: 0 });
        for (const { text, logprobs } of echoed.choices) {
            assert.equal(text, 'Once upon');
            assert.deepEqual(logprobs.token_logprobs, one.choices[0].logprobs.token_logprobs.slice(0, -1));
        }
        assert.match(await send('/v1/completions', { prompt, max_tokens: 0, stream: true }),
            /"finish_reason": ?"length"[^]*\[DONE\]/);
        const ollama = await send('/api/generate', { prompt, stream: false, options: { num_predict: 0, num_ctx: 256,
            temperature, ignore_eos: true } }); // no limit there
        assert.equal(ollama.prompt_eval_count + ollama.eval_count, 256);
    });
});

test('models have the time of their file', async () => {
    await withServer([], async ({ url }) => {
        const changed = Math.floor(statSync(join(root, 'models', 'stories.gguf')).mtimeMs / 1000);
        const { data } = await (await fetch(`${url}/v1/models`)).json();
        assert.equal(data[0].created, changed);
        const { models } = await (await fetch(`${url}/api/tags`)).json();
        assert.equal(Date.parse(models[0].modified_at), changed * 1000);
    });
});

test('slots, the version, and times as histograms', async () => {
    await withServer(['--parallel', '3', '--ctx', '64'], async (server) => {
        const { url } = server;
        const read = async (path) => (await fetch(url + path)).json();
        const slots = await read('/slots');
        assert.deepEqual(slots.map((slot) => [slot.id, slot.n_ctx, slot.is_processing]),
            [0, 1, 2].map((id) => [id, 64, false]));
        const said = execFileSync(program, ['--version'], { encoding: 'utf8' });
        assert.ok(said.startsWith(`tern ${(await read('/api/version')).version} `), said);
        const { usage } = await (await post(url, { ...story, ignore_eos: true })).json();
        await until(async () => await metric(server, 'tern_generated_tokens_total') === usage.completion_tokens);
        const text = await (await fetch(`${url}/metrics`)).text();
        for (const [name, n] of [['tern_first_token_seconds', 1], // a token more than there are times between them
            ['tern_between_tokens_seconds', usage.completion_tokens - 1]]) {
            const counts = [...text.matchAll(new RegExp(`^${name}_bucket{le="[^"]+"} (\\d+)$`, 'gm'))]
                .map((match) => Number(match[1]));
            assert.deepEqual(counts, counts.toSorted((a, b) => a - b), name);
            assert.equal(counts.at(-1), n, name);
            assert.equal(await metric(server, `${name}_count`), n);
            assert.ok(await metric(server, `${name}_sum`) > 0, name);
        }
    });
});
