// --cache-file: what is evaluated before a restart is found after it; what cannot be used is said and ignored.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { metric, startServer } from './support/server.mjs';

const folder = mkdtempSync(join(tmpdir(), 'tern-cache-'));
const file = join(folder, 'pages');
const story = { prompt: 'Once upon a time there was a little dog. '.repeat(12), max_tokens: 12, temperature: 0 };
const flags = ['--cache-file', file];

async function ask({ url }) {
    const answer = await fetch(`${url}/v1/completions`, { method: 'POST', body: JSON.stringify(story) });
    assert.equal(answer.status, 200);
    return (await answer.json()).choices[0].text;
}

/** Asks once: the text, and how many tokens of the prompt were found. */
async function askOnce(more = [], signal = 'SIGTERM') {
    const server = await startServer([...flags, ...more]);
    const text = await ask(server);
    const cached = await metric(server, 'tern_cached_tokens_total');
    await server.stop(signal);
    return { text, cached, said: server.output() };
}

test('a restart finds the prompt again, with the same text; a kill loses what came since, no more', async () => {
    const first = await askOnce();
    assert.equal(first.cached, 0);
    assert.equal(statSync(file).mode & 0o777, 0o600);
    const saved = readFileSync(file);
    const second = await askOnce([], 'SIGKILL');
    assert.equal(second.text, first.text);
    assert.ok(second.cached > 64, `${second.cached} tokens found`);
    assert.deepEqual(readFileSync(file), saved);
    const third = await askOnce();
    assert.equal(third.text, first.text);
    assert.equal(third.cached, second.cached);
    assert.deepEqual(readdirSync(folder), ['pages']);
});

test('damaged and foreign files are said and ignored, and the next stop writes a sound one', async () => {
    const expected = (await askOnce()).text;
    const sound = readFileSync(file);
    const damaged = Buffer.from(sound);
    damaged[damaged.length >> 1] ^= 1;
    for (const bytes of [damaged, sound.subarray(0, sound.length - 100), Buffer.alloc(0)]) {
        writeFileSync(file, bytes);
        const { text, cached, said } = await askOnce();
        assert.match(said, /--cache-file ignored: .*pages: /);
        assert.equal(text, expected);
        assert.equal(cached, 0);
        assert.ok((await askOnce()).cached > 64);
    }
    const other = await askOnce(['--kv', 'f16']);
    assert.match(other.said, /the cache is f32: f16 expected/);
    writeFileSync(file, 'somebody\'s own');
    assert.match((await askOnce()).said, /it was not changed/);
    assert.equal(readFileSync(file, 'utf8'), 'somebody\'s own');
});

test('a folder that is not there and flags that contradict each other', async () => {
    const missing = join(folder, 'none', 'pages');
    const server = await startServer(['--cache-file', missing]);
    await ask(server);
    assert.equal(await server.stop(), 0);
    assert.match(server.output(), /--cache-file: .*none\/pages/);
    assert.ok(!existsSync(missing));
    await assert.rejects(startServer([...flags, '--no-prefix-reuse']), /one of them expected/);
});
