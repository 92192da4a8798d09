/** A conversation as plain data: turns, what a model is asked with, how it is written to a file. No document here. */

/**
 * @typedef {{user: string, reply: string, mode: 'chat' | 'complete', result?: any, stopped?: boolean,
 *   error?: {code: string, message: string}}} Turn
 */

export class Conversation {
  /** @type {Turn[]} */
  turns = [];

  /** @param {string} user @param {'chat' | 'complete'} mode @returns {Turn} */
  add(user, mode) {
    const turn = {user, reply: '', mode};
    this.turns.push(turn);
    return turn;
  }

  /** Takes this turn and all after it away; gives its text. */
  cut(turn) {
    const at = this.turns.indexOf(turn);
    if (at >= 0) this.turns.length = at;
    return turn.user;
  }

  /** Messages for the reply to `turn`: the chat turns before it that have a reply, then it. */
  messages(turn, system) {
    const messages = system.trim() ? [{role: 'system', content: system.trim()}] : [];
    for (const earlier of this.turns.slice(0, this.turns.indexOf(turn))) {
      if (earlier.mode !== 'chat' || !earlier.reply) continue;
      messages.push({role: 'user', content: earlier.user}, {role: 'assistant', content: earlier.reply});
    }
    return [...messages, {role: 'user', content: turn.user}];
  }

  /** As people read it. */
  text(system = '') {
    const parts = system.trim() ? [`System: ${system.trim()}`] : [];
    for (const turn of this.turns)
      parts.push(turn.mode === 'complete' ? turn.user + turn.reply : `You: ${turn.user}\n\nModel: ${turn.reply}`);
    return `${parts.join('\n\n')}\n`;
  }

  /** For programs: the model, the settings, and all turns. */
  json(about) {
    const turns = this.turns.map(({user, reply, mode, result, stopped, error}) => ({
      mode,
      ...(mode === 'chat' ? {user, assistant: reply} : {prompt: user, completion: reply}),
      ...(result ? {result} : {}),
      ...(stopped ? {stopped} : {}),
      ...(error ? {error} : {}),
    }));
    return `${JSON.stringify({...about, turns}, null, 2)}\n`;
  }
}
