/** A file server for tests that can be told to misbehave. */

import {createServer} from 'node:http';

/**
 * files: path -> bytes. `behave(request, {path, bytes})` may return for one request: {ranges: false}, {status}, {bytes}
 * (another content), {headers}, {cut: n} (the connection is destroyed after n bytes of the body), {chunked: true} (no
 * Content-Length), {stall: n} (no more after n bytes), {hold: promise} (the body waits for it after its first half).
 */
export async function serve(files, behave = () => ({})) {
  const requests = [];
  const server = createServer((request, response) => {
    const path = new URL(request.url, 'http://x').pathname;
    requests.push({method: request.method, path, range: request.headers.range ?? null});
    const bytes = files[path];
    const how = behave(request, {path, bytes}) ?? {};
    answer(request, response, how.bytes ?? bytes, how).catch(() => response.destroy());
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const {port} = server.address();
  const close = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  return {url: `http://127.0.0.1:${port}`, requests, files, close};
}

async function answer(request, response, bytes, how) {
  if (how.status || !bytes) return void response.writeHead(how.status ?? 404, how.headers).end('no');
  const range = how.ranges === false ? null : /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '');
  const from = range ? Number(range[1]) : 0;
  const to = range && range[2] ? Math.min(Number(range[2]) + 1, bytes.length) : bytes.length;
  if (from >= bytes.length && range) return void response.writeHead(416).end();
  const body = bytes.subarray(from, to);
  const headers = {...(how.chunked ? {} : {'content-length': body.length}), ...how.headers};
  if (range) headers['content-range'] = `bytes ${from}-${to - 1}/${bytes.length}`;
  for (const name of Object.keys(headers)) if (headers[name] === null) delete headers[name];
  response.writeHead(range ? 206 : 200, headers);
  if (request.method === 'HEAD') return void response.end();
  await send(response, body, how);
}

async function send(response, body, {cut = Infinity, stall = Infinity, hold}) {
  const end = Math.min(body.length, cut, stall);
  const half = hold ? end >> 1 : end;
  await write(response, body.subarray(0, half));
  if (hold) await hold;
  await write(response, body.subarray(half, end));
  if (cut < body.length) return void response.destroy();
  if (stall < body.length) return;
  response.end();
}

/** Resolves when the bytes have been handed over. */
function write(response, bytes) {
  return new Promise((resolve) => response.write(bytes, resolve));
}

/** n bytes that differ from place to place. */
export function pattern(n, seed = 1) {
  const bytes = new Uint8Array(n);
  let state = seed >>> 0;
  for (let i = 0; i < n; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    bytes[i] = state >>> 24;
  }
  return bytes;
}
