/** Names of the Hugging Face hub: read, resolved, loaded from a server with the hub's paths. */
import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import test from 'node:test';
import {chooseFile, parseHub} from '../lib/hub.js';
import {Tern} from '../lib/index.js';
import {addressOf} from '../lib/source.js';
import {MODEL, missing} from './support/built.mjs';
import {serve} from './support/server.mjs';

test('names are read as tern pull reads them', () => {
  const whole = {repository: 'a/b', file: '', tag: '', revision: 'main'};
  assert.deepEqual(parseHub('hf:a/b'), whole);
  assert.deepEqual(parseHub('hf:a/b:Q4_K_M@v1'), {...whole, tag: 'Q4_K_M', revision: 'v1'});
  assert.deepEqual(parseHub('hf:a/b-c.d/sub/m.gguf'), {...whole, repository: 'a/b-c.d', file: 'sub/m.gguf'});
  for (const bad of [
    'hf:',
    'hf:a',
    'hf:a/b/../c',
    'hf:a/b/m.gguf:Q8_0',
    'hf:a--b/c',
    'hf:-a/b',
    'hf:a/b@../x',
    'hf:a/b c'
  ])
    assert.throws(() => parseHub(bad), {code: 'INVALID_ARGUMENT', message: /hf:ORG\/NAME/}, bad);
  assert.deepEqual(addressOf('hf:a/b/m.gguf'), {
    kind: 'url',
    key: 'hf:a/b/m.gguf',
    name: 'm.gguf',
    local: false,
    storable: true
  });
});

test('the file is chosen as tern pull chooses it', () => {
  const name = {...parseHub('hf:a/b')};
  const files = ['README.md', 'm-Q8_0.gguf', 'm-Q4_K_M.gguf', 'mmproj-m.gguf', 'deep/m-i2_s.gguf'];
  assert.equal(chooseFile(files, name), 'deep/m-i2_s.gguf');
  assert.equal(chooseFile(files.slice(0, 4), name), 'm-Q4_K_M.gguf');
  assert.equal(chooseFile(files, {...name, tag: 'q8_0'}), 'm-Q8_0.gguf');
  assert.throws(() => chooseFile(files, {...name, tag: 'Q2_K'}), {
    code: 'NOT_FOUND',
    message: /no GGUF file of Q2_K.*m-Q8_0/
  });
  assert.throws(() => chooseFile(['model.safetensors'], name), {
    code: 'NOT_FOUND',
    message: /it has model\.safetensors/
  });
  assert.throws(() => chooseFile(['a.gguf', 'b.gguf'], name), {
    code: 'INVALID_ARGUMENT',
    message: /one of a\.gguf, b\.gguf/
  });
});

test('a model is loaded by its name, and what is not there is said', {skip: missing('wasm/tern.wasm')}, async () => {
  const siblings = [{rfilename: 'README.md'}, {rfilename: 'tiny-i2_s.gguf'}];
  const server = await serve({
    '/api/models/org/tiny/revision/main': Buffer.from(JSON.stringify({siblings})),
    '/org/tiny/resolve/main/tiny-i2_s.gguf': readFileSync(MODEL)
  });
  process.env.HF_ENDPOINT = server.url;
  const options = {backend: 'cpu', threads: 1};
  try {
    for (const source of ['hf:org/tiny', 'hf:org/tiny/tiny-i2_s.gguf']) {
      const tern = await Tern.load(source, options);
      assert.equal(tern.model.name, 'stories');
      await tern.dispose();
    }
    await assert.rejects(Tern.load('hf:org/none', options), {
      code: 'NOT_FOUND',
      message: /no such model, or it is gated/
    });
    await assert.rejects(Tern.load('hf:org/tiny/no.gguf', options), {code: 'NETWORK', message: /404/});
  } finally {
    delete process.env.HF_ENDPOINT;
    await server.close();
  }
});
