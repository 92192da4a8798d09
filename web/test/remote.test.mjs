/** What a thread reads from the page while it waits: whole files, and why there is none. */
import assert from 'node:assert/strict';
import {test} from 'node:test';
import {Worker} from 'node:worker_threads';
import {TernError, errorToWire} from '../lib/errors.js';
import {Remote, answerNow} from '../lib/remote.js';
import {pattern} from './support/server.mjs';

const remote = new URL('../lib/remote.js', import.meta.url).href;

/** A thread as a browser's worker is, that reads `bytes` bytes of a file. */
const PROGRAM = `
  import {parentPort, workerData} from 'node:worker_threads';
  globalThis.WorkerGlobalScope = class {};
  globalThis.crossOriginIsolated = true;
  const {Remote} = await import(${JSON.stringify(remote)});
  const there = new Remote();
  there.attach({emit: (event, data) => parentPort.postMessage({event, data})});
  const into = new Uint8Array(workerData.bytes);
  try {
    there.readNow('shard.bin', into);
    parentPort.postMessage({into});
  } catch ({code, message}) {
    parentPort.postMessage({code, message});
  }
`;

/** What the thread has in the end, where the page answers so. */
function read(bytes, answer) {
  const worker = new Worker(new URL(`data:text/javascript,${encodeURIComponent(PROGRAM)}`), {workerData: {bytes}});
  return new Promise((resolve, reject) => {
    worker.on('error', reject);
    worker.on('message', ({event, data, ...end}) => {
      if (!event) return resolve(end);
      assert.deepEqual([event, data.file, data.offset, data.bytes], ['want', 'shard.bin', 0, bytes]);
      return setTimeout(() => answer(data.memory), 20);
    });
  });
}

test('a thread that waits gets all of a file', async () => {
  for (const n of [1, 100000]) {
    const bytes = pattern(n, 3);
    const {into, message} = await read(n, (memory) => answerNow(memory, bytes, null));
    assert.deepEqual(into, bytes, message);
  }
});

test('or why there is none, in a few words', async () => {
  const long = new TernError('NETWORK', `"${'\u{1F426}\n'.repeat(10000)}`);
  const failed = await read(10, (memory) => answerNow(memory, null, errorToWire(long)));
  assert.equal(failed.code, 'NETWORK');
  assert.ok(failed.message.length === 500 && long.message.startsWith(failed.message), failed.message);
  const short = await read(10, (memory) => answerNow(memory, pattern(9), null));
  assert.deepEqual([short.code, short.message], ['CORRUPT', 'shard.bin has 9 bytes, the manifest says 10']);
});

test('a thread that may not wait, or shares no memory, has no such way', () => {
  assert.equal(new Remote().readNow, null);
});
