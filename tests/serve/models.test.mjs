// Several models: opened and closed when asked for, their own settings, and slots that are saved and restored.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { trainAdapter } from './support/adapters.mjs';
import { metric, root, startServer, until } from './support/server.mjs';

const folder = mkdtempSync(join(tmpdir(), 'tern-serve-'));
const model = join(root, 'models', 'stories.gguf');
const story = 'Once upon a time';
const greedy = { temperature: 0, num_predict: 12 };

async function withServer(flags, use) {
    const server = await startServer(flags);
    const ask = async (path, body) => {
        const answer = await fetch(`${server.url}${path}`, body && { method: 'POST', body: JSON.stringify(body) });
        return [answer.status, await answer.json()];
    };
    const say = async (name, more) => (await ask('/api/generate', { model: name, prompt: story, stream: false,
        options: greedy, ...more }))[1];
    const states = async () => Object.fromEntries((await ask('/models'))[1].data.map((m) => [m.id, m.status.value]));
    try {
        await use({ server, ask, say, states });
    } finally {
        assert.equal(await server.stop(), 0, server.output());
    }
}

test('models are loaded and unloaded by name, without a change of their answers', async () => {
    await withServer(['-m', `second=${model}`], async ({ server, ask, say, states }) => {
        assert.deepEqual(await states(), { stories: 'loaded', second: 'unloaded' });
        assert.deepEqual(await ask('/models/load', { model: 'second' }), [200, { success: true }]);
        assert.deepEqual(await states(), { stories: 'loaded', second: 'loaded' });
        const before = await say('second');
        assert.deepEqual(await ask('/models/unload', { model: 'second' }), [200, { success: true }]);
        await until(async () => (await states()).second === 'unloaded');
        assert.match((await ask('/models/unload', { model: 'second' }))[1].error.message, /second is not loaded/);
        assert.equal((await ask('/models/load', { model: 'third' }))[0], 404);
        assert.equal((await ask('/models/load', {}))[0], 400);
        assert.equal((await ask('/props?model=second'))[1].model_alias, 'second');
        assert.equal((await say('second')).response, before.response);
        const running = say('second', { options: { ...greedy, num_predict: 60, ignore_eos: true } });
        await until(async () => (await fetch(`${server.url}/metrics`).then((a) => a.text()))
            .includes('tern_sequences_running{model="second"} 1'));
        await ask('/models/unload', { model: 'second' }); // once its answer is whole
        assert.equal((await running).eval_count, 60);
        await until(async () => (await states()).second === 'unloaded');
        const [one, ...others] = await Promise.all(['stories', 'second', 'stories', 'second'].map((name) => say(name)));
        for (const other of others) assert.equal(other.response, one.response);
    });
});

test('empty prompts load, keep_alive 0 unloads, --unload-after closes', async () => {
    await withServer(['--unload-after', '1'], async ({ ask, say, states }) => {
        await until(async () => (await states()).stories === 'unloaded');
        for (const path of ['/api/generate', '/api/chat']) {
            const [status, loaded] = await ask(path, { model: 'stories', keep_alive: -1 });
            assert.equal(status, 200);
            assert.equal(loaded.done_reason, 'load');
            assert.equal(loaded.done, true);
            assert.deepEqual(await states(), { stories: 'loaded' });
            const year = new Date((await ask('/api/ps'))[1].models[0].expires_at).getUTCFullYear();
            assert.ok(year > new Date().getUTCFullYear() + 200);
            const [, unloaded] = await ask(path, { model: 'stories', keep_alive: 0, ...(path.endsWith('chat') &&
                { messages: [] }) });
            assert.equal(unloaded.done_reason, 'unload');
            await until(async () => (await states()).stories === 'unloaded');
        }
        assert.equal((await say('stories', { keep_alive: '0s' })).eval_count, 12);
        await until(async () => (await states()).stories === 'unloaded');
        const [status, answer] = await ask('/api/generate', { model: 'stories', keep_alive: '5 minutes' });
        assert.equal(status, 400);
        assert.match(answer.error, /keep_alive: "5 minutes" found, seconds or a duration/);
        const messages = [{ role: 'user', content: story, images: [] }];
        assert.equal((await ask('/api/chat', { model: 'stories', messages, stream: false, options: greedy }))[0], 200);
    });
});

test('context is returned, and goes on where it ended', async () => {
    await withServer([], async ({ ask, say }) => {
        const first = await say('stories');
        const ids = (await ask('/tokenize', { content: story, add_special: true }))[1].tokens;
        assert.deepEqual(first.context.slice(0, ids.length), ids);
        assert.equal(first.context.length, first.prompt_eval_count + first.eval_count);
        const next = await say('stories', { prompt: ' Then', context: first.context });
        assert.deepEqual(next.context.slice(0, first.context.length), first.context);
        const then = (await ask('/tokenize', { content: ' Then' }))[1].tokens;
        const [, whole] = await ask('/completion', { prompt: [...first.context, ...then], n_predict: 12,
            temperature: 0 });
        assert.equal(next.response, whole.content);
        assert.equal((await say('stories', { raw: true })).context, undefined);
        assert.match((await say('stories', { context: ['a'] })).error, /context: item 0 is not a token id/);
        assert.match((await say('stories', { raw: true, context: ids })).error, /context: not together with raw/);
    });
});

test('a preset file: settings of a model of -m, further models, adapters', async () => {
    const moon = trainAdapter(folder, 'moon', 'The moon sang to the sea. '), file = join(folder, 'models.ini');
    writeFileSync(file, ['version = 1', '; for all', '[*]', 'temp = 0', 'n-predict = 7', '', '[stories]', 'ctx = 96',
        'system = "Be brief."', '[moon]', `model = ${model}`, `lora = ${moon}:0.5`, 'n-predict = 4',
        'load-on-startup = true', 'chat-template = chatml'].join('\n'));
    await withServer(['--models-preset', file], async ({ ask, say, states }) => {
        assert.deepEqual(await states(), { stories: 'loaded', moon: 'loaded' });
        const plain = { raw: true, options: {} };
        const [own, other] = [await say('stories', plain), await say('moon', plain)];
        assert.deepEqual([own.eval_count, other.eval_count], [7, 4]);
        assert.equal((await say('moon', { raw: true, options: { num_predict: 5 } })).eval_count, 5);
        assert.equal((await ask('/props'))[1].default_generation_settings.n_ctx, 96);
        assert.match((await ask('/props?model=moon'))[1].chat_template, /im_start/);
        const messages = [{ role: 'user', content: 'Hi' }];
        assert.match((await ask('/apply-template', { messages }))[1].prompt, /Be brief/);
        const logprobs = async (name) => (await ask('/v1/completions', { model: name, prompt: story, max_tokens: 3,
            logprobs: 0 }))[1].choices[0].logprobs.token_logprobs;
        assert.notDeepEqual(await logprobs('stories'), await logprobs('moon'));
    });
    for (const [text, message] of [['temp = 0\n', /line 1: "temp" found, \[NAME\] expected/],
        ['[a]\nmodel = x\ncolour = 1\n', /line 3: "colour" found/], ['[a]\ntemp = 0\n', /\[a\]: model expected/],
        ['[a]\nmodel = x\ntemp = warm\n', /line 3: "warm" found, a number/], ['[a]\n[a]\n', /line 2: "a" found, each/],
        [`[a]\nmodel = ${model}\ntop-p = 2\n`, /top_p: 2 found/]]) {
        writeFileSync(file, text);
        await assert.rejects(startServer(['--models-preset', file]), message);
    }
});

test('slots are saved, erased and restored, in one folder alone', async () => {
    const slots = join(folder, 'slots');
    mkdirSync(slots);
    const prompt = 'The little fox ran over the hill and into the wood where '.repeat(4);
    const complete = { prompt, n_predict: 8, temperature: 0 };
    await withServer(['--slot-save-path', slots], async ({ server, ask }) => {
        const cached = async () => (await ask('/completion', complete))[1].tokens_cached;
        await cached();
        const [, alone] = await ask('/completion', complete);
        assert.ok(alone.tokens_cached >= 32);
        const [status, saved] = await ask('/slots/0?action=save', { filename: 'fox.bin' });
        assert.equal(status, 200, JSON.stringify(saved));
        assert.ok(saved.n_saved >= 32 && saved.n_written > 1000 && saved.timings.save_ms >= 0);
        assert.deepEqual(readdirSync(slots), ['fox.bin']);
        const [, erased] = await ask('/slots/1?action=erase', {});
        assert.equal(erased.n_erased, saved.n_saved);
        assert.equal(await metric(server, 'tern_pages_cached'), 0);
        assert.equal((await ask('/slots/0?action=restore', { filename: 'fox.bin' }))[1].n_restored, saved.n_saved);
        const [, again] = await ask('/completion', complete);
        assert.equal(again.tokens_cached, alone.tokens_cached);
        assert.equal(again.content, alone.content);
        writeFileSync(join(slots, 'other'), 'a file of another program');
        for (const [path, body, message] of [
            ['/slots/0?action=save', { filename: 'other' }, /other: not a file of saved pages: it was not changed/],
            ['/slots/0?action=save', { filename: '../x' }, /filename: "\.\.\/x" found/],
            ['/slots/0?action=save', {}, /filename: "" found/], ['/slots/0?action=x', {}, /action: "x" found/],
            ['/slots/99?action=erase', {}, /the slot "99" found, one from 0 to 7/],
            ['/slots/0?action=restore', { filename: 'none' }, /none/]])
            assert.match((await ask(path, body))[1].error.message, message);
    });
    assert.ok(!existsSync(join(folder, 'x')));
    assert.equal(readFileSync(join(slots, 'other'), 'utf8'), 'a file of another program');
    await withServer([], async ({ ask }) => {
        const [status, answer] = await ask('/slots/0?action=save', { filename: 'fox.bin' });
        assert.equal(status, 400);
        assert.match(answer.error.message, /started without --slot-save-path/);
    });
    await assert.rejects(startServer(['--slot-save-path', join(folder, 'none')]), /no such folder/);
});
