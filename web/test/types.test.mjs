/** index.d.ts, checked by TypeScript against a program that uses all of it, and against what index.js exports. */
import assert from 'node:assert/strict';
import {execFile} from 'node:child_process';
import {existsSync, readFileSync} from 'node:fs';
import {fileURLToPath} from 'node:url';
import {promisify} from 'node:util';
import {test} from 'node:test';
import * as library from '../lib/index.js';
import {Tern} from '../lib/index.js';
import {MODEL, missing} from './support/built.mjs';

const TSC = fileURLToPath(new URL('../node_modules/typescript/bin/tsc', import.meta.url));
const PROGRAM = fileURLToPath(new URL('types.ts', import.meta.url));
const CHAT = fileURLToPath(new URL('../../models/chat.gguf', import.meta.url));
const DECLARED = readFileSync(new URL('../lib/index.d.ts', import.meta.url), 'utf8');
const FLAGS = [
  '--noEmit',
  '--strict',
  '--target',
  'es2022',
  '--module',
  'nodenext',
  '--lib',
  'es2022,dom,dom.iterable,dom.asynciterable'
];

test('the types fit a program that uses them', {skip: existsSync(TSC) ? false : 'no typescript: npm ci'}, async () => {
  const {stdout} = await promisify(execFile)(process.execPath, [TSC, ...FLAGS, PROGRAM]).catch((error) => error);
  assert.equal(stdout, '');
});

/** The fields of an interface, those that need not be there in `optional`. */
function fieldsOf(name) {
  const [, body] = new RegExp(`export interface ${name} \\{\\n([^]*?)\\n\\}`).exec(DECLARED);
  const all = [...body.matchAll(/^ {2}(?:readonly )?(\w+)(\??):/gm)];
  return {needed: all.filter((each) => !each[2]).map((each) => each[1]), all: all.map((each) => each[1])};
}

function isDeclared(name, value) {
  const {needed, all} = fieldsOf(name);
  assert.ok(needed.length > 1, name);
  assert.deepEqual(needed.filter((field) => !(field in value)), [], `${name}: declared, not returned`);
  assert.deepEqual(Object.keys(value).filter((field) => !all.includes(field)), [], `${name}: returned, not declared`);
}

test('what is returned is what is declared', {skip: missing('wasm/tern.wasm')}, async () => {
  const progress = [], steps = [];
  const tern = await Tern.load(MODEL, {backend: 'cpu', threads: 1, onProgress: (each) => progress.push(each)});
  isDeclared('ModelInfo', tern.model);
  isDeclared('DeviceInfo', tern.device);
  isDeclared('MemoryPlan', tern.memory);
  isDeclared('Progress', progress[0]);
  const stream = tern.generate('Once upon a time', {maxTokens: 3, logprobs: true, topLogprobs: 2});
  for await (const piece of stream) isDeclared('Piece', piece);
  isDeclared('Result', await stream.result);
  const messages = [{role: 'user', content: 'a'}];
  const text = 'The tern flies over the snow. '.repeat(12);
  await tern.finetune(text, {steps: 1, batch: 1, sequence: 16, onStep: (step) => steps.push(step)});
  isDeclared('FinetuneStep', steps[0]);
  await tern.dispose();
  const chat = await Tern.load(CHAT, {backend: 'cpu', threads: 1});
  const completion = await chat.chat.completions.create({messages, max_tokens: 2});
  isDeclared('Completion', completion);
  isDeclared('Usage', completion.usage);
  for await (const chunk of await chat.chat.completions.create({messages, max_tokens: 2, stream: true}))
    isDeclared('CompletionChunk', chunk);
  await chat.dispose();
  const {supported, webgpu, device, threads, storage} = await Tern.probe();
  assert.equal(supported, true);
  assert.deepEqual([typeof webgpu, typeof threads, typeof storage], ['boolean', 'number', 'boolean']);
  if (device) isDeclared('DeviceInfo', device);
});

test('what is declared is there', () => {
  assert.deepEqual(Object.keys(library).sort(), ['Tern', 'TernError', 'version']);
  for (const name of [
    'generate',
    'embed',
    'tokenize',
    'detokenize',
    'loadLora',
    'setLoras',
    'finetune',
    'measureBandwidth',
    'dispose'
  ]) {
    assert.equal(typeof Tern.prototype[name], 'function', name);
  }
  assert.deepEqual(Object.keys(Tern.storage), ['list', 'delete', 'estimate']);
});
