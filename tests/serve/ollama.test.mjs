// The client of the Ollama API against tern serve.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Ollama } from 'ollama';
import { metric, startServer, until } from './support/server.mjs';

const story = 'Once upon a time';
const options = { temperature: 0, num_predict: 12 };
const messages = [{ role: 'user', content: story }];
let server, client;

before(async () => {
    server = await startServer();
    client = new Ollama({ host: server.url });
});
after(() => server?.stop());

test('models are listed and described', async () => {
    assert.deepEqual((await client.list()).models.map((m) => m.name), ['stories:latest']);
    const shown = await client.show({ model: 'stories:latest' });
    assert.ok(shown.model_info['general.parameter_count'] > 1e5);
    assert.deepEqual(shown.capabilities, ['completion']); // with embedding, `ollama run` would ask for vectors
});

test('chat and its stream say the same', async () => {
    const whole = await client.chat({ model: 'stories', messages, options });
    assert.equal(whole.done_reason, 'length');
    assert.equal(whole.eval_count, 12);
    let text = '', last;
    for await (const part of await client.chat({ model: 'stories', messages, options, stream: true })) {
        text += part.message.content;
        last = part;
    }
    assert.equal(text, whole.message.content);
    assert.equal(last.done, true);
    assert.equal(last.prompt_eval_count, whole.prompt_eval_count);
});

test('generate goes by the template, or raw', async () => {
    const [a, b] = await Promise.all([true, false].map((raw) => client.generate({ model: 'stories', prompt: story, raw,
        options })));
    assert.equal(a.response, b.response); // the template of the tests adds nothing
    const word = a.response.trim().split(' ')[2];
    const stopped = await client.generate({ model: 'stories', prompt: story, options: { ...options, stop: [word] } });
    assert.equal(stopped.response, a.response.split(word)[0]);
    assert.equal(stopped.done_reason, 'stop');
});

test('vectors have length 1, and the same text the same one', async () => {
    const { embeddings } = await client.embed({ model: 'stories', input: [story, 'A cat.', story] });
    assert.equal(embeddings.length, 3);
    for (const v of embeddings) assert.ok(Math.abs(Math.hypot(...v) - 1) < 1e-5);
    assert.deepEqual(embeddings[0], embeddings[2]);
    assert.notDeepEqual(embeddings[0], embeddings[1]);
});

test('what cannot be done is refused by name', async () => {
    await assert.rejects(client.chat({ model: 'stories', messages, format: 'xml' }), /format: "xml" found/);
    await assert.rejects(client.chat({ model: 'stories', messages, options: { top_p: 2 } }), /options.*top_p: 2 found/);
    await assert.rejects(client.chat({ model: 'stories', messages, options: { mirostat: 1 } }), /mirostat: 1 found/);
});

test('options that are not known are ignored, and told of', async () => {
    const unknown = { penalize_newline: true, vocab_only: false, f16_kv: true, tfs_z: 1 };
    const plain = await client.chat({ model: 'stories', messages, options });
    const chat = await client.chat({ model: 'stories', messages, options: { ...options, ...unknown, top_k: -1 } });
    assert.equal(chat.message.content, plain.message.content);
    assert.deepEqual(chat.ignored_options, Object.keys(unknown));
    assert.equal(plain.ignored_options, undefined);
    let last;
    for await (const part of await client.generate({ model: 'stories', prompt: story, options: { ...options, x: 1 },
        stream: true })) last = part;
    assert.deepEqual(last.ignored_options, ['x']);
    await until(() => server.output().includes('"ignored_options":["x"]'));
});

test('Mirostat draws from a seed', async () => {
    const say = async (more) => (await client.generate({ model: 'stories', prompt: story,
        options: { seed: 3, num_predict: 30, temperature: 1.5, top_k: 0, top_p: 1, ...more } })).response;
    const low = { mirostat: 2, mirostat_tau: 1, mirostat_eta: 0.3 };
    assert.equal(await say(low), await say(low));
    assert.notEqual(await say(low), await say({}));
    assert.equal(await say({ mirostat: 0, mirostat_tau: 5, mirostat_eta: 0.1 }), await say({}));
});

test('a client that leaves frees its sequence', async () => {
    const stream = await client.generate({ model: 'stories', prompt: story, stream: true,
        options: { num_predict: -1, ignore_eos: true } });
    let n = 0;
    await assert.rejects(async () => {
        for await (const part of stream) if (part && ++n === 2) client.abort();
    });
    await until(async () => (await metric(server, 'tern_sequences_running')) === 0);
});
