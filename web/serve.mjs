#!/usr/bin/env node
/**
 * Serves a folder on this machine as the page wants to be served: cross-origin isolated (for threads), with a strict
 * policy, ranges and the right types. For trying it out; any static server does for people.
 *   node web/serve.mjs [FOLDER] [--port PORT]
 */
import {createReadStream} from 'node:fs';
import {readFile, stat} from 'node:fs/promises';
import {createServer} from 'node:http';
import {dirname, extname, join, normalize, resolve, sep} from 'node:path';
import {fileURLToPath} from 'node:url';
import {parseArgs} from 'node:util';

const TYPES = {
  '.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8',
  '.json': 'application/json', '.webmanifest': 'application/manifest+json',
  '.wasm': 'application/wasm', '.svg': 'image/svg+xml', '.png': 'image/png', '.txt': 'text/plain; charset=utf-8',
};

/** The policy that the page names itself, so that there is one. */
async function policyOf(root) {
  const page = await readFile(join(root, 'index.html'), 'utf8').catch(() => '');
  const named = /http-equiv="Content-Security-Policy"\s+content="([^"]*)"/.exec(page)?.[1];
  return named?.replace(/\s+/g, ' ').trim() ?? "default-src 'self'";
}

const headersOf = (policy) => ({
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Content-Security-Policy': `${policy}; frame-ancestors 'none'`,
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cache-Control': 'no-cache',
  'Accept-Ranges': 'bytes',
});

/** The file behind a request's path, or null. */
async function find(root, url) {
  let path;
  try {
    path = decodeURIComponent(new URL(url, 'http://localhost').pathname);
  } catch {
    return null;
  }
  const file = normalize(join(root, path.endsWith('/') ? `${path}index.html` : path));
  if (!file.startsWith(root + sep) || path.includes('\0')) return null;
  const found = await stat(file).catch(() => null);
  return found?.isFile() ? {file, size: found.size, changed: found.mtime} : null;
}

/**
 * "bytes=FIRST-LAST" of a file: {start, end} with end excluded, null for all of it, undefined for a range that it does
 * not have.
 */
export function parseRange(text, size) {
  const match = /^bytes=(\d*)-(\d*)$/.exec(text ?? '');
  if (!match || (match[1] === '' && match[2] === '')) return null;
  const start = match[1] === '' ? Math.max(0, size - Number(match[2])) : Number(match[1]);
  const end = match[1] === '' || match[2] === '' ? size : Math.min(size, Number(match[2]) + 1);
  return start < end ? {start, end} : undefined;
}

function fail(response, status, headers = {}) {
  response.writeHead(status, {'Content-Type': 'text/plain; charset=utf-8', ...headers});
  response.end(`${status}\n`);
}

async function answer(root, shared, request, response) {
  if (request.method !== 'GET' && request.method !== 'HEAD') return fail(response, 405, {Allow: 'GET, HEAD'});
  const found = await find(root, request.url);
  if (!found) return fail(response, 404, shared);
  const tag = `"${found.size.toString(36)}-${found.changed.getTime().toString(36)}"`;
  const about = {...shared, ETag: tag, 'Last-Modified': found.changed.toUTCString(),
    'Content-Type': TYPES[extname(found.file)] ?? 'application/octet-stream'};
  if (request.headers['if-none-match'] === tag) return response.writeHead(304, about).end();
  const whole = {start: 0, end: found.size};
  const asked = (request.headers['if-range'] ?? tag) === tag ? request.headers.range : undefined;
  const range = parseRange(asked, found.size);
  if (range === undefined) return fail(response, 416, {...shared, 'Content-Range': `bytes */${found.size}`});
  const {start, end} = range ?? whole;
  if (range) about['Content-Range'] = `bytes ${start}-${end - 1}/${found.size}`;
  response.writeHead(range ? 206 : 200, {...about, 'Content-Length': end - start});
  if (request.method === 'HEAD' || start === end) return response.end();
  return createReadStream(found.file, {start, end: end - 1}).on('error', () => response.destroy()).pipe(response);
}

/**
 * @param {string} folder @param {{port?: number, host?: string}} [options]
 * @returns {Promise<import('node:http').Server>} listening
 */
export async function serve(folder, {port = 0, host = '127.0.0.1'} = {}) {
  const root = resolve(folder), shared = headersOf(await policyOf(root));
  const server = createServer((request, response) => {
    answer(root, shared, request, response).catch(() => response.destroy());
  });
  await new Promise((done, failed) => server.once('error', failed).listen(port, host, done));
  return server;
}

const HELP = 'usage: node web/serve.mjs [FOLDER] [--port PORT]   (build/web/site, 8080; on 127.0.0.1 only)';

async function main(args) {
  const options = {port: {type: 'string', default: '8080'}, help: {type: 'boolean', short: 'h'}};
  const {values, positionals} = parseArgs({args, options, allowPositionals: true});
  if (values.help) return console.log(HELP);
  const folder = positionals[0] ?? join(dirname(fileURLToPath(import.meta.url)), '../build/web/site');
  const port = Number(values.port), found = await stat(join(folder, 'index.html')).catch(() => null);
  if (!/^\d+$/.test(values.port) || port > 65535) throw new Error(`port ${values.port}: 0 to 65535 expected`);
  if (!found) throw new Error(`${folder}: no index.html there; "make web" builds the site`);
  const server = await serve(folder, {port});
  console.log(`http://localhost:${server.address().port}/  (Ctrl+C ends it)`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  main(process.argv.slice(2)).catch((error) => {
    console.error(`serve.mjs: ${error.code?.startsWith('ERR_PARSE') ? `${error.message}\n${HELP}` : error.message}`);
    process.exitCode = 1;
  });
}
