/** Draws the conversation. While text streams only one text node grows, once for each frame. */
import {$, copyText, h} from './dom.js';
import {resultText} from './format.js';

const drawn = new Map();
let pending = null;

/** Wide pages scroll the transcript, narrow ones the document. */
const scrollers = () => [document.documentElement, $('transcript')];

const nearEnd = () => scrollers().every((box) => box.scrollHeight - box.scrollTop - box.clientHeight < 160);

/** Which version of this turn is shown, where there are several, and the way to the others. */
function versions(turn, actions) {
  const {at, n} = actions.versions(turn);
  if (n < 2) return null;
  const arrow = (label, text, by, disabled) =>
    h(
      'button',
      {type: 'button', class: 'quiet', disabled, 'aria-label': label, onclick: () => actions.step(turn, by)},
      text,
    );
  return h(
    'span',
    {class: 'versions small'},
    arrow('Earlier version', '‹', -1, at === 0),
    `${at + 1} of ${n}`,
    arrow('Later version', '›', 1, at === n - 1),
  );
}

function tools(turn, actions) {
  const last = actions.isLast(turn);
  const button = (label, run) => h('button', {type: 'button', class: 'quiet', onclick: run}, label);
  return h(
    'div',
    {class: 'row tools'},
    button('Copy', () => copyText(turn.mode === 'complete' ? turn.user + turn.reply : turn.reply)),
    button('Edit', () => actions.edit(turn)),
    last || turn.mode === 'complete' ? button('Regenerate', () => actions.regenerate(turn)) : null,
    turn.mode === 'complete' ? button('Continue', () => actions.goOn(turn)) : null,
    button('Branch', () => actions.branch(turn)),
    versions(turn, actions),
    h('span', {class: 'small'}, turn.result ? resultText(turn.result) : turn.stopped ? 'stopped' : ''),
  );
}

function draw(turn, actions) {
  const text = document.createTextNode(turn.reply);
  const thought = document.createTextNode(turn.thoughts ?? '');
  const hidden = !turn.thoughts;
  const thoughts = h('details', {class: 'thoughts small', hidden}, h('summary', {}, 'Thoughts'), thought);
  const chat = turn.mode === 'chat';
  const reply = h(
    'div',
    {class: actions.isWriting(turn) ? 'reply writing' : 'reply'},
    chat ? null : h('span', {class: 'given'}, turn.user),
    text,
  );
  const box = h(
    'article',
    {class: 'turn', 'aria-label': chat ? 'Message and reply' : 'Text'},
    chat ? h('div', {class: 'user'}, turn.user) : null,
    thoughts,
    reply,
  );
  if (!actions.isWriting(turn)) {
    if (turn.error) box.append(h('p', {class: 'small why'}, `Ended by an error: ${turn.error.message}`));
    box.append(tools(turn, actions));
  }
  drawn.set(turn, {text, reply, thought, thoughts});
  return box;
}

/** Draws everything anew. @param {import('./conversation.js').Conversation} conversation */
export function render(conversation, actions) {
  const stick = nearEnd();
  drawn.clear();
  $('transcript').replaceChildren(...conversation.turns.map((turn) => draw(turn, actions)));
  if (stick) toEnd();
}

export function toEnd() {
  for (const box of scrollers()) box.scrollTop = box.scrollHeight;
}

/** Shows what the turn's reply has become, with the next frame. */
export function grow(turn) {
  if (pending) return;
  pending = requestAnimationFrame(() => {
    pending = null;
    const place = drawn.get(turn);
    if (!place) return;
    const stick = nearEnd();
    place.text.data = turn.reply;
    place.thought.data = turn.thoughts ?? '';
    place.thoughts.hidden = !turn.thoughts;
    if (stick) toEnd();
  });
}
