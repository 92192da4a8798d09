// The server on a Vulkan device, Mesa's lavapipe: with batch-invariant kernels each request says what it says alone,
// and the device chooses the tokens of those that need no logits.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { metric, startServer, until } from './support/server.mjs';

const driver = `/usr/share/vulkan/icd.d/lvp_icd.${process.arch === 'x64' ? 'x86_64' : 'aarch64'}.json`;
const requests = [
    { prompt: 'Once upon a time', max_tokens: 6, temperature: 0 },
    { prompt: 'The dog saw a cat and', max_tokens: 6, temperature: 0.8, top_k: 40, seed: 5 },
    { prompt: 'Once upon a time there was', max_tokens: 6, temperature: 0, repetition_penalty: 1.2 },
];

async function ask({ url }, request) {
    const answer = await fetch(`${url}/v1/completions`, { method: 'POST', body: JSON.stringify(request) });
    assert.equal(answer.status, 200);
    return (await answer.json()).choices[0].text;
}

test('requests together on a GPU', { skip: !existsSync(driver) && `no ${driver}` }, async (t) => {
    process.env.VK_ICD_FILENAMES = driver;
    const server = await startServer(['--backend', 'vulkan', '--batch-invariant', '--parallel', '3', '--ctx', '64']);
    t.after(() => server.stop());
    const alone = [];
    for (const request of requests) alone.push(await ask(server, request));
    assert.deepEqual(await Promise.all(requests.map((request) => ask(server, request))), alone);
    // a step is counted when it ends, which is after its answers
    await until(async () => (await metric(server, 'tern_generated_tokens_total')) === 36);
    assert.equal(await metric(server, 'tern_device_tokens_total'), 24);
});
