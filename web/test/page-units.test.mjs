/** The page's parts that need no document. */
import assert from 'node:assert/strict';
import {mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import test from 'node:test';
import {Conversation} from '../page/js/conversation.js';
import {TITLES, explain} from '../page/js/explain.js';
import {fit} from '../page/js/fit.js';
import {bytes, count, duration, progressText} from '../page/js/format.js';
import {BUNDLED_BYTES, KNOWN} from '../page/js/known.js';
import {runningMean, ticks} from '../page/js/plot.js';
import {stopStrings, within} from '../page/js/sampling.js';
import {stamp} from '../site.mjs';

test('numbers are written as people read them', () => {
  assert.equal(bytes(0), '0 B');
  assert.equal(bytes(999), '999 B');
  assert.equal(bytes(999.6), '1 kB');
  assert.equal(bytes(2744320), '2.74 MB');
  assert.equal(bytes(999999), '1 MB');
  assert.equal(bytes(1.2e9), '1.2 GB');
  assert.equal(count(6830000), '6.83 million');
  assert.equal(count(2048), '2,048');
  assert.equal(duration(59.4), '59 s');
  assert.equal(duration(125), '2 min 5 s');
  assert.equal(duration(7300), '2 h 1 min');
  assert.equal(duration(Infinity), '');
});

test('progress leaves out what is not known', () => {
  assert.equal(progressText({loaded: 5e6, total: 1e7, rate: 0, secondsLeft: Infinity, stored: 0}), '5 MB of 10 MB');
  assert.equal(
    progressText({loaded: 5e6, total: 1e7, rate: 1e6, secondsLeft: 5, stored: 2e6}),
    '5 MB of 10 MB · 1 MB/s · 5 s left · 2 MB from this browser',
  );
});

test('a conversation asks with what came before, and forgets what is cut', () => {
  const conversation = new Conversation();
  const first = conversation.add('Hello', 'chat');
  first.reply = 'Hi';
  const failed = conversation.add('Lost', 'chat');
  const other = conversation.add('Once', 'complete');
  other.reply = ' upon';
  const last = conversation.add('Bye', 'chat');
  assert.deepEqual(conversation.messages(last, ' Be kind. '), [
    {role: 'system', content: 'Be kind.'},
    {role: 'user', content: 'Hello'},
    {role: 'assistant', content: 'Hi'},
    {role: 'user', content: 'Bye'},
  ]);
  assert.deepEqual(conversation.messages(first, '  '), [{role: 'user', content: 'Hello'}]);
  assert.equal(
    conversation.text(),
    'You: Hello\n\nModel: Hi\n\nYou: Lost\n\nModel: \n\nOnce upon\n\nYou: Bye\n\nModel: \n',
  );
  assert.equal(JSON.parse(conversation.json({model: null})).turns[2].completion, ' upon');
  assert.equal(conversation.cut(failed), 'Lost');
  assert.deepEqual(conversation.turns, [first]);
});

test('a message written anew is a version beside the other; a branch is a conversation of its own', () => {
  const conversation = new Conversation();
  const first = conversation.add('Hello', 'chat');
  const second = conversation.add('Two', 'chat');
  conversation.cut(second);
  assert.deepEqual(Conversation.from(conversation.data()).turns.length, 2); // what is kept does not know of the editing
  const other = conversation.add('Three', 'chat');
  assert.deepEqual(conversation.versions(other), {at: 1, n: 2});
  conversation.step(other, -1);
  assert.deepEqual(conversation.turns, [first, second]);
  conversation.step(second, -1);
  assert.deepEqual(conversation.turns, [first, second]);
  const again = conversation.again(first);
  assert.deepEqual([conversation.turns, conversation.versions(again).n], [[again], 2]);
  conversation.step(again, -1);
  const branch = conversation.branch(second);
  branch.turns[0].reply = 'changed';
  assert.deepEqual([branch.turns.length, first.reply, branch.title], [2, '', 'Hello (branch)']);
  assert.notEqual(branch.id, conversation.id);
});

test('known models are those of tern pull; what fits depends on memory', () => {
  const table = readFileSync(new URL('../../src/hub/known.def', import.meta.url), 'utf8');
  for (const [name, address, what, size] of KNOWN) {
    const memory = `${(size / 1e9).toFixed(size < 1e9 ? 2 : 1)} GB`;
    assert.ok(table.includes(`TERN_KNOWN("${name}", "${address.slice(3)}", "${what}", "${memory}"`), name);
  }
  assert.equal(BUNDLED_BYTES, statSync(new URL('../../models/chat.gguf', import.meta.url)).size);
  assert.equal(fit(6e6, {gpu: false}).fits, true);
  assert.equal(fit(12.1e9, {gpu: true}).fits, false);
  assert.equal(fit(1.2e9, {gpu: true, memory: 2}).text, 'too large for this device');
});

test('sampling values stay in their ranges', () => {
  assert.equal(within('temperature', -1), 0);
  assert.equal(within('temperature', 0.8), 0.8);
  assert.equal(within('topK', 12.6), 13);
  assert.equal(within('topK', 1e9), 1000);
  assert.equal(within('minP', NaN), 0.05);
  assert.deepEqual(stopStrings('END\n\n\\n\\n\n a '), ['END', '\n\n', ' a ']);
});

test('every error code has a title; what is unknown is our defect', () => {
  const types = readFileSync(new URL('../lib/index.d.ts', import.meta.url), 'utf8');
  const union = /export type ErrorCode =([^;]+);/.exec(types)[1].replaceAll(/\/\*.*?\*\//g, '');
  const codes = [...union.matchAll(/'([A-Z_]+)'/g)].map((match) => match[1]);
  assert.ok(codes.length > 15);
  assert.deepEqual(
    codes.filter((code) => !TITLES[code]),
    [],
  );
  assert.deepEqual(explain(new Error('odd')), {
    title: TITLES.INTERNAL,
    text: 'odd',
    advice: explain({code: 'INTERNAL'}).advice,
  });
});

test('the loss is drawn at its place', () => {
  assert.deepEqual(ticks(1.93, 4.2, 4), [2, 3, 4]);
  assert.deepEqual(ticks(0, 0.1, 4), [0, 0.05, 0.1]);
  const means = runningMean([4, 2, 2, 2]);
  assert.equal(means[0], 4);
  assert.ok(means[3] < means[1] && means[3] > 2);
});

test('the version of the service worker changes with any file of the page, and only then', () => {
  const site = mkdtempSync(join(tmpdir(), 'tern-site-'));
  mkdirSync(join(site, 'models'));
  mkdirSync(join(site, 'lib'));
  const write = (name, text) => writeFileSync(join(site, name), text);
  write('sw.js', readFileSync(new URL('../page/sw.js', import.meta.url), 'utf8'));
  write('index.html', 'page');
  write('models/m.gguf', 'weights');
  write('lib/core.js', 'one');
  const first = stamp(site);
  assert.deepEqual(first.files, ['index.html', 'lib/core.js']);
  const text = readFileSync(join(site, 'sw.js'), 'utf8');
  assert.match(text, new RegExp(`VERSION = '${first.version}'`));
  assert.match(text, /FILES = \["index.html","lib\/core.js"\]/);
  write('models/m.gguf', 'others');
  assert.equal(stamp(site).version, first.version);
  write('lib/core.js', 'two');
  assert.notEqual(stamp(site).version, first.version);
  rmSync(site, {recursive: true});
});
