/** The API under Node, on the CPU: the bundled model, conversations, stopping, and what is said to wrong things. */
import assert from 'node:assert/strict';
import {mkdtemp, readFile, rm, writeFile} from 'node:fs/promises';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {after, before, describe, test} from 'node:test';
import {Tern, TernError, version} from '../lib/index.js';
import {MODEL, missing} from './support/built.mjs';
import {peftAdapter} from './support/peft.mjs';
import {serve} from './support/server.mjs';

const greedy = {temperature: 0, maxTokens: 24};
const PROMPT = 'Once upon a time';

describe('the API on the CPU', {skip: missing('wasm/tern.wasm')}, () => {
  let tern;
  before(async () => {
    tern = await Tern.load(MODEL, {backend: 'cpu', threads: 1});
  });
  after(() => tern.dispose());

  test('what it says about the model and the device', () => {
    const {model, memory, device, backend, notices} = tern;
    assert.deepEqual(
      [backend, model.name, model.architecture, model.layers, model.embedding, model.vocabulary, model.hasChatTemplate],
      ['cpu', 'stories', 'bitnet-b1.58', 8, 256, 2048, false]
    );
    assert.deepEqual([model.contextLength, model.trainedContextLength], [1024, 1024]);
    assert.equal(memory.total, memory.weights + memory.cache + memory.activations);
    assert.deepEqual([device.backend, device.threads, device.bandwidth], ['cpu', 1, null]);
    assert.deepEqual(notices, []);
    assert.match(version, /^\d+\.\d+\.\d+/);
  });

  test('generating: pieces, result, the same text again', async () => {
    const stream = tern.generate(PROMPT, greedy);
    const pieces = [];
    for await (const piece of stream) pieces.push(piece);
    const result = await stream.result;
    assert.deepEqual([result.reason, result.promptTokens, result.tokens], ['length', 5, 24]);
    assert.ok(result.tokensPerSecond > 0 && result.bytesPerToken > 1e6);
    const text = pieces.map((piece) => piece.text).join('');
    assert.match(text, /^ there was a/);
    assert.equal(await tern.generate(PROMPT, greedy).text(), text);
    const sampled = {temperature: 1, seed: 7, maxTokens: 24};
    assert.equal(await tern.generate(PROMPT, sampled).text(), await tern.generate(PROMPT, sampled).text());
  });

  test('without a seed another text each time', async () => {
    const texts = new Set();
    for (let i = 0; i < 3; i++) texts.add(await tern.generate(PROMPT, {temperature: 1.5, maxTokens: 24}).text());
    assert.equal(texts.size, 3);
  });

  test('f32 activations give another text, the same each time', async () => {
    const options = {backend: 'cpu', threads: 1, contextLength: 128, activations: 'f32'};
    const sampled = {temperature: 1, seed: 6, maxTokens: 64};
    const other = await Tern.load(MODEL, options);
    const text = await other.generate(PROMPT, sampled).text();
    assert.equal(await other.generate(PROMPT, sampled).text(), text);
    assert.notEqual(await tern.generate(PROMPT, sampled).text(), text);
    await other.dispose();
  });

  test('int8 activations take the CPU where the backend is free', async () => {
    const other = await Tern.load(MODEL, {threads: 1, contextLength: 64, activations: 'int8'});
    assert.deepEqual([other.backend, other.notice.code], ['cpu', 'UNSUPPORTED']);
    assert.match(other.notice.message, /activations "int8" are the CPU's alone/);
    await other.dispose();
  });

  test('stop strings, length, leaving the loop, a signal', async () => {
    const stream = tern.generate(PROMPT, {...greedy, stop: [' was']});
    assert.equal(await stream.text(), ' there');
    assert.equal((await stream.result).reason, 'stop string');
    const left = tern.generate(PROMPT, {temperature: 0, maxTokens: 500});
    let n = 0;
    for await (const piece of left) if (piece.id >= -1 && ++n === 5) break;
    const {reason, tokens} = await left.result;
    assert.equal(reason, 'caller');
    assert.ok(tokens >= 5 && tokens < 60, `${tokens} tokens`);
    const controller = new AbortController();
    const stopped = tern.generate(PROMPT, {temperature: 0, maxTokens: 500, signal: controller.signal});
    for await (const piece of stopped) if (piece) controller.abort();
    assert.equal((await stopped.result).reason, 'caller');
    const cut = tern.generate(PROMPT, {temperature: 0, maxTokens: 500, signal: AbortSignal.timeout(20)});
    await assert.rejects(cut.text(), {code: 'CANCELLED', message: 'the generation was cancelled'});
    assert.equal((await cut.result).reason, 'caller');
    await assert.rejects(tern.generate(PROMPT, {...greedy, signal: AbortSignal.abort()}).text(), {code: 'CANCELLED'});
  });

  test('two at once take turns', async () => {
    const [one, two] = await Promise.all([
      tern.generate(PROMPT, greedy).text(),
      tern.generate('The cat', greedy).text()
    ]);
    assert.equal(one, await tern.generate(PROMPT, greedy).text());
    assert.equal(two, await tern.generate('The cat', greedy).text());
  });

  test('one that waits for another can be cancelled', async () => {
    const first = tern.generate(PROMPT, {...greedy, maxTokens: 500})[Symbol.asyncIterator]();
    await first.next();
    const controller = new AbortController();
    const second = tern.generate('The cat', {...greedy, signal: controller.signal}).text();
    setTimeout(() => controller.abort(), 20);
    await assert.rejects(second, {code: 'CANCELLED', message: 'waiting for the model was cancelled'});
    await first.return();
    assert.match(await tern.generate(PROMPT, greedy).text(), /^ there was/);
  });

  test('a stream that nobody reads on holds nobody up', async () => {
    const half = tern.generate(PROMPT, {temperature: 0, maxTokens: 60});
    const reader = half[Symbol.asyncIterator]();
    const {value} = await reader.next();
    assert.match(await tern.generate(PROMPT, greedy).text(), /^ there was/);
    const later = tern.generate('The cat', {temperature: 0, maxTokens: 60})[Symbol.asyncIterator]();
    const behind = tern.generate(PROMPT, greedy).text();
    await later.next();
    assert.match(await behind, /^ there was/);
    let text = value.text;
    for (let piece = await reader.next(); !piece.done; piece = await reader.next()) text += piece.value.text;
    assert.equal(text, await tern.generate(PROMPT, {temperature: 0, maxTokens: 60}).text());
    await later.return();
  });

  test('a prompt that goes on is not computed again', async () => {
    const text = await tern.generate(PROMPT, greedy).text();
    const stream = tern.generate(PROMPT + text, {...greedy, maxTokens: 1});
    await stream.text();
    const {promptTokens, reusedTokens} = /** @type {any} */ (await stream.result);
    assert.ok(reusedTokens > 20 && reusedTokens < promptTokens, `${reusedTokens} of ${promptTokens}`);
  });

  test('tokens there and back', async () => {
    const ids = await tern.tokenize('Once upon a time, there was a dog.');
    assert.ok(ids.length > 5 && ids.every(Number.isInteger));
    assert.equal(await tern.detokenize(ids), 'Once upon a time, there was a dog.');
    assert.equal((await tern.tokenize('a', {bos: true})).length, (await tern.tokenize('a')).length + 1);
    assert.deepEqual(await tern.tokenize(''), []);
  });

  test('wrong things get messages that say what was expected', async () => {
    const wrong = /** @type {any} */ (tern);
    const cases = [
      [() => wrong.generate(5), /prompt is 5, expected a text/],
      [
        () => wrong.generate('x', {temprature: 1}),
        /tern\.generate: there is no option "temprature", expected maxTokens, temperature/
      ],
      [() => wrong.generate('x', {temperature: NaN}), /temperature is NaN, expected a finite number/],
      [() => wrong.generate('x', {temperature: '1'}), /temperature is "1", expected a finite number/],
      [() => wrong.generate('x', {maxTokens: 0}), /maxTokens is 0, expected a whole number above 0/],
      [() => wrong.generate('x', {maxTokens: 1.5}), /maxTokens is 1\.5/],
      [() => wrong.generate('x', {stop: 'end'}), /stop is "end", expected a list of texts/],
      [() => wrong.generate('x', {signal: true}), /signal is true, expected an AbortSignal/],
      [() => wrong.generate('x', null), /options are null, expected an object/],
      [() => wrong.generate('x', {temperature: -1}).text(), /temperature/],
      [() => wrong.generate('x', {topP: 2}).text(), /top-p is 2: 0 to 1 expected/],
      [() => wrong.chat('hello'), /messages are "hello", expected a list/],
      [() => wrong.chat([]), /messages are \[\], expected a list/],
      [
        () => wrong.chat([{role: 'robot', content: 'x'}]),
        /messages\[0\]\.role is "robot", expected "system", "user", "assistant" or "tool"/
      ],
      [() => wrong.chat([{role: 'user'}]), /messages\[0\]\.content is undefined, expected a text/],
      [() => wrong.tokenize(null), /text is null, expected a text/],
      [() => wrong.detokenize('x'), /ids are "x", expected a list of whole numbers/],
      [() => wrong.detokenize([1e9]), /1000000000/],
      [() => wrong.setLoras([{lora: {}}]), /loras\[0\]\.lora is no adapter of this Tern/],
      [() => wrong.setLoras('x'), /loras are x, expected a list/]
    ];
    for (const [action, message] of cases) {
      await assert.rejects(
        async () => action(),
        (error) => {
          assert.ok(error instanceof TernError, String(error));
          assert.equal(error.code, 'INVALID_ARGUMENT', error.message);
          assert.match(error.message, message);
          return true;
        }
      );
    }
    assert.match(await tern.generate(PROMPT, greedy).text(), /^ there was/, 'it works after that');
  });

  test('an adapter changes the text, its scale counts, and without it all is as before', async () => {
    const plain = await tern.generate(PROMPT, greedy).text();
    const files = peftAdapter().map(({name, bytes}) => new File([bytes], name));
    const lora = await tern.loadLora(files);
    assert.deepEqual([lora.rank, lora.parameters], [4, 8 * 2 * 4 * 256]);
    assert.equal(await tern.generate(PROMPT, greedy).text(), plain, 'loading alone changes nothing');
    await tern.setLoras([{lora}]);
    const adapted = await tern.generate(PROMPT, greedy).text();
    assert.notEqual(adapted, plain);
    await tern.setLoras([{lora, scale: 0}]);
    assert.equal(await tern.generate(PROMPT, greedy).text(), plain);
    await tern.setLoras([{lora, scale: 1}]);
    assert.equal(await tern.generate(PROMPT, greedy).text(), adapted);
    await lora.dispose();
    await lora.dispose();
    assert.equal(await tern.generate(PROMPT, greedy).text(), plain, 'one that is disposed of is out of use');
    await assert.rejects(tern.setLoras([{lora}]), {code: 'INVALID_ARGUMENT', message: /disposed of/});
  });

  test('fine-tuning gives an adapter that counts; stopped, it gives what it has', async () => {
    const text = await readFile(new URL('../../examples/finetune/logbook.txt', import.meta.url), 'utf8');
    const options = {rank: 2, steps: 3, batch: 1, sequence: 16, learningRate: 0.05, seed: 1};
    const steps = [];
    const adapter = await tern.finetune(text.slice(0, 1500), {...options, onStep: (step) => steps.push(step)});
    assert.deepEqual(
      steps.map(({step, steps: all}) => [step, all]),
      [
        [1, 3],
        [2, 3],
        [3, 3]
      ]
    );
    assert.ok(steps.every(({loss, norm}) => loss > 0 && loss < 20 && norm > 0));
    assert.equal(Buffer.from(adapter.subarray(0, 4)).toString(), 'GGUF');
    const plain = await tern.generate(PROMPT, greedy).text();
    const lora = await tern.loadLora(adapter);
    assert.equal(lora.rank, 2);
    await tern.setLoras([{lora, scale: 4}]);
    assert.notEqual(await tern.generate(PROMPT, greedy).text(), plain);
    await lora.dispose();
    const controller = new AbortController();
    const onStep = () => controller.abort();
    const stopped = await tern.finetune(text.slice(0, 1500), {
      ...options,
      steps: 500,
      onStep,
      signal: controller.signal
    });
    assert.equal(Buffer.from(stopped.subarray(0, 4)).toString(), 'GGUF');
    const wrong = /** @type {any} */ (tern);
    await assert.rejects(wrong.finetune('', options), {code: 'INVALID_ARGUMENT'});
    await assert.rejects(wrong.finetune(text, {rank: 0}), {message: /rank is 0, expected a whole number above 0/});
    await assert.rejects(wrong.finetune(5), {message: 'text is 5, expected a text'});
    assert.equal(await tern.generate(PROMPT, greedy).text(), plain);
  });

  test('adapters from a server and from memory, and what is none', async (t) => {
    const [config, weights] = peftAdapter();
    const server = await serve({'/a/adapter_config.json': config.bytes, '/a/adapter_model.safetensors': weights.bytes});
    t.after(() => server.close());
    const lora = await tern.loadLora(`${server.url}/a/`);
    assert.equal(lora.rank, 4);
    await lora.dispose();
    const narrow = peftAdapter({width: 128}).map(({name, bytes}) => new File([bytes], name));
    const cases = [
      [new Uint8Array([1, 2, 3]), 'MALFORMED', /./],
      [new File(['Hello, I am no adapter.'], 'a.gguf'), 'MALFORMED', /./],
      [narrow, 'MALFORMED', /128/],
      [narrow.slice(1), 'INVALID_ARGUMENT', /./],
      [await readFile(MODEL), 'UNSUPPORTED', /"model" found, "adapter" expected/],
      [`${server.url}/b/`, 'NETWORK', /adapter_config\.json: HTTP status 404/],
      [undefined, 'INVALID_ARGUMENT', /./]
    ];
    for (const [source, code, message] of cases) {
      await assert.rejects(tern.loadLora(/** @type {any} */ (source)), (error) => {
        assert.equal(error.code, code, error.message);
        assert.match(error.message, message);
        return true;
      });
    }
  });

  test('a prompt longer than the context', async () => {
    await assert.rejects(tern.generate('word '.repeat(3000), greedy).text(), {code: 'CONTEXT_FULL'});
    assert.match(await tern.generate(PROMPT, greedy).text(), /^ there was/);
  });
});

describe('loading on the CPU', {skip: missing('wasm/tern.wasm')}, () => {
  const options = {backend: 'cpu', threads: 1};

  test('progress, a shorter context', async () => {
    const seen = [];
    const tern = await Tern.load(MODEL, {...options, contextLength: 64, onProgress: (progress) => seen.push(progress)});
    assert.equal(tern.model.contextLength, 64);
    const {phase, loaded, total} = seen.at(-1);
    assert.deepEqual([phase, loaded], ['prepare', total]);
    const stream = tern.generate(PROMPT, {temperature: 0});
    await stream.text();
    assert.ok(['context full', 'end token'].includes((await stream.result).reason));
    await tern.dispose();
    await tern.dispose();
    await assert.rejects(tern.generate(PROMPT).text(), {
      code: 'INVALID_ARGUMENT',
      message: 'this Tern has been disposed of'
    });
    await assert.rejects(tern.tokenize('x'), {message: 'this Tern has been disposed of'});
  });

  test('disposing in the middle of a generation ends it', async () => {
    const tern = await Tern.load(MODEL, options);
    const stream = tern.generate(PROMPT, {temperature: 0, maxTokens: 500});
    const waiting = tern.tokenize('x');
    await assert.rejects(
      async () => {
        for await (const piece of stream) if (piece.id >= 0) await tern.dispose();
      },
      (error) => error instanceof TernError && /disposed of/.test(error.message)
    );
    assert.equal((await waiting).length, 1);
    await assert.rejects(stream.result, {code: 'INVALID_ARGUMENT'});
  });

  test('from a server, from a picked file: the same text', async (t) => {
    const bytes = await readFile(MODEL);
    const server = await serve({'/m.gguf': bytes});
    t.after(() => server.close());
    for (const source of [`${server.url}/m.gguf`, new File([bytes], 'm.gguf')]) {
      const tern = await Tern.load(source, options);
      assert.match(await tern.generate(PROMPT, greedy).text(), /^ there was a/);
      await tern.dispose();
    }
  });

  test('several threads give the same text', {skip: missing('wasm/tern-threads.wasm')}, async () => {
    const [one, three] = [await Tern.load(MODEL, options), await Tern.load(MODEL, {...options, threads: 3})];
    assert.equal(three.device.threads, 3);
    assert.equal(await three.generate(PROMPT, greedy).text(), await one.generate(PROMPT, greedy).text());
    await one.dispose();
    await three.dispose();
  });

  test('files that are no model, cut off, damaged', async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'tern-'));
    t.after(() => rm(folder, {recursive: true}));
    const bytes = await readFile(MODEL);
    const cases = {
      'text.gguf': [Buffer.from('Hello, I am no model at all.'), /GGUF/],
      'header.gguf': [bytes.subarray(0, 5000), /./],
      'half.gguf': [bytes.subarray(0, 1000000), /./],
      'tiny.gguf': [bytes.subarray(0, 3), /./]
    };
    for (const [name, [content, message]] of Object.entries(cases)) {
      await writeFile(join(folder, name), content);
      await assert.rejects(Tern.load(join(folder, name), options), (error) => {
        assert.equal(error.code, 'MALFORMED', `${name}: ${error.message}`);
        assert.match(error.message, message);
        return true;
      });
    }
  });

  test('wrong sources and options', async () => {
    const load = /** @type {any} */ (Tern.load);
    const cases = [
      [undefined, {}, 'INVALID_ARGUMENT', /source is undefined, expected "bundled"/],
      [{stored: 7}, {}, 'INVALID_ARGUMENT', /source\.stored is 7, expected the id/],
      [MODEL, {backend: 'cuda'}, 'INVALID_ARGUMENT', /backend is "cuda", expected "auto" or "webgpu" or "cpu"/],
      [MODEL, {threads: 0}, 'INVALID_ARGUMENT', /threads is 0/],
      [MODEL, {activations: 'f16'}, 'INVALID_ARGUMENT', /activations is "f16", expected "auto" or "int8" or "f32"/],
      [MODEL, {...options, contextLength: 5000}, 'INVALID_ARGUMENT', /5000 .*1024/],
      [MODEL, {bakend: 'cpu'}, 'INVALID_ARGUMENT', /Tern\.load: there is no option "bakend"/],
      [{stored: 'x'}, options, 'NO_STORAGE', /no private file system/],
      ['/no/such/model.gguf', options, 'NOT_FOUND', /\/no\/such\/model\.gguf cannot be opened/]
    ];
    for (const [source, given, code, message] of cases) await assert.rejects(load(source, given), {code, message});
    await assert.rejects(Tern.load(MODEL, {...options, signal: AbortSignal.abort()}), {code: 'CANCELLED'});
  });

  test('storage under Node is NO_STORAGE; probing never throws', async () => {
    await assert.rejects(Tern.storage.list(), {code: 'NO_STORAGE'});
    await assert.rejects(Tern.storage.delete('x'), {code: 'NO_STORAGE'});
    await assert.rejects(Tern.storage.estimate(), {code: 'NO_STORAGE'});
    const probe = await Tern.probe();
    assert.equal(probe.storage, false);
    assert.ok(probe.threads >= 1);
    if (!probe.webgpu) assert.ok(probe.reason && probe.message);
  });

  test('store: true under Node is said', async () => {
    const bytes = await readFile(MODEL);
    const tern = await Tern.load(new File([bytes], 'm.gguf'), {...options, store: true});
    assert.deepEqual(
      tern.notices.map(({code}) => code),
      ['NO_STORAGE']
    );
    await tern.dispose();
  });
});
