/** Messages above the conversation: errors with what can be done, and hints. */
import {$, h} from './dom.js';
import {explain} from './explain.js';

function close(box) {
  box.remove();
  if (document.activeElement === document.body) $('prompt').focus({preventScroll: true});
}

/**
 * Shows a message; one with the same key replaces the earlier one.
 * @param {string} key
 * @param {{title: string, text?: string, advice?: string, bad?: boolean,
 *   actions?: {label: string, run: () => void}[]}} what
 */
export function notice(key, what) {
  clear(key);
  const box = h('div', {class: what.bad ? 'notice bad' : 'notice', 'data-key': key});
  box.append(
    h(
      'div',
      {role: what.bad ? 'alert' : 'status'},
      h('p', {}, h('strong', {}, what.title)),
      what.text ? h('p', {class: 'text'}, what.text) : null,
      what.advice ? h('p', {class: 'small'}, what.advice) : null,
    ),
  );
  const buttons = h('div', {class: 'row'});
  for (const action of what.actions ?? [])
    buttons.append(
      h(
        'button',
        {
          type: 'button',
          onclick: () => {
            close(box);
            action.run();
          },
        },
        action.label,
      ),
    );
  buttons.append(
    h(
      'button',
      {type: 'button', class: 'quiet', onclick: () => close(box), 'aria-label': `Dismiss: ${what.title}`},
      'Dismiss',
    ),
  );
  box.append(buttons);
  $('notices').append(box);
}

/** Shows an error by its code. */
export function showError(key, error, actions = []) {
  console.info(`${error?.code ?? 'error'}: ${error?.message ?? error}`);
  notice(key, {...explain(error), bad: true, actions});
}

export function clear(key) {
  document.querySelector(`.notice[data-key="${key}"]`)?.remove();
}
