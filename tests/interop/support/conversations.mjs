/** Conversations and tools of our own, as callers of a chat template give them. */
const user = (content) => ({role: 'user', content});
const assistant = (content) => ({role: 'assistant', content});
const system = (content) => ({role: 'system', content});

const TOOL = {
  type: 'function',
  function: {
    name: 'tide_table',
    description: 'Times of "high" and low water <at> a harbour, in l\'ordre & more.',
    parameters: {
      type: 'object',
      properties: {
        harbour: {type: 'string', description: 'Its name, such as "Brême"\nor another'},
        days: {type: 'integer', minimum: 1, default: 2, enum: [1, 2, 7]},
        metric: {type: 'boolean', default: true},
        factor: {type: 'number', default: 0.5},
        none: {default: null, items: [], extra: {}}
      },
      required: ['harbour']
    }
  }
};
const OTHER = {type: 'function', function: {name: 'clock', description: 'The time', parameters: {type: 'object'}}};
const PYTHON_TOOL = {
  name: 'tide_table',
  description: 'Times of high water',
  parameter_definitions: {
    harbour: {description: 'Its name', type: 'str', required: true},
    days: {description: 'How many', type: 'int', required: false}
  }
};
const call = (name, args) => ({id: 'abcdef123', type: 'function', function: {name, arguments: args}});
const answer = (content) => ({role: 'tool', name: 'tide_table', tool_call_id: 'abcdef123', content});
const asks = [
  user('When is high water?'),
  {role: 'assistant', content: '', tool_calls: [call('tide_table', {harbour: 'Brême', days: 2})]}
];
const asksText = {role: 'assistant', content: null, tool_calls: [call('tide_table', '{"harbour": "Cuxhaven"}')]};

const ALWAYS = {tools: null, documents: null, date_string: '15 Jun 2025', add_generation_prompt: false};

/** Each is [what it shows, the variables of the template]. */
export const CONVERSATIONS = [
  ['one turn', {messages: [user('Hello')]}],
  ['one turn, to be answered', {messages: [user('Hello')], add_generation_prompt: true}],
  ['system and user', {messages: [system('Be brief.'), user('Hello')], add_generation_prompt: true}],
  ['an empty system message', {messages: [system(''), user('Hello')], add_generation_prompt: true}],
  ['several turns', {
    messages: [
      system('Be\nbrief.\n'), user('  One?\n\n'), assistant(' Two. '), user('\tThree?'), assistant('Four.\n'),
      user('Five')
    ],
    add_generation_prompt: true
  }],
  ['an answer at the end', {messages: [user('a'), assistant('b')]}],
  ['lines, quotes, braces and scripts', {
    messages: [
      user('{{ x }} {% if %} "q" \'s\'\n<|im_end|> é 漢字 😀\r\n\ttab'), assistant('```js\n`${1}`\n```'), user('ok')
    ],
    add_generation_prompt: true
  }],
  ['thoughts', {
    messages: [user('a'), assistant('<think>\nhmm\n</think>\n\nb'), user('c'), assistant('<think>\nso\n</think>\n\nd')]
  }],
  ['thoughts of before', {
    messages: [user('a'), assistant('<think>\nhmm\n</think>\n\nb'), user('c')], add_generation_prompt: true
  }],
  ['reasoning apart', {
    messages: [user('a'), {role: 'assistant', content: 'b', reasoning_content: '\nhmm\n'}], enable_thinking: true
  }],
  ['no thinking', {messages: [user('a')], add_generation_prompt: true, enable_thinking: false}],
  ['content in parts', {
    messages: [user([{type: 'text', text: ' Look: '}, {type: 'image'}, {type: 'text', text: 'what?'}])],
    add_generation_prompt: true
  }],
  ['a system message in parts', {messages: [system([{type: 'text', text: 'Be brief.'}]), user('a')]}],
  ['two system messages', {messages: [system('One.'), system('Two.'), user('a'), assistant('b')]}],
  ['two user messages', {messages: [user('a'), user('b')]}],
  ['tools', {messages: [user('When?')], tools: [TOOL, OTHER], add_generation_prompt: true}],
  ['tools and a system message', {
    messages: [system('Be brief.'), user('When?')], tools: [TOOL], add_generation_prompt: true
  }],
  ['tools in the system message', {
    messages: [system('Be brief.'), user('When?')], tools: [TOOL, OTHER], tools_in_user_message: false,
    add_generation_prompt: true
  }],
  ['a call and its answer', {
    messages: [...asks, answer('{"high": ["04:12"]}')], tools: [TOOL], add_generation_prompt: true
  }],
  ['two answers', {messages: [...asks, answer('a'), answer('b'), assistant('At four.')], tools: [TOOL]}],
  ['an answer that is an object', {messages: [...asks, answer({high: ['04:12'], n: 3})], tools: [TOOL]}],
  ['a call whose arguments are text', {messages: [user('When?'), asksText, answer('x'), assistant('y'), user('z')]}],
  ['tools of another shape', {messages: [user(' When? ')], tools: [PYTHON_TOOL], add_generation_prompt: true}],
  ['documents', {
    messages: [user('When?')], documents: [{title: 'Tides', text: 'At four.'}, {title: 'T', text: '5'}],
    citation_mode: 'accurate', add_generation_prompt: true
  }],
  ['an unknown role', {messages: [user('a'), {role: 'narrator', content: 'b'}]}],
  ['no message', {messages: []}]
].map(([what, variables]) => [what, {...ALWAYS, ...variables}]);

/** On these the JavaScript departs from Python: it adds lists to text, reads what is undefined, '' equals false, and it
 * trims no null; of one template alone where its name stands in front. */
export const NOT_FOR_JAVASCRIPT = [
  'an empty system message', 'content in parts', 'a system message in parts', 'two user messages',
  'an answer that is an object', 'no message', 'llama3: a call whose arguments are text'
];

/** What templates by name are for: turns of a system (first), a user and an assistant. */
export const PLAIN = [
  'one turn', 'one turn, to be answered', 'system and user', 'an empty system message', 'several turns',
  'lines, quotes, braces and scripts'
];
