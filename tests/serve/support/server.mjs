// Starts `tern serve` on a free port with the bundled model, and ends it.
import { spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
export const root = join(here, '..', '..', '..');
export const program = process.env.TERN ?? join(root, 'build', 'release', 'tern');

/** A server with these flags beside: {url, port, output(), signal(name), stop(signal)}. Without a model of its own it
 * has the bundled one, which needs a template. `env`: variables beside those of this process. */
export async function startServer(flags = [], model = join(root, 'models', 'stories.gguf'), env = {}) {
    const needed = model.endsWith('stories.gguf') && !flags.includes('--template');
    const template = needed ? ['--template', join(here, 'plain.jinja')] : [];
    const words = ['serve', '--port', '0', '-m', model, ...template, ...flags];
    const child = spawn(program, words, { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, ...env } });
    let output = '';
    const ended = new Promise((resolve) => child.on('exit', (code) => resolve(code)));
    const port = await new Promise((resolve, reject) => {
        child.stderr.on('data', (data) => {
            output += data;
            const found = /listening on https?:\/\/[^ ]*:(\d+)/.exec(output);
            if (found) resolve(Number(found[1]));
            else if (output.includes('listening on /')) resolve(0); // a unix socket
        });
        child.on('exit', () => reject(new Error(`the server ended: ${output}`)));
    });
    return {
        url: `http://127.0.0.1:${port}`,
        port,
        pid: child.pid,
        output: () => output,
        signal: (name) => child.kill(name),
        stop(signal = 'SIGTERM') {
            child.kill(signal);
            return ended;
        },
    };
}

/** A number of the metrics. */
export async function metric(server, name, options) {
    const text = await (await fetch(`${server.url}/metrics`, options)).text();
    const line = text.split('\n').find((row) => row.startsWith(name) && /[ {]/.test(row[name.length]));
    return Number(line.slice(line.lastIndexOf(' ')));
}

/** Waits until `is()` is true, for at most 10 seconds. */
export async function until(is) {
    for (let i = 0; i < 500; i++) {
        if (await is()) return;
        await new Promise((resolve) => setTimeout(resolve, 20));
    }
    throw new Error('it did not come to be within 10 seconds');
}
