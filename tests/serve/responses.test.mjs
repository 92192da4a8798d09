// Responses that the server keeps: found, listed and deleted by their ids, with OpenAI's client and with rude requests.
import assert from 'node:assert/strict';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import OpenAI from 'openai';
import { startServer } from './support/server.mjs';

const ask = { model: 'stories', input: 'Once upon a time', temperature: 0, max_output_tokens: 8 };
let server, client;

before(async () => {
    server = await startServer();
    client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
});
after(() => server?.stop());

async function send(method, path, body) {
    const answer = await fetch(server.url + path, { method, body: body && JSON.stringify(body) });
    return [answer.status, await answer.json()];
}
/** The error that a request of this id gets. */
const gone = (id) => ({ error: { message: `no response "${id}" is kept`, type: 'invalid_request_error', param: null,
    code: null } });

test('a response is found again, and is gone once it is deleted', async () => {
    const made = await client.responses.create({ ...ask, metadata: { topic: 'fox' } });
    assert.deepEqual(made.metadata, { topic: 'fox' });
    const { output_text: text, _request_id: unused, ...plain } = made;
    const { output_text: again, ...found } = await client.responses.retrieve(made.id);
    assert.deepEqual({ ...found }, plain);
    assert.equal(again, text);
    const [status, deleted] = await send('DELETE', `/v1/responses/${made.id}`);
    assert.equal(status, 200);
    assert.deepEqual(deleted, { id: made.id, object: 'response', deleted: true });
    for (const [method, more] of [['GET', ''], ['DELETE', ''], ['GET', '/input_items']])
        assert.deepEqual(await send(method, `/v1/responses/${made.id}${more}`), [404, gone(made.id)]);
    await assert.rejects(client.responses.retrieve(made.id), OpenAI.NotFoundError);
});

test('a stream is kept as its last event has it', async () => {
    const last = await client.responses.stream(ask).finalResponse();
    const found = await client.responses.retrieve(last.id);
    assert.deepEqual(found.output, JSON.parse(JSON.stringify(last.output, (key, value) => key === 'parsed' ? undefined
        : value)));
    assert.equal(found.status, 'incomplete');
    await client.responses.delete(last.id);
});

test('store: false keeps nothing; null and true keep', async () => {
    const unkept = await client.responses.create({ ...ask, store: false });
    assert.deepEqual(await send('GET', `/v1/responses/${unkept.id}`), [404, gone(unkept.id)]);
    for (const store of [null, true]) {
        const kept = await client.responses.create({ ...ask, store });
        assert.equal((await client.responses.retrieve(kept.id)).id, kept.id);
    }
});

test('an earlier response that is not kept is refused in OpenAI\'s form', async () => {
    const first = await client.responses.create(ask);
    const second = await client.responses.create({ ...ask, previous_response_id: first.id });
    await client.responses.delete(first.id);
    assert.deepEqual(await send('POST', '/v1/responses', { ...ask, previous_response_id: first.id }), [400, { error: {
        message: `previous_response_id: no response "${first.id}" is kept`, type: 'invalid_request_error',
        param: 'previous_response_id', code: 'previous_response_not_found' } }]);
    const third = await client.responses.create({ ...ask, previous_response_id: second.id }); // it has the first turn
    assert.ok(third.usage.input_tokens > second.usage.input_tokens);
});

const call = { type: 'function_call', call_id: 'call_1', name: 'look', arguments: '{"where":"forest"}' };
const items = [{ role: 'developer', content: 'Be brief.' }, { role: 'user', content: [{ type: 'input_text',
    text: 'Where is the fox?' }] }, call, { type: 'function_call_output', call_id: 'call_1', output: 'in its den' }];
const text = (item) => item.content[0].text;

test('input items are those of the whole conversation, in pages', async () => {
    const first = await client.responses.create({ ...ask, instructions: 'Unlisted.', input: items });
    const second = await client.responses.create({ ...ask, input: 'And now?', previous_response_id: first.id });
    const all = [];
    for await (const item of client.responses.inputItems.list(second.id, { order: 'asc', limit: 2 })) all.push(item);
    assert.deepEqual(all.map((item) => [item.type, item.role]), [['message', 'system'], ['message', 'user'],
        ['function_call', undefined], ['function_call_output', undefined], ['message', 'assistant'],
        ['message', 'user']]);
    assert.equal(new Set(all.map((item) => item.id)).size, all.length);
    assert.deepEqual([text(all[0]), text(all[1]), text(all[4]), text(all[5])], ['Be brief.', 'Where is the fox?',
        first.output_text, 'And now?']);
    assert.deepEqual(all.map((item) => item.content?.[0].type), ['input_text', 'input_text', undefined, undefined,
        'output_text', 'input_text']);
    assert.deepEqual([all[2].call_id, all[2].name, JSON.parse(all[2].arguments)], ['call_1', 'look',
        { where: 'forest' }]);
    assert.deepEqual([all[3].call_id, all[3].output], ['call_1', 'in its den']);
    const [, page] = await send('GET', `/v1/responses/${second.id}/input_items?limit=4`); // the newest first
    assert.deepEqual(page, { object: 'list', data: all.slice(2).reverse(), first_id: all[5].id, last_id: all[2].id,
        has_more: true });
    const [, rest] = await send('GET', `/v1/responses/${second.id}/input_items?after=${all[2].id}`);
    assert.deepEqual(rest.data, [all[1], all[0]]);
    assert.equal(rest.has_more, false);
    const [, none] = await send('GET', `/v1/responses/${second.id}/input_items?after=${all[0].id}`);
    assert.deepEqual(none, { object: 'list', data: [], first_id: null, last_id: null, has_more: false });
});

test("a model's own system message counts once, and is not shown", async () => {
    const preset = join(mkdtempSync(join(tmpdir(), 'tern-responses-')), 'preset');
    writeFileSync(preset, '[stories]\nsystem = "Once upon a time there was a fox in a den."\n');
    const own = await startServer(['--models-preset', preset]);
    try {
        const other = new OpenAI({ baseURL: `${own.url}/v1`, apiKey: 'none', maxRetries: 0 });
        const first = await other.responses.create(ask);
        const second = await other.responses.create({ ...ask, previous_response_id: first.id });
        const { data } = await other.responses.inputItems.list(second.id, { order: 'asc' });
        assert.deepEqual(data.map((item) => item.role), ['user', 'assistant', 'user']);
        const spelled = await other.responses.create({ ...ask, input: data });
        assert.equal(second.usage.input_tokens, spelled.usage.input_tokens);
    } finally {
        await own.stop();
    }
});

test('input tokens are counted as the answer counts them', async () => {
    const { input_tokens: n, object } = await client.responses.inputTokens.count({ model: 'stories', input: items });
    assert.equal(object, 'response.input_tokens');
    const { usage, id } = await client.responses.create({ ...ask, input: items });
    assert.equal(n, usage.input_tokens);
    const more = await client.responses.inputTokens.count({ previous_response_id: id, input: 'And now?' });
    const second = await client.responses.create({ ...ask, input: 'And now?', previous_response_id: id });
    assert.equal(more.input_tokens, second.usage.input_tokens);
    const [status, error] = await send('POST', '/v1/responses/input_tokens', { input: 7 });
    assert.deepEqual([status, error.error.type], [400, 'invalid_request_error']);
});

test('rude requests get errors that name what is wrong', async () => {
    const { id } = await client.responses.create(ask);
    for (const [query, message] of [['limit=0', 'limit: "0" found, a whole number from 1 to 100 expected'],
        ['limit=101', 'limit: "101" found, a whole number from 1 to 100 expected'],
        ['limit=1e1', 'limit: "1e1" found, a whole number from 1 to 100 expected'],
        ['limit=99999999999999999999', 'limit: "99999999999999999999" found, a whole number from 1 to 100 expected'],
        ['order=up', 'order: "up" found, asc or desc expected'],
        ['after=msg_x', 'after: "msg_x" found, the id of an item of this list expected']]) {
        const [status, { error }] = await send('GET', `/v1/responses/${id}/input_items?${query}`);
        assert.deepEqual([status, error.message, error.type], [400, message, 'invalid_request_error']);
    }
    const [status, { error }] = await send('GET', `/v1/responses/${id}?stream=true`);
    assert.deepEqual([status, error.message],
        [400, 'stream: true found, false expected: a stored response comes in one piece']);
    for (const odd of ['resp_' + 'x'.repeat(4000), '%22%0a', 'a..b', 'input_items', '%ff%fe'])
        for (const method of ['GET', 'DELETE']) {
            const [code, answer] = await send(method, `/v1/responses/${odd}`);
            assert.equal(code, 404, odd);
            assert.match(answer.error.message, /^no response ".*" is kept$/);
        }
    for (const previous of ['x'.repeat(100000), '', '\u0001']) {
        const [code] = await send('POST', '/v1/responses', { ...ask, previous_response_id: previous });
        assert.equal(code, 400);
    }
    const other = await fetch(`${server.url}/v1/responses/${id}`, { method: 'POST', body: '{}' });
    assert.equal(other.status, 405);
    assert.equal(other.headers.get('allow'), 'GET, HEAD, DELETE, OPTIONS');
    for (const metadata of [7, { a: 1 }, { ['k'.repeat(65)]: 'a' }, { a: 'v'.repeat(513) },
        Object.fromEntries([...Array(17).keys()].map((k) => [k, 'a']))]) {
        const [code, answer] = await send('POST', '/v1/responses', { ...ask, metadata });
        assert.equal(code, 400);
        assert.match(answer.error.message, /^metadata: .* expected$/);
    }
});

test('ids that are deleted while others stream on them take nothing from the streams', async () => {
    const first = await client.responses.create(ask);
    const streams = await Promise.all([...Array(4)].map(() => client.responses.create({ ...ask, input: 'And then?',
        max_output_tokens: 64, previous_response_id: first.id, stream: true })));
    let id, early;
    const ends = streams.map(async (stream) => {
        let end;
        for await (const event of stream) {
            if (event.type === 'response.created' && !id) {
                ({ id } = event.response);
                assert.equal((await send('DELETE', `/v1/responses/${first.id}`))[0], 200);
                [early] = await send('DELETE', `/v1/responses/${id}`); // 404: it is kept at its end
            }
            end = event.response ?? end;
        }
        return end;
    });
    const ended = await Promise.all(ends);
    assert.equal(new Set(ended.map((r) => JSON.stringify(r.output.map(text)))).size, 1);
    assert.equal((await send('DELETE', `/v1/responses/${id}`))[0], early === 404 ? 200 : 404);
});
