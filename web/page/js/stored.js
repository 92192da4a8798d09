/** The models that lie in this browser: load, delete, and how much room they take. */
import {Tern} from '../lib/index.js';
import {$, announce, h} from './dom.js';
import {bytes, percent} from './format.js';
import {load} from './loading.js';
import * as notices from './notices.js';

function day(date) {
  return date instanceof Date && !Number.isNaN(date.valueOf()) ? `used ${date.toLocaleDateString()}` : '';
}

async function remove(model) {
  if (!confirm(`Delete ${model.name} (${bytes(model.stored)}) from this browser?`)) return;
  try {
    await Tern.storage.delete(model.id);
    announce(`${model.name} was deleted`);
  } catch (error) {
    notices.showError('storage', error);
  }
  await refreshStored();
}

function item(model) {
  const size = model.complete ? bytes(model.bytes) : `${bytes(model.stored)} of ${bytes(model.bytes)}, not complete`;
  const source = model.complete ? {stored: model.id} : model.source;
  return h(
    'li',
    {},
    h('div', {}, h('strong', {}, model.name)),
    h('div', {class: 'small'}, [size, day(model.usedAt)].filter(Boolean).join(' · ')),
    h(
      'div',
      {class: 'row'},
      h(
        'button',
        {
          type: 'button',
          'aria-label': `${model.complete ? 'Load' : 'Go on loading'} ${model.name}`,
          onclick: () => load({source, label: model.name, remember: typeof source === 'string'}),
        },
        model.complete ? 'Load' : 'Go on',
      ),
      h(
        'button',
        {type: 'button', class: 'quiet', 'aria-label': `Delete ${model.name}`, onclick: () => remove(model)},
        'Delete',
      ),
    ),
  );
}

async function use() {
  const {usage, quota} = await Tern.storage.estimate();
  return quota > 0 ? `${bytes(usage)} of ${bytes(quota)} used (${percent(usage / quota)})` : '';
}

/** Browsers may evict what they were not asked to keep. */
async function offerKeeping() {
  const {storage} = navigator;
  $('persist').hidden = !storage?.persist || (await storage.persisted());
}

async function keep() {
  const kept = await navigator.storage.persist();
  announce(
    kept
      ? 'The browser keeps the models until you delete them'
      : 'The browser did not agree; it may once you use this page more often',
  );
  await offerKeeping();
}

export function start() {
  $('persist').onclick = keep;
}

/** Draws the list anew. */
export async function refreshStored() {
  try {
    const models = await Tern.storage.list();
    models.sort((a, b) => b.usedAt - a.usedAt);
    $('stored').replaceChildren(
      ...(models.length ? models.map(item) : [h('li', {class: 'small'}, 'No model is kept here yet.')]),
    );
    $('storage-use').textContent = await use();
    if (models.length) await offerKeeping();
  } catch (error) {
    $('stored').replaceChildren(h('li', {class: 'small'}, `Models cannot be kept here: ${error.message}`));
    $('storage-use').textContent = '';
  }
}

/** The complete stored model of this source, or null. */
export async function findStored(source) {
  try {
    return (await Tern.storage.list()).find((model) => model.complete && model.source === source) ?? null;
  } catch {
    return null;
  }
}
