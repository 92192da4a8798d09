/** Answers of a model that may call tools: the calls are taken out of what it writes. */
import {TernError} from './errors.js';
import {generate} from './generation.js';

class CallReader {
  constructor(engine) {
    this.core = engine.core;
    this.handle = this.core.open('tools_open', engine.handle);
    this.calls = [];
  }

  /** What of the text is for the reader. */
  read(text, last = false) {
    const found = this.core.memory.withString(text, (at, n) =>
      this.core.ask('tools_add', this.handle, at, n, last ? 1 : 0)
    );
    this.calls = found.calls;
    return found.content;
  }

  close() {
    if (!this.core.stopped) this.core.call('tools_close', this.handle);
  }
}

/** The option of the core that forces a call; none with "auto". */
function forced(tools, toolChoice, parallel) {
  if (toolChoice === 'auto') return {};
  const name = toolChoice === 'required' ? null : toolChoice.name;
  return {tools: {list: tools, name, parallel}};
}

/**
 * @param {import('./engine.js').Engine} engine
 * @returns {AsyncGenerator<import('./index.js').Piece, import('./index.js').Result>}
 */
export async function* chatWithTools(engine, messages, {tools, toolChoice, parallelToolCalls, ...options}) {
  if (!engine.model.hasTools)
    throw new TernError('UNSUPPORTED', `the chat template of ${engine.model.name} does not know tools`);
  const reader = new CallReader(engine);
  try {
    const how = {...options, ...forced(tools, toolChoice, parallelToolCalls), showSpecial: true};
    const pieces = generate(engine, engine.chatPrompt(messages, tools), how);
    for (;;) {
      const {done, value} = await pieces.next();
      const text = reader.read(done ? '' : value.text, done);
      if (text || (!done && value.token !== undefined)) yield {...(done ? {id: -1} : value), text};
      if (done) return {...value, toolCalls: parallelToolCalls ? reader.calls : reader.calls.slice(0, 1)};
    }
  } finally {
    reader.close();
  }
}
