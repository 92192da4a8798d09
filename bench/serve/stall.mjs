// Measures how a long prompt holds up the streams that run: the times between their tokens alone and while it comes in.
// Starts `tern serve` on a model, or asks a server that runs.
//     node stall.mjs -m MODEL [--tern FILE] [--flags='WORDS'] | --url URL  [--streams 4] [--prompt 2000] [--tokens 32]
//         [--rounds 3] [--vocab 4096]
// --tokens: of each stream, before the prompt comes. Each round has a prompt of its own, with which its streams end.
import { parseArgs } from 'node:util';
import { defaultTern, idsBelow, startServer, stream } from './server.mjs';

const { values: o } = parseArgs({ options: {
    model: { type: 'string', short: 'm' },
    tern: { type: 'string', default: defaultTern },
    flags: { type: 'string', default: '' },
    url: { type: 'string' },
    streams: { type: 'string', default: '4' },
    prompt: { type: 'string', default: '2000' },
    tokens: { type: 'string', default: '32' },
    rounds: { type: 'string', default: '3' },
    vocab: { type: 'string', default: '4096' },
} });
if (!o.model === !o.url) throw new Error('either -m MODEL or --url URL expected');
const [nStreams, nPrompt, nTokens, rounds] = [o.streams, o.prompt, o.tokens, o.rounds].map(Number);
const ids = idsBelow(Number(o.vocab));

/** One round: milliseconds between tokens of all streams, alone and beside the prompt; and until its first token. */
async function round(url) {
    const gaps = { alone: [], beside: [] };
    let phase = 'start', ready;
    const begun = new Promise((resolve) => { ready = resolve; });
    const counts = new Array(nStreams).fill(0);
    const streams = counts.map((_, i) => {
        let last;
        return stream(url, ids(16), nPrompt, () => {
            const now = performance.now();
            if (last && phase in gaps) gaps[phase].push(now - last);
            last = now;
            counts[i]++;
            if (phase === 'start' && counts.every((n) => n >= 4)) phase = 'alone';
            if (counts.every((n) => n >= nTokens)) ready();
            return phase !== 'end';
        });
    });
    await Promise.race([begun, Promise.all(streams)]);
    const came = performance.now();
    let took;
    phase = 'beside';
    await stream(url, ids(nPrompt), 1, () => { took ??= performance.now() - came; });
    phase = 'end';
    await Promise.all(streams);
    return { ...gaps, took };
}

const at = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
const summary = (times) => {
    const sorted = times.toSorted((a, b) => a - b);
    return { median: at(sorted, 0.5), p95: at(sorted, 0.95), longest: sorted.at(-1) };
};
const show = (s) => `median ${s.median.toFixed(0)} ms, p95 ${s.p95.toFixed(0)}, longest ${s.longest.toFixed(0)}`;

const server = o.url ? { url: o.url, end() {} } : await startServer(o.tern, ['-m', o.model, '--parallel',
    String(nStreams + 1), '--ctx', String(2 * nPrompt + 64), ...o.flags.split(' ').filter(Boolean)]);
try {
    console.log(`between tokens of ${nStreams} streams, alone and while a prompt of ${nPrompt} tokens comes in:`);
    for (let i = 0; i < rounds; i++) {
        const r = await round(server.url);
        const [alone, beside] = [r.alone, r.beside].map(summary);
        const ratios = `median ${(beside.median / alone.median).toFixed(2)} times, longest ${
            (beside.longest / alone.longest).toFixed(2)}`;
        console.log(`  alone: ${show(alone)}; beside: ${show(beside)}; ${ratios}; first token of the prompt after ${
            (r.took / 1e3).toFixed(1)} s`);
    }
} finally {
    server.end();
}
