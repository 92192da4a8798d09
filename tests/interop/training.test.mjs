/** What is learned of conversations with published chat templates, against what Jinja2 renders of each answer. */
import assert from 'node:assert/strict';
import {after, describe, test} from 'node:test';
import {absent, openJinja, Peer} from './support/tern.mjs';

const skip = absent();
const {TEMPLATES, vocabularyDir} = skip ? {TEMPLATES: []} : await import('./support/vocabularies.mjs');
const peer = skip ? null : new Peer();
const jinja = skip ? null : openJinja();
after(() => {
  peer?.close();
  jinja?.close();
});

const user = (content) => ({role: 'user', content});
const assistant = (content, more = {}) => ({role: 'assistant', content, ...more});
const call = (zone) => ({
  tool_calls: [{type: 'function', function: {name: 'clock', arguments: {zone}}, id: 'abcdef123'}]
});
const result = (content) => ({role: 'tool', tool_call_id: 'abcdef123', name: 'clock', content});
const tools = [{
  type: 'function',
  function: {name: 'clock', description: 'The time', parameters: {type: 'object', properties: {}}}
}];

/** Lines of training data; each text of a user and a tool is found once. */
const LINES = {
  'one answer': {messages: [user('Hi'), assistant('Hello.')]},
  'three answers': {
    messages: [
      user('Hi'), assistant('Hello.'), user('And you?'), assistant('Fine.'), user('Bye now'), assistant('Bye.')
    ]
  },
  'a system message': {
    messages: [{role: 'system', content: 'Be kind.'}, user('Hi'), assistant('Hello.'), user('So?'), assistant('So.')]
  },
  'thoughts in each answer': {
    messages: [
      user('1+1?'), assistant('<think>\none and one\n</think>\n\n2'), user('2+2?'),
      assistant('<think>\ntwo and two\n</think>\n\n4')
    ]
  },
  'reasoning apart': {
    messages: [
      user('1+1?'), assistant('2', {reasoning_content: 'one and one'}), user('2+2?'),
      assistant('4', {reasoning_content: 'two and two'})
    ]
  },
  'calls of two turns': {
    tools,
    messages: [
      user('Time?'), assistant('', call(1)), result('12:00'), assistant('Noon.'), user('And there?'),
      assistant('', call(2)), result('13:00'), assistant('One.')
    ]
  }
};

/** By template: the token that ends an answer. Command R+ and DeepSeek V3 are rendered too: theirs is EOS. */
const ENDS = {
  gemma3: '<end_of_turn>', qwen3: '<|im_end|>', qwen2_5: '<|im_end|>', gpt4: '<|im_end|>', llama3: '<|eot_id|>',
  llama3_2: '<|eot_id|>'
};

/** What each template cannot show of a line, as the error names it. */
const REFUSED = {
  gemma3: {'reasoning apart': /reasoning_content/, 'calls of two turns': /tool_calls|roles must alternate/},
  gpt4: {'reasoning apart': /reasoning_content/, 'calls of two turns': /tool_calls/},
  qwen2_5: {'reasoning apart': /reasoning_content/},
  llama3: {'reasoning apart': /reasoning_content/, 'calls of two turns': /tool_calls/},
  llama3_2: {'reasoning apart': /reasoning_content/},
  mistral_nemo: {'reasoning apart': /reasoning_content/},
  deepseek_v3: {'reasoning apart': /reasoning_content/, 'calls of two turns': /tool_calls/},
  'command_r_plus/default': {'reasoning apart': /reasoning_content/, 'calls of two turns': /tool_calls/}
};

const indexAfter = (text, mark, before) => {
  const at = text.lastIndexOf(mark, before);
  return at < 0 ? -1 : at + mark.length;
};

/** [[text, learned]]: each answer as it is rendered when it is the last, the turns before it as they are when it is
 * asked for. */
async function expected(ask, line, end) {
  const {messages, ...beside} = line;
  const render = async (n, prompt) => (await jinja.ask({
    ...ask, variables: {...beside, messages: messages.slice(0, n), add_generation_prompt: prompt}
  })).text;
  const parts = [];
  let last = -1;
  for (const [i, {role, content}] of messages.entries()) {
    if (role !== 'assistant') continue;
    const prompt = await render(i, true);
    const whole = await render(i + 1, false);
    /* Mistral Nemo's drops the system message once there is an answer */
    const begins = whole.startsWith(prompt) ? prompt.length : whole.lastIndexOf(content);
    const to = indexAfter(whole, end, Infinity);
    const from = last < 0 ? 0 : indexAfter(prompt, end, prompt.lastIndexOf(messages[last + 1].content));
    parts.push([prompt.slice(from), false], [whole.slice(begins, to), true]);
    if (i + 1 === messages.length && to < whole.length) parts.push([whole.slice(to), false]);
    last = i;
  }
  return parts;
}

for (const [name, template, bos, eos] of TEMPLATES) {
  if (name.includes('/') && !name.endsWith('/default')) continue;
  describe(name, {skip: jinja ? false : 'python3 has no jinja2'}, () => {
    for (const [what, line] of Object.entries(LINES))
      test(what, async () => {
        await peer.ask({open: vocabularyDir(name.split('/')[0])});
        const learn = () => peer.ask({document: line, template});
        const why = REFUSED[name]?.[what];
        if (why) return assert.rejects(learn, why);
        const {parts} = await learn();
        assert.deepEqual(parts, await expected({template, bos, eos}, line, ENDS[name] ?? eos));
      });
  });
}

test('thoughts in each answer, by the template qwen', {skip: skip || !jinja}, async () => {
  await peer.ask({open: vocabularyDir('qwen3')});
  const {text: template} = await peer.ask({builtin: 'qwen'});
  const line = LINES['thoughts in each answer'];
  const {parts} = await peer.ask({document: line, template});
  assert.deepEqual(parts, await expected({template, bos: '', eos: ''}, line, ENDS.qwen3));
});

if (skip) test('training data', {skip});
