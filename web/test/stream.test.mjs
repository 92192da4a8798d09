/** Calls and streams between two threads, over a channel of messages and a made-up core. */
import assert from 'node:assert/strict';
import {test} from 'node:test';
import {MessageChannel} from 'node:worker_threads';
import {TernError} from '../lib/errors.js';
import {Client, Server} from '../lib/rpc.js';
import {TextStream} from '../lib/stream.js';

const METHODS = ['count', 'add', 'fail', 'wait'];

/** A core that counts, and notes how far it has come. */
class Counter {
  made = 0;
  live = 0;
  async count(n, call) {
    this.live++;
    try {
      for (let i = 0; i < n && !call.signal.aborted; i++) {
        await new Promise(setImmediate);
        this.made = i + 1;
        await call.push({id: i, text: `${i} `});
      }
      return {reason: call.signal.aborted ? 'caller' : 'length', tokens: this.made};
    } finally {
      this.live--;
    }
  }

  async add(a, b, call) {
    call.emit('progress', a);
    return a + b;
  }

  async fail(code) {
    throw new TernError(code, `failed with ${code}`);
  }

  wait(call) {
    return new Promise((_, reject) =>
      call.signal.addEventListener('abort', () => reject(new TernError('CANCELLED', 'stopped')))
    );
  }

  constructorName() {
    return 'not for callers';
  }
}

function connect(t) {
  const {port1, port2} = new MessageChannel();
  const host = new Counter();
  const lost = [];
  const client = new Client(
    (message) => port1.postMessage(message),
    (message) => lost.push(message)
  );
  const server = new Server(host, (message) => port2.postMessage(message), METHODS);
  port1.on('message', (message) => client.receive(message));
  port2.on('message', (message) => server.receive(message));
  t.after(() => port1.close());
  const stream = (n, signal) => new TextStream((piece) => client.start('count', [n], {signal, on: {piece}}));
  return {client, host, lost, stream};
}

test('values, events, errors with their codes', async (t) => {
  const {client, lost, host} = connect(t);
  const events = [];
  assert.equal(await client.call('add', [2, 3], {on: {progress: (n) => events.push(n)}}), 5);
  assert.deepEqual(events, [2]);
  await assert.rejects(
    client.call('fail', ['CORRUPT']),
    (error) => error instanceof TernError && error.code === 'CORRUPT'
  );
  for (const name of ['constructorName', 'constructor', 'none'])
    await assert.rejects(client.call(name), {code: 'INTERNAL', message: /no method/});
  host.onLost('gone');
  await client.call('add', [1, 1]);
  assert.deepEqual(lost, ['gone']);
});

test('cancelling a call, before and while it runs', async (t) => {
  const {client} = connect(t);
  const controller = new AbortController();
  const waiting = client.call('wait', [], {signal: controller.signal});
  controller.abort();
  await assert.rejects(waiting, {code: 'CANCELLED'});
  assert.deepEqual(await client.call('count', [5], {signal: AbortSignal.abort()}), {reason: 'caller', tokens: 0});
});

test('a stream: pieces in order, then the result', async (t) => {
  const {stream} = connect(t);
  const text = stream(100);
  let seen = '';
  for await (const piece of text) seen += piece.text;
  assert.equal(seen, Array.from({length: 100}, (_, i) => `${i} `).join(''));
  assert.deepEqual(await text.result, {reason: 'length', tokens: 100});
  assert.equal(await stream(3).text(), '0 1 2 ');
  assert.throws(() => text[Symbol.asyncIterator](), {code: 'INVALID_ARGUMENT', message: /being read already/});
});

/** Waits until the core has made n pieces, and then for as many turns as it would take to make many more. */
async function made(host, n) {
  while (host.made < n) await new Promise(setImmediate);
  for (let i = 0; i < 200; i++) await new Promise(setImmediate);
  return host.made;
}

test('nothing is generated before the stream is read, and little ahead of the reader', async (t) => {
  const {stream, host} = connect(t);
  const text = stream(1000);
  assert.equal(await made(host, 0), 0);
  const iterator = text[Symbol.asyncIterator]();
  await iterator.next();
  assert.equal(await made(host, 17), 17);
  for (let i = 0; i < 5; i++) await iterator.next();
  assert.equal(await made(host, 22), 22);
  await iterator.return();
});

test('leaving the loop stops the generation', async (t) => {
  const {stream, host} = connect(t);
  const text = stream(1e9);
  for await (const piece of text) if (piece.id === 30) break;
  assert.equal(host.live, 0);
  assert.equal((await text.result).reason, 'caller');
});

test('an exception in the loop stops it as well', async (t) => {
  const {stream, host} = connect(t);
  await assert.rejects(async () => {
    for await (const piece of stream(1e9)) throw new RangeError(piece.text);
  }, RangeError);
  assert.equal(host.live, 0);
});

test('a signal ends the stream, also while nobody reads', async (t) => {
  const {stream, host} = connect(t);
  const controller = new AbortController();
  const text = stream(1e9, controller.signal);
  const iterator = text[Symbol.asyncIterator]();
  await iterator.next();
  await made(host, 17);
  controller.abort();
  assert.equal((await text.result).reason, 'caller');
  assert.equal(host.live, 0);
  let left = 0;
  while (!(await iterator.next()).done) left++;
  assert.ok(left < 20);
});

test('the result alone reads the stream through', async (t) => {
  const {stream} = connect(t);
  assert.deepEqual(await stream(500).result, {reason: 'length', tokens: 500});
});

test('a failure reaches the reader and the result', async (t) => {
  const {client} = connect(t);
  const text = new TextStream((piece) => client.start('fail', ['DEVICE_LOST'], {on: {piece}}));
  await assert.rejects(text.text(), {code: 'DEVICE_LOST'});
  await assert.rejects(text.result, {code: 'DEVICE_LOST'});
});

test('when the worker is gone, every call ends', async (t) => {
  const {client, stream} = connect(t);
  const waiting = client.call('wait');
  const text = stream(1e9).text();
  client.fail(new TernError('INTERNAL', 'the worker failed'));
  await assert.rejects(waiting, {message: 'the worker failed'});
  await assert.rejects(text, {message: 'the worker failed'});
  await assert.rejects(client.call('add', [1, 2]), {message: 'the worker failed'});
});
