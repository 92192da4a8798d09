/** Published chat templates as Tern renders them, against Jinja2 with transformers' settings and Hugging Face's
 * JavaScript. */
import assert from 'node:assert/strict';
import {after, describe, test} from 'node:test';
import {CONVERSATIONS, NOT_FOR_JAVASCRIPT, PLAIN} from './support/conversations.mjs';
import {absent, openJinja, Peer} from './support/tern.mjs';

const skip = absent();
const {TEMPLATES} = skip ? {TEMPLATES: []} : await import('./support/vocabularies.mjs');
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
      test(`${what}, by JavaScript`, {skip: NOT_FOR_JAVASCRIPT.includes(what)}, async () => {
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
  'mistral-tekken': 'mistral_nemo',
  deepseek: 'deepseek_v3',
  'command-r': 'command_r_plus/default'
};

describe('templates by name', {skip: skip || !jinja}, () => {
  for (const [name, published] of Object.entries(NAMED))
    test(`${name} is as ${published}`, async () => {
      const [, source, bos, eos] = TEMPLATES.find(([theirs]) => theirs === published);
      const {text: own} = await peer.ask({builtin: name});
      for (const [what, variables] of CONVERSATIONS.filter(([what]) => PLAIN.includes(what))) {
        const theirs = await jinja.ask({template: source, bos, eos, variables});
        assert.equal(await peer.text({template: own, bos, eos, variables}), theirs.text, what);
      }
    });
});

if (skip) test('chat templates', {skip});
