/** A static server for the browser tests: folders, ranges, headers, and routes of a test's own. */
import {createReadStream, existsSync, statSync} from 'node:fs';
import http from 'node:http';
import {join, normalize} from 'node:path';

const TYPES = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript',
  mjs: 'text/javascript',
  css: 'text/css',
  json: 'application/json',
  svg: 'image/svg+xml',
  wasm: 'application/wasm',
  webmanifest: 'application/manifest+json',
  wgsl: 'text/plain',
};
const ISOLATED = {'Cross-Origin-Opener-Policy': 'same-origin', 'Cross-Origin-Embedder-Policy': 'require-corp'};

function find(mounts, path) {
  for (const [prefix, folder] of mounts) {
    if (!path.startsWith(prefix)) continue;
    const file = join(folder, normalize(`/${path.slice(prefix.length)}`));
    const whole = existsSync(file) && statSync(file).isDirectory() ? join(file, 'index.html') : file;
    if (existsSync(whole)) return whole;
  }
  return null;
}

/** Answers with a part of a file: bytes=FROM-TO. */
function sendFile(request, response, file, headers) {
  const {size} = statSync(file);
  const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '');
  const start = range ? Number(range[1]) : 0;
  const end = range && range[2] ? Math.min(Number(range[2]), size - 1) : size - 1;
  response.writeHead(range ? 206 : 200, {
    ...headers,
    'Content-Type': TYPES[file.split('.').pop()] ?? 'application/octet-stream',
    'Accept-Ranges': 'bytes',
    'Content-Length': Math.max(0, end - start + 1),
    'Cache-Control': 'no-store',
    ...(range ? {'Content-Range': `bytes ${start}-${end}/${size}`} : {}),
  });
  if (request.method === 'HEAD' || size === 0) response.end();
  else createReadStream(file, {start, end}).pipe(response);
}

/**
 * @param {{mounts: [string, string][], isolated?: boolean, host?: string,
 *   routes?: Record<string, (request: any, response: any, headers: any) => void>}} options
 * `mounts`: prefix and folder, the first that has the file wins. `routes` by exact path come before.
 */
export async function serve({mounts, isolated = true, host = '127.0.0.1', routes = {}}) {
  const headers = isolated ? {...ISOLATED, 'Cross-Origin-Resource-Policy': 'same-origin'} : {};
  const server = http.createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url, 'http://x').pathname);
    if (routes[path]) return routes[path](request, response, headers);
    const file = find(mounts, path);
    if (file) return sendFile(request, response, file, headers);
    response.writeHead(404, headers).end('not found');
  });
  await new Promise((done) => server.listen(0, host, done));
  const {port} = server.address();
  const close = () =>
    new Promise((done) => {
      server.close(done);
      server.closeAllConnections();
    });
  return {
    url: `http://localhost:${port}/`,
    port,
    close,
    sendFile: (file) => (request, response, extra) => sendFile(request, response, file, extra),
  };
}
