// Measures a server of the OpenAI API: throughput, and percentiles of the time to the first token and between tokens.
//     node load.mjs [--url [NAME=]URL]... [--model NAME] [--key KEY] [--clients 1,2,4,8,16,32,64] [--requests N]
//         [--tokens N] [--prompt TEXT] [--ids FIRST:COUNT] [--shared] [--svg FILE]
// Several servers are measured in turns at each number of clients, and stand beside each other in the table and in the
// picture that --svg writes.
// Each client asks one request after the other, N in all; without --shared a prompt begins with its number.
// --ids asks with COUNT token ids from FIRST on in the place of a text, for models without a vocabulary worth reading.
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { picture } from './picture.mjs';
import { events } from './server.mjs';

const { values: o } = parseArgs({ options: {
    url: { type: 'string', multiple: true, default: ['http://127.0.0.1:8080'] },
    svg: { type: 'string' },
    model: { type: 'string' },
    key: { type: 'string', default: 'none' },
    clients: { type: 'string', default: '1,2,4,8,16,32,64' },
    requests: { type: 'string', default: '4' },
    tokens: { type: 'string', default: '64' },
    prompt: { type: 'string', default: 'Once upon a time there was a little girl who lived in a house by the sea.' },
    ids: { type: 'string' },
    shared: { type: 'boolean', default: false },
} });
const nTokens = Number(o.tokens);
const servers = o.url.map((text) => {
    const [, name, url] = /^(?:([^=/]+)=)?(.*)$/.exec(text);
    return { name: name ?? new URL(url).host, url, rows: [] };
});
let count = 0;

function prompt() {
    const own = o.shared ? 0 : ++count;
    if (!o.ids) return o.shared ? o.prompt : `${own}. ${o.prompt}`;
    const [first, n] = o.ids.split(':').map(Number);
    return Array.from({ length: n }, (_, i) => first + (i === 0 ? own : i) % 4096);
}

/** One request: milliseconds to its first token, those between tokens, how many there were. */
async function ask(url) {
    const body = JSON.stringify({ model: o.model, prompt: prompt(), max_tokens: nTokens, temperature: 0,
        ignore_eos: true, stream: true, stream_options: { include_usage: true } });
    const began = performance.now();
    const response = await fetch(`${url}/v1/completions`, { method: 'POST', body,
        headers: { 'content-type': 'application/json', authorization: `Bearer ${o.key}` } });
    if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
    const result = { first: 0, between: [], tokens: 0 };
    let last = 0;
    for await (const event of events(response)) {
        if (event.usage) result.tokens = event.usage.completion_tokens;
        if (!event.choices?.[0]?.text) continue;
        const now = performance.now();
        if (last) result.between.push(now - last);
        else result.first = now - began;
        last = now;
    }
    return result;
}

function percentile(sorted, p) {
    return sorted.length ? sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * p))] : NaN;
}

function percentiles(values) {
    const sorted = values.sort((a, b) => a - b);
    return [0.5, 0.95, 0.99].map((p) => percentile(sorted, p));
}

async function measure(url, clients) {
    const results = [];
    const began = performance.now();
    await Promise.all(Array.from({ length: clients }, async () => {
        for (let i = 0; i < Number(o.requests); i++) results.push(await ask(url));
    }));
    const seconds = (performance.now() - began) / 1e3;
    const tokens = results.reduce((sum, r) => sum + r.tokens, 0);
    return { clients, rate: tokens / seconds, first: percentiles(results.map((r) => r.first)),
        between: percentiles(results.flatMap((r) => r.between)) };
}

for (const { url } of servers) await ask(url); // what is opened with the first request counts for none
console.log('| server | clients | tokens/s | first token, ms: p50 | p95 | p99 | between tokens, ms: p50 | p95 | p99 |');
console.log('|---|---|---|---|---|---|---|---|---|');
for (const clients of o.clients.split(',').map(Number))
    for (const server of servers) {
        const row = await measure(server.url, clients);
        const numbers = [row.rate, ...row.first, ...row.between].map((n) => n.toFixed(1));
        server.rows.push(row);
        console.log(`| ${[server.name, clients, ...numbers].join(' | ')} |`);
    }
if (o.svg) writeFileSync(o.svg, picture(servers));
