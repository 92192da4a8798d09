/**
 * A conversation as plain data: a tree of turns, of which one path is shown; what a model is asked with, how it is
 * written to a file. No document here.
 */

/**
 * @typedef {{user: string, reply: string, thoughts?: string, mode: 'chat' | 'complete', result?: any,
 *   stopped?: boolean, error?: {code: string, message: string}, children: Turn[], chosen: number}} Turn `children` are
 *   the turns that followed, `chosen` the place of the one that is shown; -1: none is
 * @typedef {{id: string, title: string, changed: number, root: {children: Turn[], chosen: number}}} Kept
 */

const TITLE = 60;

const newId = () => Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16)).join('');

export class Conversation {
  id = newId();
  title = '';
  changed = Date.now();
  root = {children: /** @type {Turn[]} */ ([]), chosen: -1};
  /** The message that is being edited: what it stands under, and which one was shown there. */
  #editing = null;

  /** @param {Kept} kept */
  static from({id, title, changed, root}) {
    return Object.assign(new Conversation(), {id, title, changed, root});
  }

  /** The path that is shown. @returns {Turn[]} */
  get turns() {
    const path = [];
    for (let node = this.root; node.children[node.chosen]; node = path.at(-1)) path.push(node.children[node.chosen]);
    return path;
  }

  get editing() {
    return this.#editing !== null;
  }

  #parentOf(turn) {
    return [this.root, ...this.turns].find((node) => node.children.includes(turn));
  }

  #put(parent, user, mode) {
    const turn = {user, reply: '', mode, children: [], chosen: -1};
    parent.chosen = parent.children.push(turn) - 1;
    this.title ||= user.trim().replace(/\s+/g, ' ').slice(0, TITLE);
    this.changed = Date.now();
    return turn;
  }

  /** After what is shown; in place of a message that is being edited. @param {string} user @returns {Turn} */
  add(user, mode) {
    this.#editing = null;
    return this.#put(this.turns.at(-1) ?? this.root, user, mode);
  }

  /** The same message once more, beside the earlier reply. @returns {Turn} */
  again(turn) {
    return this.#put(this.#parentOf(turn), turn.user, turn.mode);
  }

  /** Takes this turn and all after it out of sight, until another takes its place or `uncut`; gives its text. */
  cut(turn) {
    const parent = this.#parentOf(turn);
    if (!parent) return turn.user;
    this.uncut();
    this.#editing = {parent, chosen: parent.chosen};
    parent.chosen = -1;
    return turn.user;
  }

  uncut() {
    if (this.#editing) this.#editing.parent.chosen = this.#editing.chosen;
    this.#editing = null;
  }

  /** Which of the versions of this turn is shown, from 0 on, and how many there are. */
  versions(turn) {
    const {children, chosen} = this.#parentOf(turn) ?? {children: [turn], chosen: 0};
    return {at: chosen, n: children.length};
  }

  /** Shows the version before (-1) or after (1) this one. */
  step(turn, by) {
    const parent = this.#parentOf(turn);
    if (parent?.children[parent.chosen + by]) parent.chosen += by;
  }

  /** A conversation of its own with what is shown up to this turn. */
  branch(turn) {
    const other = new Conversation();
    for (const each of this.turns.slice(0, this.turns.indexOf(turn) + 1))
      Object.assign(other.add(each.user, each.mode), {...each, children: [], chosen: -1});
    other.title = `${this.title} (branch)`;
    return other;
  }

  /** To be kept. @returns {Kept} */
  data() {
    const {id, title, changed, root} = this;
    const editing = this.#editing;
    if (editing) editing.parent.chosen = editing.chosen;
    const copy = JSON.parse(JSON.stringify({id, title, changed, root}));
    if (editing) editing.parent.chosen = -1;
    return copy;
  }

  /** Messages for the reply to `turn`: the chat turns before it that have a reply, then it. */
  messages(turn, system) {
    const messages = system.trim() ? [{role: 'system', content: system.trim()}] : [];
    const path = this.turns;
    for (const earlier of path.slice(0, path.indexOf(turn))) {
      if (earlier.mode !== 'chat' || !earlier.reply) continue;
      const thinking = earlier.thoughts && {thinking: earlier.thoughts};
      messages.push({role: 'user', content: earlier.user}, {role: 'assistant', content: earlier.reply, ...thinking});
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

  /** For programs: the model, the settings, and all turns that are shown. */
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
