// A server with the paths of the Hugging Face hub that `tern pull` asks for, which may hold its files back.
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import { once } from 'node:events';

const commit = '0123456789abcdef0123456789abcdef01234567';
export const sum = (bytes) => createHash('sha256').update(bytes).digest('hex');

/** {url, ranges, running(), hold(), release(), close()}: a repository tiny/model-GGUF with one file. After hold(), an
 * answer stops in its middle. */
export async function startHub(file, bytes) {
    const ranges = [];
    let running = 0;
    let held = false, waiting = [];
    const server = createServer((request, answer) => {
        const { pathname } = new URL(request.url, 'http://hub');
        if (pathname === '/api/models/tiny/model-GGUF/revision/main') {
            answer.end(JSON.stringify({ sha: commit, siblings: [{ rfilename: file, size: bytes.length,
                lfs: { sha256: sum(bytes), size: bytes.length } }] }));
        } else if (pathname === `/tiny/model-GGUF/resolve/${commit}/${file}`) {
            const from = Number(/bytes=(\d+)-/.exec(request.headers.range ?? '')?.[1] ?? 0);
            ranges.push(from);
            running++;
            answer.on('close', () => running--);
            answer.writeHead(from ? 206 : 200, { 'content-length': bytes.length - from,
                ...(from && { 'content-range': `bytes ${from}-${bytes.length - 1}/${bytes.length}` }) });
            if (!held) return void answer.end(bytes.subarray(from));
            const middle = from + Math.floor((bytes.length - from) / 2);
            answer.write(bytes.subarray(from, middle));
            waiting.push(() => answer.end(bytes.subarray(middle)));
        } else {
            answer.writeHead(404).end();
        }
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    return {
        url: `http://127.0.0.1:${server.address().port}`,
        ranges,
        running: () => running,
        hold() { held = true; },
        release() {
            held = false;
            for (const end of waiting.splice(0)) end();
        },
        close() {
            server.closeAllConnections();
            server.close();
        },
    };
}
