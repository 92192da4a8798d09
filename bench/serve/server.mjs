// A server of a measurement's own, and prompts for it.
import { spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const defaultTern = join(dirname(fileURLToPath(import.meta.url)), '../../build/release/tern');

/** Starts `tern serve` with these words on a free port: {url, end}. */
export async function startServer(tern, words) {
    const child = spawn(tern, ['serve', '--port', '0', '--no-log', ...words], { stdio: ['ignore', 'ignore', 'pipe'] });
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

/** A function that gives n ids of tokens below `vocab`: the same in each run. */
export function idsBelow(vocab) {
    let state = 17;
    return (n) => Array.from({ length: n }, () => {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        return (state >>> 8) % vocab;
    });
}

/** The events of an answer that streams, as they come; an error among them is thrown. */
export async function* events(answer) {
    let rest = '';
    for await (const part of answer.body.pipeThrough(new TextDecoderStream())) {
        const lines = (rest + part).split('\n');
        rest = lines.pop();
        for (const line of lines) {
            if (!line.startsWith('data: {')) continue;
            const event = JSON.parse(line.slice(6));
            if (event.error) throw new Error(event.error.message);
            yield event;
        }
    }
}

/** Asks for n tokens after a prompt of ids; onToken(text) for each that comes, until it returns false. With
 * log-probabilities, as tokens whose characters are not whole would come with the next one otherwise. */
export async function stream(url, prompt, n, onToken) {
    const ended = new AbortController();
    const answer = await fetch(`${url}/v1/completions`, { method: 'POST', signal: ended.signal,
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ prompt, max_tokens: n, temperature: 0, ignore_eos: true, stream: true,
            logprobs: 0 }) });
    if (!answer.ok) throw new Error(await answer.text());
    for await (const event of events(answer)) {
        if (onToken(event.choices?.[0]?.text) !== false) continue;
        ended.abort();
        return;
    }
}
