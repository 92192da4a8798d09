// The client of the Anthropic API against tern serve.
import Anthropic from '@anthropic-ai/sdk';
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startServer } from './support/server.mjs';

const story = 'Once upon a time';
const ask = { model: 'stories', max_tokens: 12, temperature: 0, messages: [{ role: 'user', content: story }] };
let server, client;

before(async () => {
    server = await startServer();
    client = new Anthropic({ baseURL: server.url, apiKey: 'none', maxRetries: 0 });
});
after(() => server?.stop());

test('a message and its stream say the same', async () => {
    const whole = await client.messages.create(ask);
    assert.equal(whole.stop_reason, 'max_tokens');
    assert.equal(whole.usage.output_tokens, 12);
    const stream = client.messages.stream(ask);
    let text = '';
    stream.on('text', (piece) => { text += piece; });
    const last = await stream.finalMessage();
    assert.equal(text, whole.content[0].text);
    assert.equal(last.content[0].text, whole.content[0].text);
    assert.equal(last.stop_reason, 'max_tokens');
    assert.equal(last.usage.output_tokens, 12);
});

test('the system comes first; a stop sequence is named', async () => {
    const whole = await client.messages.create(ask);
    const split = await client.messages.create({ ...ask, system: [{ type: 'text', text: 'Once upon' }],
        messages: [{ role: 'user', content: ' a time' }] });
    assert.equal(split.content[0].text, whole.content[0].text);
    const word = whole.content[0].text.trim().split(' ')[2];
    const stopped = await client.messages.create({ ...ask, stop_sequences: [word] });
    assert.equal(stopped.stop_reason, 'stop_sequence');
    assert.equal(stopped.stop_sequence, word);
});

test('tokens are counted as they are evaluated', async () => {
    const { input_tokens: n } = await client.messages.countTokens({ model: 'stories', messages: ask.messages });
    const { usage } = await client.messages.create(ask);
    assert.equal(n, usage.input_tokens + usage.cache_read_input_tokens);
});

test('what cannot be done is refused by name', async () => {
    await assert.rejects(client.post('/v1/none'), Anthropic.NotFoundError);
    await assert.rejects(client.messages.create({ ...ask, max_tokens: undefined }), (e) =>
        e instanceof Anthropic.BadRequestError && e.error.type === 'error' && /max_tokens/.test(e.message));
    await assert.rejects(client.messages.create({ ...ask, context_management: { edits: [{ type: 'clear' }] } }),
        /context_management: not supported/);
    await assert.rejects(client.messages.create({ ...ask, output_config: { x: 1 } }), /output_config: x: an unknown/);
});
