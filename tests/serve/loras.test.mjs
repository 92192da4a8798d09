// Adapters that come, go and change their scale while the server runs.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, cpSync, mkdirSync, mkdtempSync, openSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { before, test } from 'node:test';
import { trainAdapter } from './support/adapters.mjs';
import { metric, startServer } from './support/server.mjs';

const folder = mkdtempSync(join(tmpdir(), 'tern-loras-')), dir = join(folder, 'allowed');
const story = { prompt: 'Once upon a time there was a little dog. '.repeat(6), max_tokens: 12, temperature: 0,
    logprobs: 0 };
let moon, sea;

before(() => {
    mkdirSync(dir);
    moon = basename(trainAdapter(dir, 'moon', 'The moon sang to the sea. '));
    sea = basename(trainAdapter(dir, 'sea', 'A ship went over cold water. '));
    symlinkSync('/', join(dir, 'out'));
    cpSync(join(dir, moon), join(folder, moon), { recursive: true });
});

async function send(server, path, body) {
    const answer = await fetch(server.url + path, { method: 'POST', body: JSON.stringify(body) });
    const text = await answer.text();
    return { status: answer.status, text, body: text.startsWith('{') ? JSON.parse(text) : undefined };
}

const load = (server, lora_name, lora_path, more) => send(server, '/v1/load_lora_adapter', { lora_name, lora_path,
    ...more });
const unload = (server, lora_name) => send(server, '/v1/unload_lora_adapter', { lora_name });
const list = async (server) => (await fetch(`${server.url}/lora-adapters`)).json();

/** What the model or adapter says, with its log-probabilities. */
async function say(server, model, more) {
    const { status, text, body } = await send(server, '/v1/completions', { model, ...story, ...more });
    assert.equal(status, 200, text);
    return [body.choices[0].text, body.choices[0].logprobs?.token_logprobs];
}

async function withServer(flags, use) {
    const server = await startServer(flags);
    try {
        await use(server);
    } finally {
        assert.equal(await server.stop(), 0, server.output());
    }
}

/** What each says on a server of its own. */
async function expected() {
    const said = {};
    const flags = ['--no-prefix-reuse', '--lora', `moon=${join(dir, moon)}`, '--lora', `sea=${join(dir, sea)}`];
    await withServer(flags, async (server) => {
        for (const name of ['stories', 'moon', 'sea']) said[name] = await say(server, name);
    });
    assert.notDeepEqual(said.moon, said.stories);
    assert.notDeepEqual(said.moon, said.sea);
    return said;
}

test('an adapter is loaded, replaced and unloaded, and none reuses what another has evaluated', async () => {
    const said = await expected();
    await withServer(['--lora-dir', dir], async (server) => {
        assert.equal((await send(server, '/v1/completions', { model: 'a', ...story })).status, 404);
        for (const [path, name] of [[moon, 'moon'], [join(dir, sea), 'sea']]) {
            const { status, text } = await load(server, 'a', path, { load_inplace: name === 'sea' });
            assert.equal(status, 200, text);
            for (let i = 0; i < 2; i++) assert.deepEqual(await say(server, 'a'), said[name]);
            assert.deepEqual(await say(server, 'stories'), said.stories);
        }
        assert.ok(await metric(server, 'tern_cached_tokens_total') > 64);
        assert.deepEqual((await list(server)).map(({ id, name, scale }) => ({ id, name, scale })),
            [{ id: 1, name: 'a', scale: 0 }]);
        assert.equal((await load(server, 'a', moon)).status, 400);
        const models = await (await fetch(`${server.url}/v1/models`)).json();
        assert.deepEqual(models.data.map((m) => [m.id, m.parent]), [['stories', undefined], ['a', 'stories']]);
        assert.equal((await unload(server, 'a')).status, 200);
        assert.equal((await unload(server, 'a')).status, 404);
        assert.equal((await send(server, '/v1/completions', { model: 'a', ...story })).status, 404);
        assert.deepEqual(await say(server, 'stories'), said.stories);
    });
});

test('what runs with an adapter ends with it', async () => {
    const flags = ['--lora-dir', dir, '--parallel', '16'];
    const long = { model: 'a', prompt: 'Once', n: 16, max_tokens: 150, ignore_eos: true, seed: 4, stream: true };
    await withServer(flags, async (server) => {
        const stream = async (each = () => {}) => {
            const answer = await fetch(`${server.url}/v1/completions`, { method: 'POST', body: JSON.stringify(long) });
            const texts = Array(16).fill('');
            let rest = '';
            for await (const part of answer.body.pipeThrough(new TextDecoderStream())) {
                each();
                const lines = (rest + part).split('\n\n');
                rest = lines.pop();
                for (const line of lines.filter((l) => l.startsWith('data: {')))
                    for (const c of JSON.parse(line.slice(6)).choices) texts[c.index] += c.text;
            }
            return texts;
        };
        assert.equal((await load(server, 'a', moon)).status, 200);
        const alone = await stream();
        let over, ended = false;
        const cut = await stream(() => {
            over ??= load(server, 'a', sea, { load_inplace: true }).then(() => unload(server, 'a'))
                .then(({ status }) => ({ status, ended }));
        });
        ended = true;
        assert.deepEqual(cut, alone);
        assert.deepEqual(await over, { status: 200, ended: false });
    });
});

test('the tokens of others do not wait for the file of an adapter', async () => {
    const pipe = join(dir, 'pipe.gguf');
    execFileSync('mkfifo', [pipe]); // who opens it to read waits until somebody opens it to write
    await withServer(['--lora-dir', dir], async (server) => {
        const said = await say(server, 'stories');
        let over = false;
        const answer = load(server, 'a', 'pipe.gguf').finally(() => { over = true; });
        for (let i = 0; i < 8; i++) assert.deepEqual(await say(server, 'stories'), said);
        assert.equal((await send(server, '/v1/completions', { model: 'a', ...story })).status, 404);
        assert.equal(over, false);
        closeSync(openSync(pipe, 'w'));
        const { status, text } = await answer;
        assert.equal(status, 500, text);
        assert.match(text, /pipe\.gguf: no regular file/);
        const both = await Promise.all([load(server, 'b', moon), load(server, 'b', sea)]);
        assert.deepEqual(both.map((one) => one.status).sort(), [200, 400]);
        assert.notDeepEqual(await say(server, 'b'), said);
        assert.deepEqual((await list(server)).map(({ name }) => name), ['b']);
    });
});

test('scales of adapters where none is named, and of one request', async () => {
    const said = await expected();
    const flags = ['--lora', `moon=${join(dir, moon)}`, '--lora', `sea=${join(dir, sea)}`];
    await withServer(flags, async (server) => {
        const scale = (body) => send(server, '/lora-adapters', body);
        assert.deepEqual(await say(server, 'stories'), said.stories);
        assert.deepEqual((await scale([{ id: 1, scale: 1 }])).body, { success: true });
        assert.deepEqual((await list(server)).map((l) => l.scale), [0, 1]);
        assert.deepEqual(await say(server, 'stories'), said.sea);
        assert.deepEqual(await say(server, 'moon'), said.moon);
        await scale([{ id: 0, scale: 0.5 }, { id: 1, scale: 0.5 }]);
        const both = await say(server, 'stories');
        for (const other of Object.values(said)) assert.notDeepEqual(both, other);
        const native = async (lora) => (await send(server, '/completion', { prompt: story.prompt, temperature: 0,
            n_predict: 12, lora })).body.content;
        assert.equal(await native([{ id: 0, scale: 1 }]), said.moon[0]);
        assert.equal(await native([]), said.stories[0]);
        assert.equal(await native(undefined), both[0]);
        for (const bad of [[{ id: 2, scale: 1 }], [{ id: 0 }], [{ id: 0, scale: 'a' }], {}, [{ id: 0, scale: 1 },
            { id: 0, scale: 1 }], [{ id: -1, scale: 1 }]]) {
            const { status, body } = await scale(bad);
            assert.equal(status, 400, JSON.stringify(bad));
            assert.match(body.error.message, /lora.* (expected|twice)/);
        }
        assert.deepEqual((await list(server)).map((l) => l.scale), [0.5, 0.5]);
        await scale([]);
        assert.deepEqual(await say(server, 'stories'), said.stories);
    });
});

test('files elsewhere, names that are taken and servers that do not allow it', async () => {
    await withServer(['--lora-dir', dir], async (server) => {
        for (const path of ['none', `../${moon}`, join(folder, moon), join('out', join(folder, moon)), '.', '..'])
            assert.equal((await load(server, 'a', path)).status, 404, path);
        for (const name of ['', 'stories', 'stories:latest', 'a'.repeat(64), 'a"b', 'a\nb'])
            assert.equal((await load(server, name, moon)).status, 400, name);
        assert.equal((await load(server, 'a', 'moon.txt')).status, 400);
        writeFileSync(join(folder, 'secret'), 'secret words');
        for (const [name, from, to] of [['linked', 'adapter_model.safetensors', join(folder, moon)],
            ['quoted', 'adapter_config.json', join(folder, 'secret')], ['loop', 'adapter_config.json', 'loop']]) {
            mkdirSync(join(dir, name));
            symlinkSync(to, join(dir, name, from));
            const answer = await load(server, 'a', name);
            assert.equal(answer.status, 404, name);
            assert.doesNotMatch(answer.text ?? JSON.stringify(answer.body), /secret words/);
        }
        for (let i = 0; i < 64; i++) assert.equal((await load(server, `${i}`, moon)).status, 200);
        assert.match((await load(server, 'more', moon)).text, /64 adapters are loaded already/);
        assert.equal((await list(server)).length, 64);
    });
    await withServer([], async (server) => {
        for (const answer of [await load(server, 'a', join(dir, moon)), await unload(server, 'a')]) {
            assert.equal(answer.status, 400);
            assert.match(answer.body.error.message, /--lora-dir/);
        }
    });
});
