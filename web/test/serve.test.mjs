/** The server that tries the page out: headers, types, ranges, and nothing outside its folder. */
import assert from 'node:assert/strict';
import {mkdirSync, mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {request} from 'node:http';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {after, before, test} from 'node:test';
import {parseRange, serve} from '../serve.mjs';

const TEXT = 'abcdefghijklmnopqrstuvwxyz';
let folder, server;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'tern-serve-'));
  mkdirSync(join(folder, 'site'));
  writeFileSync(join(folder, 'secret.txt'), 'secret');
  const policy = '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'">';
  writeFileSync(join(folder, 'site/index.html'), policy);
  for (const name of ['a.js', 'a.wasm', 'a.gguf', 'with space.css']) writeFileSync(join(folder, 'site', name), TEXT);
  writeFileSync(join(folder, 'site/empty.txt'), '');
  server = await serve(join(folder, 'site'));
});
after(() => {
  server.close();
  rmSync(folder, {recursive: true});
});

/** A path as it is, which fetch would tidy. @returns {Promise<{status: number, headers: any, body: string}>} */
function get(path, {method = 'GET', headers = {}} = {}) {
  return new Promise((done, failed) => {
    request({port: server.address().port, host: '127.0.0.1', path, method, headers}, (response) => {
      let body = '';
      response.on('data', (bytes) => (body += bytes));
      response.on('end', () => done({status: response.statusCode, headers: response.headers, body}));
    }).on('error', failed).end();
  });
}

test('pages are isolated and have the policy that they name', async () => {
  const {status, headers} = await get('/');
  assert.equal(status, 200);
  assert.equal(headers['cross-origin-opener-policy'], 'same-origin');
  assert.equal(headers['cross-origin-embedder-policy'], 'require-corp');
  assert.equal(headers['content-security-policy'], "default-src 'none'; frame-ancestors 'none'");
});

test('files have their types', async () => {
  const types = {'/': 'text/html; charset=utf-8', '/a.js': 'text/javascript; charset=utf-8',
    '/a.wasm': 'application/wasm',
    '/a.gguf': 'application/octet-stream', '/with%20space.css?v=1': 'text/css; charset=utf-8'};
  for (const [path, type] of Object.entries(types)) assert.equal((await get(path)).headers['content-type'], type, path);
  assert.equal((await get('/empty.txt')).headers['content-length'], '0');
});

test('parts of files', async () => {
  const part = async (range) => {
    const {status, headers, body} = await get('/a.gguf', {headers: {range}});
    return [status, headers['content-range'], body];
  };
  assert.deepEqual(await part('bytes=2-4'), [206, 'bytes 2-4/26', 'cde']);
  assert.deepEqual(await part('bytes=20-99'), [206, 'bytes 20-25/26', 'uvwxyz']);
  assert.deepEqual(await part('bytes=-2'), [206, 'bytes 24-25/26', 'yz']);
  assert.equal((await part('bytes=26-'))[0], 416);
  assert.deepEqual(await part('lines=1-2'), [200, undefined, TEXT]);
  assert.equal(parseRange('bytes=5-3', 26), undefined);
  const {headers} = await get('/a.gguf');
  const changed = await get('/a.gguf', {headers: {range: 'bytes=0-1', 'if-range': '"other"'}});
  assert.equal(changed.status, 200);
  assert.equal((await get('/a.gguf', {headers: {range: 'bytes=0-1', 'if-range': headers.etag}})).status, 206);
  assert.equal((await get('/a.gguf', {headers: {'if-none-match': headers.etag}})).status, 304);
});

test('nothing outside of the folder, nothing but reading', async () => {
  const paths = ['/../secret.txt', '/%2e%2e/secret.txt', '/..%2fsecret.txt', '/a%00.js', '/%zz', '/none.html', '//'];
  for (const path of paths) {
    const {status, body} = await get(path);
    assert.notEqual(body, 'secret', path);
    assert.ok(status === 404 || (path === '//' && status === 200), `${path}: ${status}`);
  }
  assert.equal((await get('/a.js', {method: 'POST'})).status, 405);
  const head = await get('/a.js', {method: 'HEAD'});
  assert.deepEqual([head.status, head.headers['content-length'], head.body], [200, '26', '']);
});
