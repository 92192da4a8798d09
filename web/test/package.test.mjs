/** Packages as `tern package` makes them, over HTTP: loading, and what is said when one is not what it claims to be. */
import assert from 'node:assert/strict';
import {execFile} from 'node:child_process';
import {existsSync} from 'node:fs';
import {mkdtemp, readFile, readdir, rm} from 'node:fs/promises';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {fileURLToPath} from 'node:url';
import {promisify} from 'node:util';
import {after, before, describe, test} from 'node:test';
import {Tern} from '../lib/index.js';
import {MODEL, missing} from './support/built.mjs';
import {serve} from './support/server.mjs';

const NATIVE = process.env.TERN_NATIVE ?? fileURLToPath(new URL('../../build/release/tern', import.meta.url));
const options = {backend: 'cpu', threads: 1};

function absent() {
  if (process.env.TERN_WEB_REQUIRED || existsSync(NATIVE)) return missing('wasm/tern.wasm');
  return `no ${NATIVE}`;
}

describe('packages', {skip: absent()}, () => {
  let folder, files, server;
  /** Content in place of a file's, by its name. */
  let instead = {};

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'tern-'));
    await promisify(execFile)(NATIVE, ['package', MODEL, '-o', join(folder, 'p'), '--shard-size', '1']);
    files = {};
    for (const name of await readdir(join(folder, 'p'))) files[`/p/${name}`] = await readFile(join(folder, 'p', name));
    server = await serve(files, (request, {path}) => ({bytes: instead[path]}));
  });
  after(async () => {
    await server?.close();
    await rm(folder, {recursive: true});
  });

  const load = () => Tern.load(`${server.url}/p/manifest.json`, options);

  /** The manifest, changed. */
  function manifest(change) {
    const parsed = JSON.parse(files['/p/manifest.json'].toString());
    change(parsed);
    return Buffer.from(JSON.stringify(parsed));
  }

  async function refused(changed, code, message) {
    instead = changed;
    try {
      await assert.rejects(load(), (error) => {
        assert.equal(error.code, code, error.message);
        assert.match(error.message, message);
        return true;
      });
    } finally {
      instead = {};
    }
  }

  test('shards over HTTP and on the disk give the text of the file', async () => {
    assert.ok(Object.keys(files).length >= 4, Object.keys(files).join(' '));
    const greedy = {temperature: 0, maxTokens: 16};
    for (const source of [`${server.url}/p/`, `${server.url}/p/manifest.json`, join(folder, 'p'), MODEL]) {
      const tern = await Tern.load(source, options);
      assert.match(await tern.generate('Once upon a time', greedy).text(), /^ there was a sleepy girl/, source);
      await tern.dispose();
    }
  });

  test('a shard that is damaged, cut off, or not there', async () => {
    const damaged = Buffer.from(files['/p/shard_001.bin']);
    damaged[12345] ^= 0x10;
    await refused(
      {'/p/shard_001.bin': damaged},
      'CORRUPT',
      /chunk 1 of 3 \(shard_001\.bin\) .*SHA-256 is \w+, expected \w+/
    );
    await refused(
      {'/p/shard_001.bin': damaged.subarray(0, 1000)},
      'NETWORK',
      /shard_001\.bin has fewer bytes than promised: 1000/
    );
    const other = manifest(({shards}) => {
      shards[1].file = 'shard_999.bin';
    });
    await refused({'/p/manifest.json': other}, 'NETWORK', /shard_999\.bin: HTTP status 404/);
  });

  test('a manifest with a field that is missing, null, or not what the file says', async () => {
    const cases = [
      [({inference}) => delete inference.rms_norm_eps, /rms_norm_eps/],
      [
        ({inference}) => {
          inference.layers = null;
        },
        /layers/
      ],
      [
        ({inference}) => {
          inference.layers = 9;
        },
        /layers/
      ],
      [(all) => delete all.inference, /inference/],
      [
        (all) => {
          all.tensors[3].encoding = 'q8_0';
        },
        /encoding/
      ],
      [
        (all) => {
          all.bytes += 1;
        },
        /bytes/
      ]
    ];
    for (const [change, message] of cases) await refused({'/p/manifest.json': manifest(change)}, 'MALFORMED', message);
    await refused(
      {
        '/p/manifest.json': manifest((all) => {
          all.version = 3;
        })
      },
      'UNSUPPORTED',
      /version/
    );
    await refused({'/p/manifest.json': Buffer.from('<!doctype html>')}, 'MALFORMED', /manifest\.json is no manifest/);
  });
});
