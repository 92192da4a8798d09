/** The WebAssembly module under Node, on the CPU: text as the native command writes it, sessions, what errors say. */
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {existsSync, readFileSync} from 'node:fs';
import {after, before, test} from 'node:test';
import {fileURLToPath} from 'node:url';
import {Core} from '../lib/core.js';
import {MODEL, missing} from './support/built.mjs';

const TERN = fileURLToPath(new URL('../../build/release/tern', import.meta.url));
const PROMPT = 'Once upon a time', GREEDY = {temperature: 0, maxTokens: 48};
const skip = missing('wasm/tern.wasm', 'wasm/tern-threads.wasm');
const native = !existsSync(TERN) && !process.env.TERN_WEB_REQUIRED ? 'no build/release/tern: make build' : skip;
const file = readFileSync(MODEL);

/** Bytes as a file that is read in order, which it checks. */
function readerOf(bytes) {
  let at = 0;
  return {
    size: bytes.length,
    async read(offset, length) {
      assert.ok(offset >= at, `read at ${offset} after ${at}`);
      at = offset + length;
      return new Uint8Array(bytes.buffer, bytes.byteOffset + offset, Math.min(length, bytes.length - offset));
    },
  };
}

/** @returns {Promise<{text: string, ids: number[], result: any}>} */
async function drain(pieces) {
  const ids = [];
  for (let text = ''; ;) {
    const {value, done} = await pieces.next();
    if (done) return {text, ids, result: value};
    text += value.text;
    if (value.id >= 0) ids.push(value.id);
  }
}

const code = (expected, message) => (error) => error.code === expected && message.test(error.message);

/** @type {Core} */ let core;
/** @type {import('../lib/engine.js').Engine} */ let engine;

before(async () => {
  if (skip) return;
  core = await Core.create();
  engine = await core.load(readerOf(file));
});
after(() => {
  engine?.dispose();
  core?.dispose();
});

test('the greedy text is that of the native command', {skip: native}, async () => {
  const found = await drain(engine.generate(PROMPT, GREEDY));
  const args = ['run', '-m', MODEL, '-p', PROMPT, '-n', '48', '--greedy', '--json', '--quiet'];
  const expected = JSON.parse(execFileSync(TERN, args, {encoding: 'utf8'}));
  assert.equal(found.text, expected.text);
  assert.equal(found.ids.length, expected.statistics.generated_tokens);
  assert.equal(found.result.reason, 'length');
});

test('any number of threads gives the same tokens', {skip}, async () => {
  const {ids} = await drain(engine.generate(PROMPT, GREEDY));
  assert.equal(ids.length, 48);
  for (const threads of [2, 3, 8]) {
    const several = await Core.create({threads});
    try {
      const other = await several.load(readerOf(file));
      assert.deepEqual((await drain(other.generate(PROMPT, GREEDY))).ids, ids, `${threads} threads`);
      other.dispose();
    } finally {
      several.dispose();
    }
  }
});

test('what the model is, and what it takes', {skip}, () => {
  const {model, memory} = engine;
  assert.equal(model.architecture, 'bitnet-b1.58');
  assert.equal(model.vocabulary, 2048);
  assert.ok(model.parameters > 1e6 && model.bytes < file.length && memory.weights > model.bytes / 2);
  assert.equal(memory.total, memory.weights + memory.cache + memory.activations);
  assert.ok(memory.largestBuffer <= memory.total && memory.largestBuffer > 0);
});

test('text becomes tokens and the same text again', {skip}, () => {
  for (const text of ['', 'Once upon a time', 'Ærø – naïve 🐦 日本', '  two  spaces\n\ttab', '\0zero']) {
    assert.equal(engine.detokenize(engine.tokenize(text)), text);
  }
  const plain = engine.tokenize(PROMPT), begun = engine.tokenize(PROMPT, {bos: true});
  assert.deepEqual(begun.slice(1), plain);
});

test('what the session holds already is not computed again', {skip}, async () => {
  engine.core.call('session_truncate', engine.session, 0);
  const ids = engine.tokenize('Once upon a time there was a girl', {bos: true});
  const first = await drain(engine.generate(ids, GREEDY));
  assert.equal(first.result.reusedTokens, 0);
  const again = await drain(engine.generate(ids, GREEDY));
  assert.equal(again.result.reusedTokens, ids.length - 1);
  assert.equal(again.result.promptTokens, ids.length);
  assert.equal(again.text, first.text);
  const longer = await drain(engine.generate([...ids, ...first.ids], GREEDY));
  assert.ok(longer.result.reusedTokens >= ids.length + first.ids.length - 1);
});

test('a seed gives the same text again, another seed another', {skip}, async () => {
  const write = async (seed) => (await drain(engine.generate(PROMPT, {temperature: 1, maxTokens: 40, seed}))).text;
  assert.equal(await write(7), await write(7));
  assert.notEqual(await write(7), await write(8));
});

test('generation stops: at a text, by a signal, by leaving the loop', {skip}, async () => {
  const stopped = await drain(engine.generate(PROMPT, {...GREEDY, stop: ['.']}));
  assert.equal(stopped.result.reason, 'stop string');
  assert.ok(stopped.text.length > 0 && !stopped.text.includes('.'));
  const aborting = new AbortController(), pieces = engine.generate(PROMPT, {...GREEDY, signal: aborting.signal});
  await pieces.next();
  aborting.abort();
  const {result, ids} = await drain(pieces);
  assert.equal(result.reason, 'caller');
  assert.ok(ids.length < 5);
  for await (const piece of engine.generate(PROMPT, GREEDY)) {
    assert.ok(piece.id >= 0);
    break;
  }
  assert.equal((await drain(engine.generate(PROMPT, GREEDY))).ids.length, 48);
});

test('timers run while the CPU generates', {skip}, async () => {
  let turns = 0;
  const timer = setInterval(() => turns++, 1);
  await drain(engine.generate(PROMPT, {temperature: 0, maxTokens: 200, ignoreEos: true}));
  clearInterval(timer);
  assert.ok(turns > 1, `${turns} turns`);
});

test('wrong things say what is wrong', {skip}, async () => {
  const fails = (options, name, message) =>
    assert.rejects(drain(engine.generate(PROMPT, options)), code(name, message));
  await fails({temprature: 1}, 'INVALID_ARGUMENT', /option temprature is unknown/);
  await fails({maxTokens: -1}, 'INVALID_ARGUMENT', /maxTokens: -1 found, a whole number/);
  await fails({temperature: 'hot'}, 'INVALID_ARGUMENT', /temperature: "hot" found, a number/);
  await fails({stop: ['a', 1]}, 'INVALID_ARGUMENT', /item 1 is not a text/);
  await fails({topP: 7}, 'INVALID_ARGUMENT', /top-p|top_p/);
  await assert.rejects(drain(engine.generate([], GREEDY)), code('INVALID_ARGUMENT', /no tokens/));
  await assert.rejects(drain(engine.generate([99999], GREEDY)), code('INVALID_ARGUMENT', /99999/));
  await assert.rejects(drain(engine.generate(Array(2000).fill(1), GREEDY)), code('CONTEXT_FULL', /1024/));
  assert.throws(() => engine.detokenize([-1]), code('INVALID_ARGUMENT', /-1/));
  assert.throws(() => engine.chatPrompt([{role: 'user', content: 'hello'}]), code('NOT_FOUND', /chat template/));
  assert.throws(() => core.checkManifest('{}'), code('MALFORMED', /./));
  await assert.rejects(engine.loadLora([{name: 'a.gguf', bytes: new Uint8Array(100)}]), code('MALFORMED', /./));
  await assert.rejects(Core.create({threads: 0}), code('INVALID_ARGUMENT', /threads/));
});

test('a file that does not fit into the memory of WebAssembly is OUT_OF_MEMORY, with the bytes', {skip}, async () => {
  const full = await Core.create();
  const blocks = [];
  for (let bytes = 1 << 30; bytes >= 1 << 20; bytes /= 2)
    for (let at; (at = full.module._malloc(bytes)); ) blocks.push(at);
  await assert.rejects(full.load(readerOf(file)), code('OUT_OF_MEMORY', /out of memory: could not allocate \d+ bytes/));
  for (const at of blocks) full.module._free(at);
  const other = await full.load(readerOf(file));
  assert.equal(other.model.name, 'stories');
  full.dispose();
});

test('one thing at a time', {skip}, async () => {
  const pieces = engine.generate(PROMPT, GREEDY);
  await pieces.next();
  await assert.rejects(drain(engine.generate(PROMPT, GREEDY)), code('INVALID_ARGUMENT', /one thing at a time/));
  await pieces.return();
});

test('files that are no model, are cut off, or are damaged', {skip}, async () => {
  const load = (bytes) => core.load(readerOf(bytes));
  await assert.rejects(load(Buffer.from('this is no model, whatever its name says')), code('MALFORMED', /GGUF|magic/i));
  await assert.rejects(load(file.subarray(0, file.length - 1000)), code('MALFORMED', /./));
  await assert.rejects(load(file.subarray(0, 3000)), code('MALFORMED', /./));
  const damaged = Buffer.from(file);
  damaged.fill(0xff, file.length - 4000);
  await assert.rejects(load(damaged), code('MALFORMED', /./));
  const short = {size: file.length, read: async (offset, n) => new Uint8Array(n >> 1)};
  await assert.rejects(core.load(short), code('NETWORK', /expected/));
  const aborted = AbortSignal.abort();
  await assert.rejects(core.load(readerOf(file), {signal: aborted}), code('CANCELLED', /./));
  assert.equal((await drain(engine.generate(PROMPT, GREEDY))).ids.length, 48);
});
