// What examples/serve has: the nginx configuration before two servers (requests that begin alike go to the same one,
// streams come as they are made), the words that the systemd unit and the Kubernetes manifests start a server with, and
// what these ask of it. The Containerfile is tried by tests/checks/static.sh.
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { metric, program, root, startServer, until } from './support/server.mjs';

const nginx = ['/usr/sbin/nginx', '/usr/bin/nginx'].find(existsSync);
const njs = '/usr/lib/nginx/modules/ngx_http_js_module.so';
const missing = !nginx || !existsSync(njs);
const examples = join(root, 'examples', 'serve'), model = join(root, 'models', 'stories.gguf');

const read = (name) => readFileSync(join(examples, name), 'utf8');

const freePort = () => new Promise((resolve) => {
    const taken = createServer().listen(0, '127.0.0.1', () => {
        const { port } = taken.address();
        taken.close(() => resolve(port));
    });
});

/** The example with these servers in the place of its own, listening on `port`, in a folder of its own. */
function configure(folder, port, servers) {
    const [cert, key] = ['crt', 'key'].map((name) => join(folder, `tern.${name}`));
    execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes',
        '-subj', '/CN=localhost', '-keyout', key, '-out', cert], { stdio: 'ignore' });
    copyFileSync(join(examples, 'prefix.js'), join(folder, 'prefix.js'));
    const site = read('nginx.conf').replaceAll('/etc/nginx', folder)
        .replace('listen 443 ', `listen 127.0.0.1:${port} `)
        .replace(/10\.0\.0\.(\d):8080/g, (_, i) => `127.0.0.1:${servers[i - 1].port}`);
    const bodies = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${folder};`);
    const file = join(folder, 'nginx.conf');
    writeFileSync(file, `load_module ${njs};\npid ${folder}/pid;\nerror_log stderr;\ndaemon off;\nevents {}\n` +
        `http {\naccess_log off;\n${bodies.join('\n')}\n${site}}\n`);
    return file;
}

function complete(port, body, each = () => {}) {
    return new Promise((resolve, reject) => {
        const sent = request({ port, path: '/v1/completions', method: 'POST', rejectUnauthorized: false }, (answer) => {
            let text = '';
            answer.setEncoding('utf8').on('data', (part) => each(text += part));
            answer.on('end', () => resolve({ status: answer.statusCode, text })).on('error', reject);
        });
        sent.on('error', reject).end(JSON.stringify({ max_tokens: 2, temperature: 0, ...body }));
    });
}

const option = { skip: missing && !process.env.CI };
test('nginx sends what begins alike to the same server, and passes streams on', option, async () => {
    const start = (name) => startServer(['--parallel', '2'], `${name}=${model}`);
    const servers = await Promise.all(['one', 'two'].map(start));
    const port = await freePort();
    const file = configure(mkdtempSync(join(tmpdir(), 'tern-nginx-')), port, servers);
    const proxy = spawn(nginx, ['-c', file], { stdio: ['ignore', 'ignore', 'pipe'] });
    let said = '';
    proxy.stderr.on('data', (data) => { said += data; });
    const ended = new Promise((resolve) => proxy.on('exit', resolve));
    try {
        await until(() => complete(port, { prompt: 'a' }).then(() => true, () => proxy.exitCode !== null));
        assert.equal(proxy.exitCode, null, said);
        const reached = new Set();
        for (let i = 0; i < 12; i++) {
            const begin = `${i} ${'Once upon a time there was a girl. '.repeat(32)}`; // more than is hashed
            const names = await Promise.all(['a', 'b', 'c'].map(async (end) => {
                const answer = await complete(port, { max_tokens: 1, prompt: begin + end });
                assert.equal(answer.status, 200, answer.text + said);
                return JSON.parse(answer.text).model;
            }));
            assert.deepEqual(names, Array(3).fill(names[0]));
            reached.add(names[0]);
        }
        assert.deepEqual([...reached].sort(), ['one', 'two']);
        let parts = 0;
        const streamed = await complete(port, { prompt: 'a', stream: true, max_tokens: 40 }, () => { parts++; });
        assert.equal(streamed.status, 200);
        assert.match(streamed.text, /data: \[DONE\]\n\n$/);
        assert.ok(parts > 1, streamed.text);
    } finally {
        proxy.kill();
        await ended;
        for (const one of servers) assert.equal(await one.stop(), 0, one.output());
    }
});

/** Starts a server with the words of an example, on this machine alone, with its model and keys from here. */
function startAs(words, keys) {
    const at = (name) => words.indexOf(name) + 1;
    assert.equal(words[0], 'serve');
    assert.match(words[at('-m')], /^default=.*\.gguf$/);
    assert.ok(at('--api-key'));
    words[at('--api-key')] = keys;
    if (at('--host')) words[at('--host')] = '127.0.0.1';
    words.splice(at('-m') - 1, 2);
    return startServer(words.slice(1), `default=${model}`);
}

test('the unit is one that systemd takes, and starts a server', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'tern-unit-')), keys = join(folder, 'keys');
    const unit = read('tern.service'), line = /^ExecStart=(.*)$/m.exec(unit)[1];
    writeFileSync(keys, 'secret\n');
    if (existsSync('/usr/bin/systemd-analyze')) {
        writeFileSync(join(folder, 'tern.service'), unit.replace('/usr/local/bin/tern', program));
        copyFileSync(join(examples, 'tern.socket'), join(folder, 'tern.socket'));
        const files = ['tern.service', 'tern.socket'].map((name) => join(folder, name));
        const { status, stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', ...files], { encoding: 'utf8' });
        assert.deepEqual([status, stderr], [0, '']);
    } else t.diagnostic('no systemd-analyze: the unit is not verified');
    const server = await startAs(line.split(' ').slice(1), keys);
    assert.equal((await fetch(`${server.url}/v1/models`)).status, 401);
    assert.equal(await server.stop(), 0, server.output());
});

test('the manifests start a server that answers their probes and has the number that they scale by', async () => {
    const keys = join(mkdtempSync(join(tmpdir(), 'tern-kubernetes-')), 'keys');
    writeFileSync(keys, 'first\nsecret\n');
    const text = read('kubernetes.yaml');
    const server = await startAs(/args: \[(.*)\]/.exec(text)[1].split(', '), keys);
    try {
        const probes = [...text.matchAll(/Probe: \{httpGet: \{path: ([^,]*), port: 8080\}/g)];
        assert.equal(probes.length, 3);
        for (const [, path] of probes) assert.equal((await fetch(server.url + path)).status, 200);
        const [, path] = /podMetricsEndpoints:\n.*path: ([^,]*),.*key: metrics/.exec(text);
        const headers = { Authorization: 'Bearer secret' };
        assert.equal((await fetch(server.url + path)).status, 401);
        assert.equal(await metric(server, /metric: \{name: (\w+)\}/.exec(text)[1], { headers }), 0);
    } finally {
        assert.equal(await server.stop(), 0, server.output());
    }
});
