/** Error codes: the core's numbers, and the way from one thread to another. */
import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import {test} from 'node:test';
import {TernError, bytesFor, errorOfStatus, errorOfWire, errorToWire, throwIfAborted} from '../lib/errors.js';

const header = readFileSync(new URL('../../include/tern/status.h', import.meta.url), 'utf8');

test('every status of the C header has its code', () => {
  const rows = [...header.matchAll(/X\(([A-Z_]+), (\d+), "/g)];
  assert.ok(rows.length >= 12);
  for (const [, name, value] of rows) {
    const error = errorOfStatus(Number(value), 'words');
    const expected = name === 'OK' || name === 'PENDING' ? 'INTERNAL' : name;
    assert.equal(error.code, expected, name);
    assert.ok(error instanceof TernError);
  }
  assert.equal(errorOfStatus(99, 'x').code, 'INTERNAL');
});

test('an error keeps its code and message between threads', () => {
  const there = structuredClone(errorToWire(new TernError('CORRUPT', 'chunk 3')));
  const back = errorOfWire(there);
  assert.ok(back instanceof TernError);
  assert.deepEqual([back.code, back.message, back.name], ['CORRUPT', 'chunk 3', 'TernError']);
  assert.equal(errorToWire(new TypeError('x is not a function')).code, 'INTERNAL');
  assert.equal(errorToWire(new RangeError('Maximum call stack size exceeded')).code, 'INTERNAL');
  assert.equal(errorToWire(new DOMException('stop', 'AbortError')).code, 'CANCELLED');
});

test('no room in JavaScript is OUT_OF_MEMORY, and says what it was for', () => {
  for (const make of [() => new ArrayBuffer(2 ** 53 - 1), () => new Uint8Array(2 ** 53 - 1), () => new Uint8Array(-1)])
    assert.throws(make, (error) => error instanceof RangeError && errorToWire(error).code === 'OUT_OF_MEMORY');
  assert.equal(bytesFor(3, 'x').length, 3);
  const message = /^m\.gguf: there is no room for 9007199254740991 bytes \(.+\)$/;
  assert.throws(() => bytesFor(2 ** 53 - 1, 'm.gguf'), {code: 'OUT_OF_MEMORY', message});
});

test('an aborted signal is CANCELLED', () => {
  throwIfAborted(undefined, 'nothing');
  assert.throws(() => throwIfAborted(AbortSignal.abort(), 'loading'), {
    code: 'CANCELLED',
    message: 'loading was cancelled'
  });
});
