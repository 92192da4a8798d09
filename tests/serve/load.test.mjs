// The load generator: a table and a picture of two servers beside each other.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { roundUp } from '../../bench/serve/picture.mjs';
import { metric, root, startServer } from './support/server.mjs';

test('two servers are measured beside each other, as a table and a picture', async () => {
    const server = await startServer(['--parallel', '4']);
    try {
        const svg = join(mkdtempSync(join(tmpdir(), 'tern-load-')), 'load.svg');
        const { stdout } = await promisify(execFile)(process.execPath, [join(root, 'bench/serve/load.mjs'), '--url',
            server.url, '--url', `a<b=${server.url}`, '--clients', '1,3', '--requests', '2', '--tokens', '8', '--svg',
            svg]);
        const rows = stdout.trim().split('\n').slice(2).map((row) => row.split('|').slice(1, -1).map((c) => c.trim()));
        assert.deepEqual(rows.map((row) => row.slice(0, 2)), [[`127.0.0.1:${server.port}`, '1'], ['a<b', '1'],
            [`127.0.0.1:${server.port}`, '3'], ['a<b', '3']]);
        for (const row of rows) {
            const [rate, p50, p95, p99] = row.slice(2).map(Number);
            assert.ok(rate > 0 && p50 > 0 && p50 <= p95 && p95 <= p99, row.join());
        }
        const picture = readFileSync(svg, 'utf8');
        assert.equal(picture.match(/<polyline points="[\d., ]+"/g).length, 2 * 5);
        assert.ok(picture.includes('a&#60;b') && !picture.includes('NaN'));
        const log = await (await fetch(`${server.url}/metrics`)).text();
        assert.match(log, /tern_generated_tokens_total(\{[^}]*\})? 144\n/); // 18 requests of 8 tokens
    } finally {
        assert.equal(await server.stop(), 0);
    }
    assert.deepEqual([0, 0.3, 7, 20, 51].map(roundUp), [1, 0.5, 10, 20, 100]);
});

test('what a shared prefix saves is measured on a server that keeps it', async () => {
    const server = await startServer(['--parallel', '1']);
    try {
        const { stdout } = await promisify(execFile)(process.execPath, [join(root, 'bench/serve/prefix.mjs'), '--url',
            server.url, '--prefix', '200', '--vocab', '100', '--rounds', '2']);
        assert.match(stdout, /first token of 200 \+ 8 tokens, median of 2:\n +new prefix: +[\d.]+ ms /);
        assert.match(stdout, /\n +shared prefix: +[\d.]+ ms .*\n +[\d.]+ times sooner\n/);
        assert.equal(await metric(server, 'tern_prompt_tokens_total'), 8 + 4 * 208);
        const cached = await metric(server, 'tern_cached_tokens_total'); // whole pages of the prefix, twice
        assert.ok(cached > 2 * 150 && cached <= 2 * 200, String(cached));
    } finally {
        assert.equal(await server.stop(), 0);
    }
});

test('what a long prompt does to streams is measured', async () => {
    const server = await startServer(['--parallel', '3']);
    try {
        const { stdout } = await promisify(execFile)(process.execPath, [join(root, 'bench/serve/stall.mjs'), '--url',
            server.url, '--streams', '2', '--prompt', '300', '--vocab', '100', '--tokens', '8', '--rounds', '2']);
        assert.match(stdout, /between tokens of 2 streams, alone and while a prompt of 300 tokens comes in:\n/);
        const rounds = /\n  alone: median \d+ ms, .*; beside: median \d+ ms, .* longest [\d.]+; /g;
        assert.equal(stdout.match(rounds).length, 2);
        assert.ok(await metric(server, 'tern_prompt_tokens_total') >= 2 * (300 + 2 * 16));
    } finally {
        assert.equal(await server.stop(), 0);
    }
});
