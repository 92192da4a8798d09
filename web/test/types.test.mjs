/** index.d.ts, checked by TypeScript against a program that uses all of it, and against what index.js exports. */
import assert from 'node:assert/strict';
import {execFile} from 'node:child_process';
import {existsSync} from 'node:fs';
import {fileURLToPath} from 'node:url';
import {promisify} from 'node:util';
import {test} from 'node:test';
import * as library from '../lib/index.js';

const TSC = fileURLToPath(new URL('../node_modules/typescript/bin/tsc', import.meta.url));
const PROGRAM = fileURLToPath(new URL('types.ts', import.meta.url));
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

test('what is declared is there', () => {
  const {Tern} = library;
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
