// Coding agents send these to the server, turn by turn: their fields and headers with texts of our own. Every request
// is taken, and what an earlier turn sent is not evaluated again.
import assert from 'node:assert/strict';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { startServer } from './support/server.mjs';

const PAGE = 32, TURNS = 6;
let server;

before(async () => {
    const template = join(dirname(fileURLToPath(import.meta.url)), 'support', 'hermes.jinja');
    server = await startServer(['--template', template, '--ctx', '1024']);
});
after(() => server?.stop());

const rules = 'You help with programs. Read a file before you change it. Say what you did in one line. '.repeat(4);
const parameters = { $schema: 'http://json-schema.org/draft-07/schema#', type: 'object', properties: {
    command: { type: 'string', description: 'a line of the shell' }, timeout: { type: 'number', minimum: 0 },
    paths: { type: 'array', items: { type: 'string' } } }, required: ['command'], additionalProperties: false };
const names = ['shell', 'read_file', 'edit_file', 'update_plan'];
const result = (turn) => `line ${turn} of the file: the fox ran over the hill. `.repeat(3);

/** Sends a stream, and gives its events' data. */
async function send(path, headers, body) {
    const answer = await fetch(server.url + path, { method: 'POST', headers: { 'content-type': 'application/json',
        ...headers }, body: JSON.stringify(body) });
    const text = await answer.text();
    assert.equal(answer.status, 200, text.slice(0, 500));
    return text.split('\n').filter((line) => line.startsWith('data: {')).map((line) => JSON.parse(line.slice(6)));
}

/** Each turn's prompt holds the one before it: all of its whole pages are found. */
function checkTurns(turns) {
    assert.equal(turns.length, TURNS);
    for (let i = 1; i < turns.length; i++) {
        assert.ok(turns[i].n > turns[i - 1].n, JSON.stringify(turns));
        assert.ok(turns[i].cached >= turns[i - 1].n - 2 * PAGE, `turn ${i}: ${JSON.stringify(turns)}`);
    }
}

test('Codex: /v1/responses, without conversations on the server', async () => {
    const part = (role, type, text) => ({ type: 'message', role, content: [{ type, text }] });
    const input = [part('developer', 'input_text', 'Commands run without asking.'), part('user', 'input_text',
        'The folder is /tmp, the shell is bash.'), part('user', 'input_text', 'Where is the fox?')];
    const tools = names.map((name) => ({ type: 'function', name, description: `runs ${name}`, strict: false,
        parameters }));
    tools.push({ type: 'namespace', name: 'agents', description: 'Helpers.', tools: [{ type: 'function',
        name: 'spawn', description: 'starts a helper', strict: false, parameters }] });
    const turns = [];
    for (let i = 0; i < TURNS; i++) {
        const events = await send('/v1/responses', { authorization: 'Bearer none', accept: 'text/event-stream',
            originator: 'codex_cli_rs', session_id: '7c1d', version: '0.1' }, { model: 'stories', instructions: rules,
            input, tools, tool_choice: 'auto', parallel_tool_calls: false, reasoning: { effort: 'medium',
                summary: 'auto' }, store: false, stream: true, include: ['reasoning.encrypted_content'],
            prompt_cache_key: '7c1d', text: { verbosity: 'low' }, client_metadata: { installation: 'a' },
            max_output_tokens: 8 });
        const { response } = events.at(-1);
        turns.push({ n: response.usage.input_tokens, cached: response.usage.input_tokens_details.cached_tokens });
        input.push({ type: 'reasoning', summary: [], content: null, encrypted_content: null }, { type: 'message',
            role: 'assistant', content: [{ type: 'output_text', text: 'I look.' }] }, { type: 'function_call',
            ...(i % 2 ? { name: 'spawn', namespace: 'agents' } : { name: 'shell' }), call_id: `call_${i}`,
            arguments: JSON.stringify({ command: `sed -n ${i}p a.txt` }) }, { type: 'function_call_output',
            call_id: `call_${i}`, output: result(i) });
    }
    checkTurns(turns);
});

test('tools of a namespace are called, named and refused with it', async () => {
    const tool = { type: 'function', name: 'spawn', parameters: { type: 'object', properties: { n: { type:
        'integer' } }, required: ['n'], additionalProperties: false } };
    const space = { type: 'namespace', name: 'agents', description: 'Helpers.', tools: [tool] };
    const body = { model: 'stories', input: 'Where is the fox?', tools: [{ ...tool, name: 'shell' }, space],
        tool_choice: { type: 'function', name: 'spawn', namespace: 'agents' }, parallel_tool_calls: false,
        max_output_tokens: 400 };
    const post = async (more) => (await fetch(`${server.url}/v1/responses`, { method: 'POST',
        body: JSON.stringify({ ...body, ...more }) })).json();
    const answer = await post({});
    const [call] = answer.output;
    assert.deepEqual([call.type, call.name, call.namespace], ['function_call', 'spawn', 'agents']);
    assert.deepEqual(answer.tool_choice, body.tool_choice);
    assert.deepEqual(answer.tools.map(({ type, name }) => `${type} ${name}`), ['function shell', 'namespace agents']);
    assert.deepEqual(answer.tools[1].tools.map(({ name }) => name), ['spawn']);
    const events = await send('/v1/responses', {}, { ...body, stream: true });
    const items = events.filter(({ item }) => item?.type === 'function_call').map(({ item }) => item);
    assert.equal(items.length, 2);
    for (const { name, namespace } of items) assert.deepEqual([name, namespace], ['spawn', 'agents']);
    for (const [more, words] of [[{ tools: [{ ...space, tools: [{ type: 'custom', name: 'a' }] }] },
        'tools[0]: the type "custom" found, "function" in its namespace expected'], [{ tools: [{ ...space, name: 7 }] },
        'tools[0]: the name: 7 found, a text of 1 to 255 bytes expected'], [{ tools: [{ type: 'web_search' }] },
        'tools[0]: the type "web_search" found, "function" or "namespace" expected'],
    [{ tools: [{ ...space, tools: 'spawn' }] }, 'tools[0]: the tools: "spawn" found, a list of functions expected'],
    [{ tools: ['a', 'b'].map((name) => ({ ...space, name, tools: Array.from({ length: 200 }, (_, n) => ({ ...tool,
        name: `f${n}` })) })) }, 'tools: more than 256 found, at most 256 expected'],
    [{ tools: [{ ...tool, name: 'agents__spawn' }, space] }, 'tools[1]: "agents__spawn" is the name of two tools'],
    [{ tools: [space, { ...tool, name: 'agents__spawn' }] }, 'tools[1]: "agents__spawn" is the name of two tools'],
    [{ tools: [{ ...space, name: 'a', tools: [{ ...tool, name: 'b__c' }] }, { ...space, name: 'a__b', tools: [{ ...tool,
        name: 'c' }] }] }, 'tools[1]: "a__b__c" is the name of two tools'],
    [{ tools: [{ ...space, tools: [{ ...tool, name: '' }] }] }, 'tools[0]: the name: "" found, a text of 1 to 255'],
    [{ tools: [{ ...space, tools: [{ ...tool, name: 'f\u0000g' }] }] }, 'tools[0]: the name: "f'],
    [{ tool_choice: { type: 'function', name: 'spawn' } }, 'tool_choice: no tool is called "spawn"']]) {
        const { error } = await post(more);
        assert.ok(error.message.includes(words), error.message);
    }
});

test('Claude Code: /v1/messages with blocks, marks for a cache and thoughts', async () => {
    const cache = { cache_control: { type: 'ephemeral' } };
    const messages = [{ role: 'user', content: [{ type: 'text', text: 'The folder is /tmp.' }, { type: 'text',
        text: 'Where is the fox?', ...cache }] }];
    const tools = names.map((name) => ({ name, description: `runs ${name}`, input_schema: parameters }));
    const headers = { 'x-api-key': 'none', 'anthropic-version': '2023-06-01', 'anthropic-beta':
        'interleaved-thinking-2025-05-14,context-management-2025-06-27', 'x-app': 'cli' };
    const turns = [];
    for (let i = 0; i < TURNS; i++) {
        const body = { model: 'stories', messages, system: [{ type: 'text', text: 'It is an agent.' }, { type: 'text',
            text: rules, ...cache }], tools, metadata: { user_id: 'user_1_session_2' }, max_tokens: 32000,
        thinking: { type: 'adaptive' }, context_management: { edits: [{ type: 'clear_thinking_20251015',
            keep: 'all' }] }, output_config: { effort: 'medium' }, temperature: 1, stream: true };
        const { input_tokens: counted } = await (await fetch(`${server.url}/v1/messages/count_tokens?beta=true`,
            { method: 'POST', headers, body: JSON.stringify({ model: body.model, messages, tools,
                system: body.system }) })).json();
        const events = await send('/v1/messages?beta=true', headers, { ...body, stop_sequences: ['.', ' '] });
        const { usage } = events.findLast((event) => event.type === 'message_delta');
        assert.ok(Math.abs(usage.input_tokens + usage.cache_read_input_tokens - counted) <= 64);
        turns.push({ n: usage.input_tokens + usage.cache_read_input_tokens, cached: usage.cache_read_input_tokens });
        messages.push({ role: 'assistant', content: [{ type: 'thinking', thinking: 'Where?', signature: '' },
            { type: 'text', text: 'I look.' }, { type: 'tool_use', id: `toolu_${i}`, name: 'read_file', input: {
                command: `a ${i}` } }] }, { role: 'user', content: [{ type: 'tool_result', tool_use_id: `toolu_${i}`,
            content: [{ type: 'text', text: result(i) }], is_error: false, ...cache }, { type: 'text',
            text: 'Go on.' }] });
    }
    checkTurns(turns);
});

test('agents of chat completions: Qwen Code, OpenCode, Cline, Continue', async () => {
    const messages = [{ role: 'system', content: rules }, { role: 'user', content: [{ type: 'text',
        text: 'The folder is /tmp.' }, { type: 'text', text: 'Where is the fox?' }] }];
    const tools = names.map((name) => ({ type: 'function', function: { name, description: `runs ${name}`,
        parameters } }));
    const turns = [];
    for (let i = 0; i < TURNS; i++) {
        const events = await send('/v1/chat/completions', { authorization: 'Bearer none' }, { model: 'stories',
            messages, tools, tool_choice: 'auto', parallel_tool_calls: true, temperature: 0, top_p: 1,
            max_tokens: 8, stream: true, stream_options: { include_usage: true }, reasoning_effort: 'medium',
            metadata: { session: 'a' }, store: false, prompt_cache_key: 'a' });
        const { usage } = events.findLast((event) => event.usage);
        turns.push({ n: usage.prompt_tokens, cached: usage.prompt_tokens_details.cached_tokens });
        messages.push({ role: 'assistant', content: i % 2 ? '' : null, reasoning_content: 'Where?', tool_calls: [{
            id: `call_${i}`, type: 'function', index: 0, function: { name: 'shell', arguments: JSON.stringify({
                command: `sed -n ${i}p a.txt` }) } }] }, { role: 'tool', tool_call_id: `call_${i}`,
            content: i % 2 ? result(i) : [{ type: 'text', text: result(i) }] });
    }
    checkTurns(turns);
});

test('edits of a context that would change messages are refused by name', async () => {
    for (const edit of [{ type: 'clear_tool_uses_20250919' }, { type: 'clear_thinking_20251015' },
        { type: 'clear_thinking_20251015', keep: { type: 'thinking_turns', value: 1 } }, 7]) {
        const answer = await fetch(`${server.url}/v1/messages`, { method: 'POST', body: JSON.stringify({ max_tokens: 1,
            messages: [{ role: 'user', content: 'a' }], context_management: { edits: [edit] } }) });
        assert.equal(answer.status, 400);
        const { error } = await answer.json();
        assert.equal(error.type, 'invalid_request_error');
        assert.match(error.message, /^context_management: not supported, .* with keep "all"$/);
    }
});
