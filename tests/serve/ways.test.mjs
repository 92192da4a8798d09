// Ways to reach and to run the server: TLS, a unix socket, a socket that systemd opened, several models of which one is
// open at once, adapters, and the parts of the APIs that no other file asks for.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { request as secure } from 'node:https';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import OpenAI from 'openai';
import { Ollama } from 'ollama';
import { trainAdapter } from './support/adapters.mjs';
import { program, root, startServer, until } from './support/server.mjs';

const folder = mkdtempSync(join(tmpdir(), 'tern-serve-'));
const model = join(root, 'models', 'stories.gguf');
const story = { prompt: 'Once upon a time', max_tokens: 8, temperature: 0 };

async function withServer(flags, use) {
    const server = await startServer(flags);
    try {
        await use(server);
    } finally {
        assert.equal(await server.stop(), 0, server.output());
    }
}

/** The answer's status and document. */
function ask(how, options, body) {
    return new Promise((resolve, reject) => {
        const sent = how({ method: body ? 'POST' : 'GET', ...options }, (answer) => {
            let text = '';
            answer.setEncoding('utf8').on('data', (part) => { text += part; });
            answer.on('end', () => resolve({ status: answer.statusCode, body: JSON.parse(text) }));
        });
        sent.on('error', reject).end(body && JSON.stringify(body));
    });
}

test('TLS answers as HTTP does; half a pair of files is refused', async () => {
    const cert = join(folder, 'cert.pem'), key = join(folder, 'key.pem');
    execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes',
        '-keyout', key, '-out', cert, '-days', '2', '-subj', '/CN=localhost'], { stdio: 'ignore' });
    await withServer(['--tls-cert', cert, '--tls-key', key], async ({ port, output }) => {
        assert.match(output(), /listening on https:/);
        const at = { port, path: '/v1/completions', rejectUnauthorized: false };
        const answer = await ask(secure, at, story);
        assert.equal(answer.status, 200);
        assert.equal(answer.body.usage.completion_tokens, 8);
        await assert.rejects(ask(request, { port, path: '/health' }));
    });
    await assert.rejects(startServer(['--tls-cert', cert]), /--tls-key: only one of them found, both expected/);
    writeFileSync(key, 'no key');
    await assert.rejects(startServer(['--tls-cert', cert, '--tls-key', key]), /no such pair found/);
});

test('a unix socket; one that a killed server left is taken, one in use is not', async () => {
    const socketPath = join(folder, 'socket');
    for (const signal of ['SIGKILL', 'SIGTERM']) {
        const server = await startServer(['--unix', socketPath]);
        const answer = await ask(request, { socketPath, path: '/v1/completions' }, story);
        assert.equal(answer.body.usage.completion_tokens, 8);
        await assert.rejects(startServer(['--unix', socketPath]), /--unix .*socket/);
        await server.stop(signal);
    }
    assert.ok(!existsSync(socketPath));
});

test('a socket that systemd opened', async () => {
    const listener = createServer().listen(0, '127.0.0.1');
    await until(() => listener.listening);
    const { port } = listener.address();
    const command = 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"';
    const child = spawn('sh', ['-c', command, 'sh', program, 'serve', '-m', model],
        { stdio: ['ignore', 'ignore', 'pipe', listener._handle.fd] });
    let output = '';
    const ended = new Promise((resolve) => child.on('exit', resolve));
    child.stderr.on('data', (data) => { output += data; });
    await until(() => output.includes('listening on') || child.exitCode !== null);
    assert.equal(child.exitCode, null, output);
    listener.close(); // what comes from now on is the child's
    assert.equal((await ask(request, { port, path: '/health' })).body.status, 'ok');
    child.kill('SIGTERM');
    assert.equal(await ended, 0);
});

test('several models: opened when asked for, the idlest closed to make room', async () => {
    const flags = ['-m', `second=${model}`, '-m', `third=${model}`, '--max-models', '1'];
    await withServer(flags, async ({ url }) => {
        const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
        const open = async () => (await new Ollama({ host: url }).ps()).models
            .map((m) => m.name.replace(':latest', ''));
        assert.deepEqual((await client.models.list()).data.map((m) => m.id), ['stories', 'second', 'third']);
        assert.deepEqual(await open(), ['stories']);
        const texts = [];
        for (const name of ['second', 'third', 'stories']) {
            texts.push((await client.completions.create({ ...story, model: name })).choices[0].text);
            assert.deepEqual(await open(), [name]);
        }
        assert.equal(new Set(texts).size, 1);
        const all = await Promise.all(Array.from({ length: 9 }, (_, i) => client.completions.create({ ...story,
            model: ['stories', 'second', 'third'][i % 3] })));
        for (const answer of all) assert.equal(answer.choices[0].text, texts[0]);
    });
    await assert.rejects(startServer(['-m', model]), /the name stories is given twice/);
    const missing = await startServer(['-m', `gone=${join(folder, 'none.gguf')}`]);
    const answer = await ask(request, { port: missing.port, path: '/v1/completions' }, { ...story, model: 'gone' });
    assert.match(answer.body.error.message, /none\.gguf/);
    assert.equal((await ask(request, { port: missing.port, path: '/v1/completions' }, story)).status, 200);
    await missing.stop();
});

test('an adapter answers under its name, beside the model', async () => {
    const file = trainAdapter(folder, 'lora', 'The moon sang to the sea. ');
    await withServer(['--lora', `moon=${file}`, '--lora', `luna=${file}`], async ({ url }) => {
        const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
        const names = ['stories', 'moon', 'luna', 'stories', 'moon', 'luna'];
        const say = async (name) => (await client.completions.create({ ...story, model: name,
            logprobs: 0 })).choices[0];
        const alone = [];
        for (const name of names) alone.push(await say(name));
        const embed = async (name) => (await client.embeddings.create({ model: name, encoding_format: 'float',
            input: ['A cat.', 'The moon sang to the sea.', 'A cat.'] })).data.map((d) => d.embedding);
        const vectors = [await embed('stories'), await embed('moon')];
        const [together, ...beside] = await Promise.all([Promise.all(names.map(say)), embed('stories'),
            embed('moon')]);
        assert.deepEqual(beside, vectors);
        assert.deepEqual(vectors[0][0], vectors[0][2]);
        assert.notDeepEqual(vectors[0], vectors[1]);
        assert.deepEqual(together.map((c) => c.logprobs), alone.map((c) => c.logprobs));
        assert.notDeepEqual(alone[0].logprobs.token_logprobs, alone[1].logprobs.token_logprobs);
        assert.deepEqual(alone[1].logprobs, alone[2].logprobs); // the same file under two names
        assert.equal((await (await fetch(`${url}/lora-adapters`)).json())[0].name, 'moon');
    });
});

test('responses and their stream', async () => {
    await withServer([], async ({ url }) => {
        const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
        const params = { model: 'stories', input: 'Once upon a time', max_output_tokens: 16, temperature: 0 };
        const whole = await client.responses.create(params);
        assert.equal(whole.status, 'incomplete');
        assert.equal(whole.incomplete_details.reason, 'max_output_tokens');
        assert.equal(whole.usage.output_tokens, 16);
        assert.ok(whole.output_text.length > 10);
        let text = '', last, number = 0;
        for await (const event of await client.responses.create({ ...params, stream: true })) {
            assert.equal(event.sequence_number, number++);
            if (event.type === 'response.output_text.delta') text += event.delta;
            last = event;
        }
        assert.equal(text, whole.output_text);
        assert.equal(last.type, 'response.incomplete');
        assert.equal(last.response.output[0].content[0].text, text);
        const split = await client.responses.create({ ...params, instructions: 'Once upon', input: [
            { role: 'user', content: [{ type: 'input_text', text: ' a time' }] }] });
        assert.equal(split.output_text, whole.output_text);
        await assert.rejects(client.responses.create({ ...params, conversation: 'a' }),
            /conversation: not supported, previous_response_id goes on/);
    });
});

test('embeddings as numbers and base64, cut, of ids', async () => {
    await withServer([], async ({ url }) => {
        const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
        const input = ['A cat.', 'A dog.'];
        const floats = await client.embeddings.create({ model: 'stories', input, encoding_format: 'float' });
        const coded = await client.embeddings.create({ model: 'stories', input, encoding_format: 'base64' });
        assert.deepEqual(floats.data.map((d) => d.index), [0, 1]);
        for (const [i, { embedding }] of floats.data.entries()) {
            assert.ok(Math.abs(Math.hypot(...embedding) - 1) < 1e-5);
            const bytes = Buffer.from(coded.data[i].embedding, 'base64');
            for (const [k, x] of embedding.entries()) assert.ok(Math.abs(bytes.readFloatLE(4 * k) - x) < 1e-6);
        }
        const cut = await client.embeddings.create({ model: 'stories', input: 'A cat.', dimensions: 8,
            encoding_format: 'float' });
        const [short] = cut.data, scale = Math.hypot(...floats.data[0].embedding.slice(0, 8));
        assert.equal(short.embedding.length, 8);
        for (const [k, x] of short.embedding.entries())
            assert.ok(Math.abs(x - floats.data[0].embedding[k] / scale) < 1e-5);
        await assert.rejects(client.embeddings.create({ model: 'stories', input: [] }), OpenAI.BadRequestError);
    });
});

test('num_ctx bounds prompt and answer', async () => {
    await withServer(['--ctx', '128'], async ({ url }) => {
        const client = new Ollama({ host: url });
        const generate = (options) => client.generate({ model: 'stories', raw: true, prompt: 'Once upon a time',
            options: { ignore_eos: true, num_predict: -1, ...options } });
        const answer = await generate({ num_ctx: 20 });
        assert.equal(answer.prompt_eval_count + answer.eval_count, 20);
        assert.equal(answer.done_reason, 'length');
        await assert.rejects(generate({ num_ctx: 3 }), /the prompt has \d+ tokens, less than num_ctx \(3\) expected/);
        await assert.rejects(generate({ num_ctx: 4096 }), /num_ctx: 4096 found, at most \d+ expected/);
    });
});
