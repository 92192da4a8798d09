/** Adapters in OPFS, over a double of it in memory: stored, listed, read by name, damaged, refused, deleted. */
import assert from 'node:assert/strict';
import {createHash} from 'node:crypto';
import {afterEach, beforeEach, describe, test} from 'node:test';
import {deleteAdapter, listAdapters, readStoredAdapter, storeAdapter} from '../lib/adapter-store.js';
import {Tern} from '../lib/index.js';
import {MODEL, missing} from './support/built.mjs';
import {opfs} from './support/opfs.mjs';
import {pattern} from './support/server.mjs';

const sum = (bytes) => createHash('sha256').update(bytes).digest('hex');
const gguf = [{name: 'style.gguf', bytes: pattern(5000, 3)}];
const peft = [
  {name: 'adapter_config.json', bytes: pattern(90, 4)},
  {name: 'adapter_model.safetensors', bytes: pattern(7000, 5)}
];
const about = {name: 'My style', source: 'https://x.example/style.gguf'};
const folderOf = async (platform, id) =>
  (await platform.root.getDirectoryHandle('tern-adapters')).getDirectoryHandle(id);

test('an adapter is read as it was stored, with the sums of its files', async () => {
  const platform = opfs();
  for (const [name, files] of Object.entries({one: gguf, two: peft})) {
    const stored = await storeAdapter(files, {...about, name}, platform);
    assert.deepEqual([stored.name, stored.source, stored.complete], [name, about.source, true]);
    assert.deepEqual(
      stored.files,
      files.map((file) => ({name: file.name, bytes: file.bytes.length, sha256: sum(file.bytes)}))
    );
    assert.deepEqual(await readStoredAdapter(name, {platform}), files);
    assert.deepEqual(await readStoredAdapter(stored.id, {platform}), files);
  }
  const names = (await listAdapters(platform)).map((each) => each.name).sort();
  assert.deepEqual(names, ['one', 'two']);
});

test('models and adapters do not see each other', async () => {
  const platform = opfs();
  await storeAdapter(gguf, about, platform);
  assert.deepEqual([...platform.root.items.keys()], ['tern-adapters']);
});

test('a name that is taken: the same files are fine, others are refused and change nothing', async () => {
  const platform = opfs();
  const first = await storeAdapter(gguf, about, platform);
  assert.equal((await storeAdapter(gguf, about, platform)).id, first.id);
  await assert.rejects(storeAdapter(peft, about, platform), {
    code: 'INVALID_ARGUMENT',
    message: /another stored adapter "My style" \(SHA-256 [0-9a-f]{64}\): delete that first/
  });
  assert.deepEqual(await readStoredAdapter('My style', {platform}), gguf);
  for (const name of ['', '  ', 'x'.repeat(101), 5])
    await assert.rejects(storeAdapter(gguf, {...about, name: /** @type {any} */ (name)}, platform), {
      code: 'INVALID_ARGUMENT',
      message: /expected a text of 1 to 100/
    });
});

test('no room: an error with the numbers, and nothing left behind', async () => {
  const platform = opfs({quota: 6000});
  await assert.rejects(storeAdapter(peft, about, platform), {code: 'NO_STORAGE', message: /My style.*of 6000 bytes/});
  assert.deepEqual(await listAdapters(platform), []);
});

test('a damaged file is named; storing it again makes it whole', async () => {
  const platform = opfs();
  const {id} = await storeAdapter(peft, about, platform);
  (await (await folderOf(platform, id)).getFileHandle('chunk_001.bin')).bytes[8] ^= 1;
  await assert.rejects(readStoredAdapter(about.name, {platform}), {
    code: 'CORRUPT',
    message: /chunk 1 of 2 of the stored adapter my-style-[0-9a-f]+ is damaged: its SHA-256 is .*store it again/
  });
  assert.equal((await listAdapters(platform))[0].complete, false);
  await assert.rejects(readStoredAdapter(about.name, {platform}), {code: 'NOT_FOUND', message: /not complete/});
  await storeAdapter(peft, about, platform);
  assert.deepEqual(await readStoredAdapter(about.name, {platform}), peft);
});

test('deleting: by name, one that is not there, one that is in use, one whose meta.json is cut off', async () => {
  const platform = opfs();
  const {id} = await storeAdapter(gguf, about, platform);
  await assert.rejects(deleteAdapter('none', platform), {
    code: 'NOT_FOUND',
    message: 'there is no stored adapter "none"; stored are: "My style"'
  });
  let release = () => {};
  const held = new Promise((resolve) => {
    release = () => resolve(undefined);
  });
  const request = platform.locks.request(`tern-adapter ${id}`, {mode: 'shared'}, () => held);
  await assert.rejects(deleteAdapter(about.name, platform), {code: 'IO', message: /stored adapter .* in another tab/});
  await assert.rejects(storeAdapter(gguf, about, platform), {code: 'IO'});
  release();
  await request;
  const meta = await (await folderOf(platform, id)).getFileHandle('meta.json');
  meta.bytes = meta.bytes.slice(0, 30);
  const [cut] = await listAdapters(platform);
  assert.deepEqual([cut.name, cut.files, cut.complete], [id, [], false]);
  await deleteAdapter(cut.name, platform);
  assert.deepEqual(await listAdapters(platform), []);
});

test('without a private file system', async () => {
  await assert.rejects(listAdapters({storage: {}}), {code: 'NO_STORAGE', message: /so that adapters cannot be kept/});
});

describe('through the API, over two loads of the model', {skip: missing('wasm/tern.wasm')}, () => {
  const before = Object.getOwnPropertyDescriptor(globalThis, 'navigator');
  const load = () => Tern.load(MODEL, {backend: 'cpu', threads: 1, contextLength: 64});
  const text = (tern) => tern.generate('Once upon a time', {temperature: 0, maxTokens: 12}).text();

  beforeEach(() => Object.defineProperty(globalThis, 'navigator', {value: opfs(), configurable: true}));
  afterEach(() => {
    if (before) Object.defineProperty(globalThis, 'navigator', before);
    else Reflect.deleteProperty(globalThis, 'navigator');
  });

  test('one just trained is stored, and changes the text of the next Tern as of this', async () => {
    let tern = await load();
    const plain = await text(tern);
    const story = 'The red tern flew to the cold north and saw the ice. '.repeat(8);
    const bytes = await tern.finetune(story, {steps: 2, batch: 1, sequence: 16, learningRate: 0.05});
    await tern.setLoras([{lora: await tern.loadLora(bytes)}]);
    const adapted = await text(tern);
    assert.notEqual(adapted, plain);
    const stored = await tern.storeLora(bytes, {name: 'trained'});
    assert.deepEqual(stored.files, [{name: 'adapter.gguf', bytes: bytes.length, sha256: sum(bytes)}]);
    await assert.rejects(tern.storeLora(bytes), {code: 'INVALID_ARGUMENT', message: /name is missing/});
    await assert.rejects(tern.storeLora(new Uint8Array(64), {name: 'none'}), {code: 'MALFORMED'});
    await tern.dispose();
    tern = await load();
    assert.equal(await text(tern), plain);
    await tern.setLoras([{lora: await tern.loadLora({stored: 'trained'})}]);
    assert.equal(await text(tern), adapted);
    assert.deepEqual((await Tern.adapters.list()).map((each) => each.name), ['trained']);
    await Tern.adapters.delete('trained');
    await assert.rejects(tern.loadLora({stored: 'trained'}), {code: 'NOT_FOUND', message: /stored are: none/});
    const odd = /** @type {any} */ ({stored: 5});
    await assert.rejects(tern.loadLora(odd), {code: 'INVALID_ARGUMENT', message: /name of a stored adapter/});
    await tern.dispose();
  });
});
