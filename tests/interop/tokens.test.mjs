/** Tern's token ids of published vocabularies against Hugging Face's tokenizers, and of GGUF files that Tern made of
 * them against llama.cpp. */
import assert from 'node:assert/strict';
import {rmSync} from 'node:fs';
import {join} from 'node:path';
import {after, before, describe, test} from 'node:test';
import {randomTexts, random, TEXTS} from './support/corpus.mjs';
import {absent, Peer, scratch} from './support/tern.mjs';

const skip = absent();
const SEED = Number(process.env.TERN_TEST_SEED ?? 1);
const N_RANDOM = process.env.TERN_TEST_QUICK ? 50 : 200;
const {VOCABULARIES, openTokenizer, readTokenizer, vocabularyDir} = skip ? {VOCABULARIES: {}} :
  await import('./support/vocabularies.mjs');
const {openLlama, llamaIds} = skip ? {} : await import('./support/llama.mjs');

const show = (text) => JSON.stringify(text.length > 80 ? text.slice(0, 80) + '…' : text);
const composes = (json) => JSON.stringify(json.normalizer ?? '').includes('"NFC"');
const bytesOfPieces = (json) => JSON.stringify(json.pre_tokenizer ?? '').includes('"ByteLevel"');

/** What the JavaScript port does otherwise than the library that it ports: its "Digits" are ASCII's. */
const isPorted = (json, text) => !JSON.stringify(json.pre_tokenizer ?? '').includes('"Digits"') ||
  !/(?![0-9])\p{N}/u.test(text);

/** What llama.cpp does otherwise than tokenizer.json: it composes nothing, and has patterns of its own for upper and
 * lower case with marks. */
const forLlama = (json, text) => (composes(json) ? text.normalize('NFC') : text);
const isForLlama = (json, text) =>
  !JSON.stringify(json.pre_tokenizer ?? '').includes('\\\\p{Lo}\\\\p{M}]') || !/\p{M}/u.test(text);

/** Text that uses the special tokens of a vocabulary, with and without blanks around them. */
function specialTexts(json) {
  const special = json.added_tokens.map((token) => token.content);
  const some = [...special.slice(0, 12), ...special.slice(-6)];
  return [some.join(''), some.join(' '), `a ${some.join(' b ')}\n`, ...some.map((token) => `x${token}\ny`)];
}

const peer = skip ? null : new Peer();
after(() => peer?.close());

for (const [name, pre] of Object.entries(VOCABULARIES)) {
  describe(name, () => {
    const file = join(scratch(), `${name}.gguf`);
    const json = readTokenizer(name);
    let theirs, texts, ofPieces;

    before(async () => {
      theirs = openTokenizer(name);
      const {size} = await peer.ask({open: vocabularyDir(name)});
      const pick = (_, i) => theirs.decode([(i * 7919) % size], {skip_special_tokens: false});
      ofPieces = randomTexts(SEED, N_RANDOM, Array.from({length: 2000}, pick));
      texts = [...TEXTS, ...specialTexts(json), ...randomTexts(SEED + 1, N_RANDOM), ...ofPieces];
    });

    test(`ids and text are those of Hugging Face's tokenizers (seed ${SEED})`, async () => {
      for (const text of texts.filter((text) => isPorted(json, text))) {
        const expected = [...theirs.encode(text, {add_special_tokens: false}).ids];
        const {ids} = await peer.ask({encode: text, special: true});
        assert.deepEqual(ids, expected, show(text));
        const shown = bytesOfPieces(json);
        if (!shown && (!ids.length || /[<[]/.test(text))) continue; // Tern hides all that looks like markup
        const same = shown
          ? composes(json) ? text.normalize('NFC') : text
          : theirs.decode(expected, {skip_special_tokens: true, clean_up_tokenization_spaces: false});
        assert.equal(await peer.text({decode: ids, special: shown}), same, show(text));
      }
    });

    test('any bytes come back, and special tokens that a text spells are text', async () => {
      const next = random(SEED);
      for (let i = 0; i < 50; i++) {
        const bytes = Buffer.from(Array.from({length: Math.floor(next() * 40)}, () => Math.floor(next() * 256)));
        const {ids} = await peer.ask({encode_hex: bytes.toString('hex')});
        const back = await peer.bytes({decode: ids, special: false});
        if (bytesOfPieces(json) && !composes(json)) assert.deepEqual(back, bytes, bytes.toString('hex'));
      }
      const controls = new Set(json.added_tokens.filter((token) => token.special).map((token) => token.id));
      for (const text of specialTexts(json)) {
        const {ids} = await peer.ask({encode: text, special: false});
        assert.deepEqual(ids.filter((id) => controls.has(id)), [], show(text));
      }
    });

    test('the GGUF file gives the same ids, in Tern and in llama.cpp', async () => {
      const expected = [];
      for (const text of texts) expected.push((await peer.ask({encode: text, special: true})).ids);
      await peer.ask({gguf: file});
      await peer.ask({open: file});
      for (const [i, text] of texts.entries())
        assert.deepEqual((await peer.ask({encode: text, special: true})).ids, expected[i], show(text));
      const model = await (await openLlama()).loadModel({modelPath: file, vocabOnly: true});
      assert.equal(model.fileInfo.metadata.tokenizer.ggml.pre, pre);
      const mergesAll = pre === 'gpt-4o' && json.model.ignore_merges; // it knows this pattern with merges alone
      for (const text of texts.filter((text) => isForLlama(json, text))) {
        if (mergesAll && ofPieces.includes(text)) continue;
        const given = forLlama(json, text);
        const {ids} = await peer.ask({encode: given, special: true});
        assert.deepEqual(llamaIds(model, given, true), ids, show(given));
      }
      await model.dispose();
      rmSync(file);
    });
  });
}

if (skip) test('token ids', {skip});
