/** The LoRA adapters that lie in this browser: use, delete. */
import {Tern} from '../lib/index.js';
import {addAdapter} from './adapters.js';
import {app} from './app.js';
import {$, announce, h} from './dom.js';
import {bytes} from './format.js';
import * as notices from './notices.js';

/** Keeps an adapter under a name that the person may change. @returns {Promise<boolean>} whether it is kept */
export async function keep(source, suggested) {
  const name = prompt('Name of the adapter in this browser', suggested)?.trim();
  if (!name || !app.tern) return false;
  notices.clear('adapter');
  try {
    await app.tern.storeLora(source, {name});
    announce(`The adapter ${name} is kept`);
    return true;
  } catch (error) {
    notices.showError('adapter', error);
    return false;
  }
}

async function remove(adapter) {
  if (!confirm(`Delete the adapter ${adapter.name} (${bytes(adapter.bytes)}) from this browser?`)) return;
  try {
    await Tern.adapters.delete(adapter.name);
    announce(`The adapter ${adapter.name} was deleted`);
  } catch (error) {
    notices.showError('adapter', error);
  }
  await refreshKept();
}

function button(label, name, disabled, onclick) {
  return h('button', {type: 'button', class: 'quiet', disabled, 'aria-label': `${label} ${name}`, onclick}, label);
}

function item(adapter) {
  const {name, complete} = adapter;
  const use = () => addAdapter({stored: name}, name);
  const size = complete ? bytes(adapter.bytes) : `${bytes(adapter.bytes)}, damaged or not complete`;
  return h(
    'li',
    {},
    h('div', {}, h('strong', {}, name)),
    h('div', {class: 'small'}, `kept in this browser, ${size}`),
    h(
      'div',
      {class: 'row'},
      button('Use', name, !complete || !app.tern || Boolean(app.busy), use),
      button('Delete', name, false, () => remove(adapter)),
    ),
  );
}

/** Draws the list anew; where nothing can be kept there is none. */
export async function refreshKept() {
  const kept = await Tern.adapters.list().catch(() => []);
  $('kept-adapters').replaceChildren(...kept.map(item));
}
