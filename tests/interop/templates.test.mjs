/** Published chat templates as Tern renders them, against Jinja2 with transformers' settings and Hugging Face's
 * JavaScript. */
import assert from 'node:assert/strict';
import {after, describe, test} from 'node:test';
import {CONVERSATIONS, NOT_FOR_JAVASCRIPT, PLAIN} from './support/conversations.mjs';
import {absent, openJinja, Peer} from './support/tern.mjs';

const skip = absent();
const {TEMPLATES, vocabularyDir} = skip ? {TEMPLATES: []} : await import('./support/vocabularies.mjs');
const {Template} = skip ? {} : await import('@huggingface/jinja');
const peer = skip ? null : new Peer();
const jinja = skip ? null : openJinja();
after(() => {
  peer?.close();
  jinja?.close();
});

/** The text, or why there is none. */
async function attempt(render) {
  try {
    return {text: await render()};
  } catch (error) {
    return {error: error.message};
  }
}

const same = (ours, theirs) => assert.equal(ours.text, theirs.text, ours.error ?? theirs.error);

for (const [name, source, bos, eos] of TEMPLATES) {
  describe(name, () => {
    const template = new Template(source);
    let rendered = 0;
    for (const [what, variables] of CONVERSATIONS) {
      const ask = {template: source, bos, eos, variables};
      test(`${what}, by Jinja2`, {skip: jinja ? false : 'python3 has no jinja2'}, async () => {
        const ours = await attempt(() => peer.text(ask));
        same(ours, await attempt(async () => (await jinja.ask(ask)).text));
        if (ours.text !== undefined) rendered++;
      });
      const departs = NOT_FOR_JAVASCRIPT.includes(what) || NOT_FOR_JAVASCRIPT.includes(`${name}: ${what}`);
      test(`${what}, by JavaScript`, {skip: departs}, async () => {
        const theirs = () => template.render({...variables, bos_token: bos, eos_token: eos});
        same(await attempt(() => peer.text(ask)), await attempt(theirs));
      });
    }
    test('some of them render', {skip: !jinja}, () => assert.ok(rendered > 0));
  });
}

/** Templates by name beside the published ones, on the plain conversations that both are for. */
const NAMED = {
  chatml: 'gpt4',
  qwen: 'qwen3',
  gemma: 'gemma3',
  llama3: 'llama3',
  'mistral-tekken': 'mistral_nemo',
  deepseek: 'deepseek_v3',
  'command-r': 'command_r_plus/default'
};

/** [published vocabulary, architecture, the template by name that such a model gets if its file has none, whether the
 * published one is compared]. Gemma 2, LLaMA 2 and Phi-4's vocabularies come without a template; LLaMA 3.2's adds the
 * date; BitNet 2B4T has LLaMA 3's vocabulary and a template of its own. */
const FAMILIES = [
  ['gemma2', 'gemma2', 'gemma'],
  ['gemma3', 'gemma3', 'gemma', true],
  ['llama2', 'llama', 'llama2'],
  ['llama3', 'llama', 'llama3', true],
  ['llama3', 'bitnet-b1.58', 'bitnet'],
  ['llama3_2', 'llama', 'llama3'],
  ['mistral_nemo', 'llama', 'mistral-tekken', true],
  ['qwen2_5', 'qwen2', 'chatml', true],
  ['qwen3', 'qwen3', 'qwen', true],
  ['qwen3', 'qwen3moe', 'qwen', true],
  ['qwen3', 'maple', 'qwen', true],
  ['gpt4', 'llama', 'chatml', true],
  ['gptoss', 'gpt-oss', null],
  ['deepseek_v3', 'llama', null],
  ['gpt2', 'llama', null]
];

/** Where there is no system message, Qwen 2.5's template writes one of its own; LLaMA 3's always asks for an answer. */
const DEPARTS = {
  qwen2_5: ({messages}) => messages[0].role !== 'system',
  llama3: ({add_generation_prompt: asked}) => !asked
};

async function compare(name, published) {
  const [, source, bos, eos] = TEMPLATES.find(([theirs]) => theirs === published);
  const {text: own} = await peer.ask({builtin: name});
  const plain = CONVERSATIONS.filter(([what, variables]) => PLAIN.includes(what) && !DEPARTS[published]?.(variables));
  assert.ok(plain.length > 2);
  for (const [what, variables] of plain) {
    const theirs = await jinja.ask({template: source, bos, eos, variables});
    assert.equal(await peer.text({template: own, bos, eos, variables}), theirs.text, what);
  }
}

describe('templates of families', {skip: skip || !jinja}, () => {
  for (const [vocabulary, family, name, compared] of FAMILIES)
    test(`${family} with the vocabulary ${vocabulary}: ${name}`, async () => {
      await peer.ask({open: vocabularyDir(vocabulary)});
      assert.equal((await peer.ask({family})).name, name);
      if (compared) await compare(name, vocabulary);
    });
});

describe('templates by name', {skip: skip || !jinja}, () => {
  for (const [name, published] of Object.entries(NAMED))
    test(`${name} is as ${published}`, () => compare(name, published));
});

if (skip) test('chat templates', {skip});
