// Measures what a shared prefix saves: the time to the first token of a request whose prefix no request had before, and
// of one whose prefix the server has kept. Starts `tern serve` on a model, or asks a server that runs.
//     node prefix.mjs -m MODEL [--tern FILE] [--flags='WORDS'] | --url URL  [--prefix 1000] [--own 8] [--rounds 5]
//         [--vocab 4096]
// Prompts are token ids below --vocab: --prefix shared ones, other in each round, then --own ones of the request.
import { spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const { values: o } = parseArgs({ options: {
    model: { type: 'string', short: 'm' },
    tern: { type: 'string', default: join(dirname(fileURLToPath(import.meta.url)), '../../build/release/tern') },
    flags: { type: 'string', default: '' },
    url: { type: 'string' },
    prefix: { type: 'string', default: '1000' },
    own: { type: 'string', default: '8' },
    rounds: { type: 'string', default: '5' },
    vocab: { type: 'string', default: '4096' },
} });
if (!o.model === !o.url) throw new Error('either -m MODEL or --url URL expected');
const [nPrefix, nOwn, rounds, vocab] = [o.prefix, o.own, o.rounds, o.vocab].map(Number);

/** A server of its own, on a free port: {url, end}. */
async function start() {
    const child = spawn(o.tern, ['serve', '--port', '0', '--no-log', '-m', o.model, '--parallel', '1', '--ctx',
        String(nPrefix + nOwn + 16), ...o.flags.split(' ').filter(Boolean)], { stdio: ['ignore', 'ignore', 'pipe'] });
    let output = '';
    const url = await new Promise((resolve, reject) => {
        child.stderr.on('data', (data) => {
            output += data;
            const found = /listening on (http:\/\/[^ \n]*:\d+)/.exec(output);
            if (found) resolve(found[1]);
        });
        child.on('exit', () => reject(new Error(output)));
        child.on('error', reject);
    });
    return { url, end: () => child.kill() };
}

let state = 17;
/** Ids of tokens, the same in each run. */
const ids = (n) => Array.from({ length: n }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state >>> 8) % vocab;
});

/** Milliseconds from asking to the first token. */
async function first(url, prompt) {
    const began = performance.now();
    const answer = await fetch(`${url}/v1/completions`, { method: 'POST', body: JSON.stringify({ prompt, max_tokens: 1,
        temperature: 0, ignore_eos: true, stream: true }), headers: { 'content-type': 'application/json' } });
    let text = '', took;
    for await (const part of answer.body.pipeThrough(new TextDecoderStream())) {
        text += part;
        if (text.includes('data: {')) took ??= performance.now() - began;
    }
    if (!answer.ok || took === undefined || text.includes('"error"')) throw new Error(text);
    return took;
}

const spread = (times) => {
    const sorted = times.toSorted((a, b) => a - b);
    const ms = (x) => x.toFixed(1);
    return { median: sorted[sorted.length >> 1], text: `${ms(sorted[sorted.length >> 1])} ms (${ms(sorted[0])} to ${
        ms(sorted.at(-1))})` };
};

const server = o.url ? { url: o.url, end() {} } : await start();
try {
    const cold = [], warm = [];
    await first(server.url, ids(nOwn)); // the first request of all
    for (let i = 0; i < rounds; i++) {
        const shared = ids(nPrefix);
        cold.push(await first(server.url, [...shared, ...ids(nOwn)]));
        warm.push(await first(server.url, [...shared, ...ids(nOwn)]));
    }
    const [a, b] = [cold, warm].map(spread);
    console.log(`first token of ${nPrefix} + ${nOwn} tokens, median of ${rounds}:`);
    console.log(`  new prefix:    ${a.text}\n  shared prefix: ${b.text}`);
    console.log(`  ${(a.median / b.median).toFixed(1)} times sooner`);
} finally {
    server.end();
}
