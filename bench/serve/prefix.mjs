// Measures what a shared prefix saves: the time to the first token of a request whose prefix no request had before, and
// of one whose prefix the server has kept. Starts `tern serve` on a model, or asks a server that runs.
//     node prefix.mjs -m MODEL [--tern FILE] [--flags='WORDS'] | --url URL  [--prefix 1000] [--own 8] [--rounds 5]
//         [--vocab 4096]
// Prompts are token ids below --vocab: --prefix shared ones, other in each round, then --own ones of the request.
import { parseArgs } from 'node:util';
import { defaultTern, idsBelow, startServer, stream } from './server.mjs';

const { values: o } = parseArgs({ options: {
    model: { type: 'string', short: 'm' },
    tern: { type: 'string', default: defaultTern },
    flags: { type: 'string', default: '' },
    url: { type: 'string' },
    prefix: { type: 'string', default: '1000' },
    own: { type: 'string', default: '8' },
    rounds: { type: 'string', default: '5' },
    vocab: { type: 'string', default: '4096' },
} });
if (!o.model === !o.url) throw new Error('either -m MODEL or --url URL expected');
const [nPrefix, nOwn, rounds, vocab] = [o.prefix, o.own, o.rounds, o.vocab].map(Number);

const ids = idsBelow(vocab);

/** Milliseconds from asking to the first token. */
async function first(url, prompt) {
    const began = performance.now();
    let took;
    await stream(url, prompt, 1, () => { took ??= performance.now() - began; });
    if (took === undefined) throw new Error('an answer without a token');
    return took;
}

const spread = (times) => {
    const sorted = times.toSorted((a, b) => a - b);
    const ms = (x) => x.toFixed(1);
    return { median: sorted[sorted.length >> 1], text: `${ms(sorted[sorted.length >> 1])} ms (${ms(sorted[0])} to ${
        ms(sorted.at(-1))})` };
};

const server = o.url ? { url: o.url, end() {} } : await startServer(o.tern, ['-m', o.model,
    '--parallel', '1', '--ctx', String(nPrefix + nOwn + 16), ...o.flags.split(' ').filter(Boolean)]);
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
