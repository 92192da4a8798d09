// Models that clients of the Ollama API fetch, make, copy and delete, and the requests of `ollama` on the command line.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Ollama } from 'ollama';
import { trainAdapter } from './support/adapters.mjs';
import { startHub, sum } from './support/hub.mjs';
import { root, startServer, until } from './support/server.mjs';

const folder = mkdtempSync(join(tmpdir(), 'tern-serve-'));
const gguf = readFileSync(join(root, 'models', 'stories.gguf'));
const digest = `sha256:${sum(gguf)}`;
const env = { HF_HUB_CACHE: join(folder, 'hub'), HF_TOKEN: 'none' };
const repository = join(folder, 'hub', 'models--tiny--model-GGUF');
const pulled = 'hf.co/tiny/model-GGUF:Q8_0';
const story = 'Once upon a time';
const options = { temperature: 0, num_predict: 8 };
let hub, server, client;

before(async () => {
    hub = await startHub('model-Q8_0.gguf', gguf);
    env.HF_ENDPOINT = hub.url;
    await restart([]);
});
after(async () => {
    hub?.close();
    await server?.stop();
});

async function restart(flags = ['--manage']) {
    if (server) assert.equal(await server.stop(), 0, server.output());
    server = await startServer(flags, undefined, env);
    client = new Ollama({ host: server.url });
}

/** As Go's client sends and reads: the status, and the lines of the answer. */
async function send(method, path, body, headers = {}) {
    const text = body === undefined || Buffer.isBuffer(body) ? body : JSON.stringify(body);
    const answer = await fetch(`${server.url}${path}`, { method, body: text, headers: {
        accept: 'application/x-ndjson', 'user-agent': 'ollama/0.32.0 (amd64 linux) Go/go1.26', ...headers } });
    const lines = (await answer.text()).split('\n').filter(Boolean).map((line) => JSON.parse(line));
    return { status: answer.status, lines };
}

const names = async () => (await client.list()).models.map((m) => m.name).sort();
const say = async (model, more = {}) => (await client.generate({ model, prompt: story, options, ...more })).response;
const blobs = () => readdirSync(join(folder, 'hub', 'served', 'blobs'));

test('a server without --manage refuses changes, and writes no file', async () => {
    for (const [method, path, body] of [['POST', '/api/pull', { model: pulled }],
        ['POST', '/api/create', { model: 'a', from: 'stories' }], ['POST', `/api/blobs/${digest}`, gguf],
        ['HEAD', `/api/blobs/${digest}`], ['POST', '/api/copy', { source: 'stories', destination: 'b' }],
        ['DELETE', '/api/delete', { name: 'stories' }]]) {
        const { status, lines } = await send(method, path, body);
        assert.equal(status, 403, path);
        if (method !== 'HEAD') assert.match(lines[0].error, /started without --manage/);
    }
    assert.ok(!existsSync(join(folder, 'hub')));
    await restart();
});

test('pull: progress, a client that leaves, and the rest of the bytes later', async () => {
    hub.hold();
    const half = await client.pull({ model: pulled, stream: true });
    const seen = [];
    await assert.rejects(async () => {
        for await (const part of half) {
            seen.push(part);
            if (part.completed > 0) client.abort();
        }
    });
    assert.equal(seen[0].status, 'pulling manifest');
    const part = seen.find((p) => p.digest);
    assert.equal(part.digest, digest);
    assert.equal(part.status, `pulling ${sum(gguf).slice(0, 12)}`);
    assert.equal(part.total, gguf.length);
    const begun = join(repository, 'blobs', `${sum(gguf)}.incomplete`);
    await until(() => existsSync(begun));
    assert.ok(!(await names()).includes(pulled));
    await until(() => hub.running() === 0);
    hub.release();
    const said = [];
    for await (const p of await client.pull({ model: pulled, stream: true })) said.push(p.status);
    assert.deepEqual(said.slice(-2), ['writing manifest', 'success']);
    assert.ok(hub.ranges.at(-1) > 0); // from where it stopped
    assert.ok(!existsSync(begun));
    assert.deepEqual(await names(), [pulled, 'stories:latest']);
    assert.equal(await say(pulled, { raw: true }), await say('stories', { raw: true }));
    assert.deepEqual((await send('POST', '/api/pull', { model: pulled, stream: false })).lines,
        [{ status: 'success' }]);
});

test('pull refuses names that are none, and repositories that are not there', async () => {
    for (const name of ['../../etc/passwd', 'a//b', '', 'a:b:c', 'hf.co/tiny/../x', '.hidden'])
        assert.match((await send('POST', '/api/pull', { model: name })).lines.at(-1).error, /a name as NAME or ORG/);
    assert.match((await send('POST', '/api/pull', { model: 'llama3.2:1b' })).lines.at(-1).error, /llama3\.2-1b/);
    const missing = await send('POST', '/api/pull', { model: 'hf.co/tiny/none', stream: false });
    assert.equal(missing.status, 404);
    await restart(['--manage', '--max-upload', '1M']);
    assert.match((await send('POST', '/api/pull', { model: pulled })).lines.at(-1).error, /at most 1048576 expected/);
    assert.equal((await send('POST', `/api/blobs/${digest}`, gguf)).status, 413);
    await restart();
});

test('create from a model: system, parameters, messages, template; it is there after a restart', async () => {
    await client.create({ model: 'mario', from: 'stories', system: 'You are Mario.', template: 'chatml',
        parameters: { temperature: 0, num_predict: 5, num_ctx: 64, stop: ['zzz'] },
        messages: [{ role: 'user', content: 'Who?' }, { role: 'assistant', content: 'Me.' }] });
    await restart();
    const shown = await client.show({ model: 'mario:latest' });
    assert.equal(shown.system, 'You are Mario.');
    assert.match(shown.parameters, /^num_predict +5$/m);
    assert.match(shown.parameters, /^stop +"zzz"$/m);
    assert.match(shown.template, /im_start/);
    assert.equal(shown.details.parent_model, 'stories');
    assert.equal(shown.messages.length, 2);
    const { lines } = await send('POST', '/apply-template', { model: 'mario',
        messages: [{ role: 'user', content: 'Hi' }] });
    const places = ['You are Mario.', 'Who?', 'Me.', 'Hi'].map((text) => lines[0].prompt.indexOf(text));
    assert.ok(places[0] >= 0);
    assert.deepEqual(places, [...places].sort((a, b) => a - b));
    const own = await send('POST', '/apply-template', { model: 'mario', messages: [{ role: 'system', content: 'X' },
        { role: 'user', content: 'Hi' }] });
    assert.ok(!own.lines[0].prompt.includes('Mario'));
    const answer = await client.generate({ model: 'mario', prompt: story, raw: true });
    assert.equal(answer.eval_count, 5);
    assert.equal((await client.generate({ model: 'mario', prompt: story, raw: true, options: { num_predict: 3 } }))
        .eval_count, 3);
    const openai = await send('POST', '/v1/completions', { model: 'mario', prompt: story });
    assert.equal(openai.lines[0].choices[0].text, answer.response);
    assert.equal((await client.ps()).models.find((m) => m.name === 'mario:latest').context_length, 64);
    for (const [body, message] of [[{ parameters: { colour: 1 } }, /colour: an unknown field/],
        [{ parameters: { top_p: 2 } }, /top_p: 2 found/], [{ quantize: 'q4_K_M' },
            /quantize: "q4_K_M" found, none \(`tern convert --type` converts models\) expected/],
        [{ renderer: 'x' }, /renderer: "x" found, none \(`template`/], [{ modelfile: 'FROM x' }, /its commands as mem/],
        [{ template: '{{ .Prompt }}' }, /Jinja or one of chatml.* Go's templates are not read/],
        [{ from: 'none' }, /none/],
        [{ files: { a: digest, b: digest } }, /2 files found, one GGUF file expected \(`tern convert`/]]) {
        const { lines: said } = await send('POST', '/api/create', { model: 'bad', from: 'stories', ...body });
        assert.match(said.at(-1).error, message);
    }
    const given = await send('POST', '/api/create', { model: 'stories', from: 'mario', stream: false });
    assert.match(given.lines[0].error, /"stories" was given/);
    assert.ok(!(await names()).includes('bad:latest'));
});

test('blobs: whole or not there; a model and an adapter of them', async () => {
    assert.equal((await send('HEAD', `/api/blobs/${digest}`)).status, 404);
    assert.equal((await send('POST', `/api/blobs/sha256:${'0'.repeat(64)}`, gguf)).status, 400);
    assert.equal((await send('POST', '/api/blobs/sha256:..%2F..%2Fx', gguf)).status, 400);
    assert.deepEqual(blobs(), []);
    assert.equal((await send('POST', `/api/blobs/${digest}`, gguf)).status, 201);
    assert.equal((await send('POST', `/api/blobs/${digest}`, gguf)).status, 200);
    assert.equal((await send('HEAD', `/api/blobs/${digest}`)).status, 200);
    await client.create({ model: 'own', files: { 'x.gguf': digest } });
    assert.equal(await say('own', { raw: true }), await say('stories', { raw: true }));
    trainAdapter(folder, 'moon.gguf', 'The moon sang to the sea. ');
    const bytes = readFileSync(join(folder, 'moon.gguf'));
    const adapter = `sha256:${sum(bytes)}`;
    await send('POST', `/api/blobs/${adapter}`, bytes);
    await client.create({ model: 'moon', from: 'own', adapters: { 'moon.gguf': adapter } });
    assert.notEqual(await say('moon', { raw: true }), await say('own', { raw: true }));
    assert.equal(await say('own', { raw: true }), await say('stories', { raw: true }));
    await send('POST', `/api/blobs/sha256:${sum('text')}`, Buffer.from('text'));
    assert.match((await send('POST', '/api/create', { model: 'c', files: { 'x.gguf': `sha256:${sum('text')}` } }))
        .lines.at(-1).error, /not a GGUF file/);
    await client.delete({ model: 'own' });
    assert.equal(blobs().length, 3); // moon is made of them
    await client.delete({ model: 'moon' });
    assert.deepEqual(blobs(), [`sha256-${sum('text')}`]);
});

test('copy and delete: files go with the last name, those that were there before stay', async () => {
    await client.copy({ source: pulled, destination: 'org/twin:v1' });
    await assert.rejects(client.copy({ source: 'none', destination: 'x' }), /not found/);
    await assert.rejects(client.delete({ model: 'stories' }), /"stories" was given/);
    await assert.rejects(client.delete({ model: 'none' }), /not found/);
    await client.delete({ model: pulled });
    assert.ok(existsSync(join(repository, 'blobs', sum(gguf))));
    assert.equal(await say('org/twin:v1', { raw: true }), await say('stories', { raw: true }));
    await client.delete({ model: 'org/twin:v1' });
    await client.delete({ model: 'mario' });
    assert.ok(!existsSync(join(repository, 'blobs', sum(gguf))));
    assert.deepEqual(await names(), ['stories:latest']);
    await client.pull({ model: pulled });
    writeFileSync(join(folder, 'hub', 'served', 'manifests', 'x.json'), '{"name": "../x", "from": {"blob": "/etc"}}');
    await restart();
    assert.match(server.output(), /x\.json is left out/);
    const manifest = join(folder, 'hub', 'served', 'manifests', readdirSync(join(folder, 'hub', 'served', 'manifests'))
        .find((file) => file.startsWith('hf')));
    writeFileSync(manifest, readFileSync(manifest, 'utf8').replace('"fetched": true', '"fetched": false'));
    await restart();
    await client.delete({ model: pulled });
    assert.ok(existsSync(join(repository, 'blobs', sum(gguf))));
});

test('the requests of ollama list, ps, show, run, stop and rm', async () => {
    assert.equal((await send('HEAD', '/')).status, 200);
    await client.create({ model: 'mine', from: 'stories', parameters: { temperature: 0 } });
    const row = (await send('GET', '/api/tags')).lines[0].models.find((m) => m.name === 'mine:latest');
    assert.match(row.digest, /^[0-9a-f]{64}$/);
    assert.equal(row.size, gguf.length);
    assert.ok(Math.abs(Date.now() - Date.parse(row.modified_at)) < 1e12);
    assert.match(row.details.parameter_size, /^\d[\d.]*[KMB]$/);
    assert.match(row.details.quantization_level, /^[A-Z]\w+$/);
    // run: show, then generate
    const shown = (await send('POST', '/api/show', { model: 'mine', system: '', template: '', verbose: false,
        options: null, name: '' }));
    assert.equal(shown.status, 200, JSON.stringify(shown.lines));
    const arch = shown.lines[0].model_info['general.architecture'];
    assert.equal(arch, shown.lines[0].details.family);
    assert.ok(shown.lines[0].model_info[`${arch}.context_length`] > 0);
    assert.ok(!shown.lines[0].capabilities.includes('embedding'));
    const run = await send('POST', '/api/generate', { model: 'mine', prompt: story, suffix: '', system: '',
        template: '', keep_alive: '5m', options: { num_predict: 8 } });
    assert.equal(run.lines.at(-1).done, true);
    assert.equal(run.lines.map((l) => l.response).join(''), await say('stories'));
    // ps
    const open = (await send('GET', '/api/ps')).lines[0].models.find((m) => m.name === 'mine:latest');
    const left = (Date.parse(open.expires_at) - Date.now()) / 1000;
    assert.ok(left > 200 && left < 310, open.expires_at);
    assert.ok(open.size > 1e5 && open.size_vram === 0 && open.context_length > 0);
    assert.match(open.digest, /^[0-9a-f]{64}$/);
    // stop: show, then generate with a keep_alive of 0
    const stop = await send('POST', '/api/generate', { model: 'mine', prompt: '', suffix: '', system: '', template: '',
        keep_alive: '0s', options: null });
    assert.equal(stop.lines[0].done_reason, 'unload');
    await until(async () => !(await client.ps()).models.some((m) => m.name === 'mine:latest'));
    // rm
    assert.equal((await send('DELETE', '/api/delete', { model: '', name: 'mine' })).status, 200);
    assert.equal((await send('POST', '/api/show', { model: 'mine' })).status, 404);
});
