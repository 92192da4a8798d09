/** The list of conversations: open one, delete one. */
import {$, announce, h} from './dom.js';
import * as history from './history.js';

/** Where the tab remembers what was open, so that a reload shows it again. */
const OPEN = 'tern-conversation';

function remembered() {
  try {
    return sessionStorage.getItem(OPEN);
  } catch {
    return null;
  }
}

export function remember(id) {
  try {
    sessionStorage.setItem(OPEN, id);
  } catch {
    /* no storage: not remembered */
  }
}

/** The conversation that this tab had open, or undefined. */
export async function last() {
  const id = remembered();
  return id ? history.get(id) : undefined;
}

async function remove(kept, actions) {
  if (!confirm(`Delete the conversation "${kept.title}"?`)) return;
  await history.remove(kept.id);
  announce('The conversation was deleted');
  await actions.removed(kept.id);
}

function item(kept, actions) {
  const here = kept.id === actions.current();
  return h(
    'li',
    {class: 'row one'},
    h(
      'button',
      {
        type: 'button',
        class: 'entry',
        'aria-current': here ? 'true' : null,
        onclick: async () => actions.open(await history.get(kept.id)),
      },
      kept.title,
      h('span', {class: 'small'}, new Date(kept.changed).toLocaleDateString()),
    ),
    h(
      'button',
      {
        type: 'button',
        class: 'quiet danger',
        'aria-label': `Delete the conversation ${kept.title}`,
        onclick: () => remove(kept, actions),
      },
      'Delete',
    ),
  );
}

/** Draws the list anew. */
export async function refresh(actions) {
  const all = await history.list();
  const none = h('li', {class: 'small'}, 'None yet: each is kept here, in this browser alone.');
  $('conversations').replaceChildren(...(all.length ? all.map((kept) => item(kept, actions)) : [none]));
}
