/** The models that one can talk to: the bundled one, those in this browser, those that are known; and their room. */
import {Tern} from '../lib/index.js';
import {app} from './app.js';
import {$, announce, h} from './dom.js';
import {fit} from './fit.js';
import {bytes, percent} from './format.js';
import {BUNDLED_BYTES, KNOWN} from './known.js';
import {load, loadBundled, loadedSource} from './loading.js';
import * as notices from './notices.js';

/** So many stored models stand on the first screen. */
const SHORT = 3;

function day(date) {
  return date instanceof Date && date.valueOf() > 0 ? `used ${date.toLocaleDateString()}` : '';
}

const device = () => ({gpu: app.probe?.webgpu ?? true, memory: navigator.deviceMemory});

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

/** @param {{name: string, facts: string[], size: number, use: () => void, label?: string, delete?: () => void,
 *   here?: boolean, id?: string}} row */
function item(row) {
  const {fits, text} = fit(row.size, device());
  const button = h(
    'button',
    {
      type: 'button',
      id: row.id,
      disabled: row.here,
      'aria-label': row.here ? `${row.name} is loaded` : `${row.label ?? 'Load'} ${row.name}`,
      onclick: () => {
        location.hash = '#chat';
        row.use();
      },
    },
    row.here ? 'Loaded' : (row.label ?? 'Load'),
  );
  const away = row.delete
    ? h(
        'button',
        {type: 'button', class: 'quiet danger', 'aria-label': `Delete ${row.name}`, onclick: row.delete},
        'Delete',
      )
    : null;
  return h(
    'li',
    {class: 'model'},
    h(
      'div',
      {},
      h('strong', {}, row.name),
      h('div', {class: fits ? 'small' : 'small too-large'}, [...row.facts, text].filter(Boolean).join(' · ')),
    ),
    h('div', {class: 'row'}, button, away),
  );
}

/** @param {any} [kept] what this browser keeps of it */
function bundled(id, kept) {
  const here = loadedSource() === 'bundled';
  const facts = ['bundled', bytes(BUNDLED_BYTES), kept ? 'on this device' : '', 'tells stories, small talk'];
  const away = kept ? {delete: () => remove(kept)} : {};
  return item({name: 'chat', facts, size: BUNDLED_BYTES, use: loadBundled, here, id, ...away});
}

function storedItem(model, withDelete) {
  const size = model.complete ? bytes(model.bytes) : `${bytes(model.stored)} of ${bytes(model.bytes)}, not complete`;
  const source = model.complete ? {stored: model.id} : model.source;
  return item({
    name: model.name,
    facts: ['on this device', size, day(model.usedAt)],
    size: model.bytes,
    label: model.complete ? 'Load' : 'Go on loading',
    here: Boolean(app.tern) && app.tern.storedAs === model.id,
    use: () => load({source, label: model.name, remember: typeof source === 'string'}),
    ...(withDelete ? {delete: () => remove(model)} : {}),
  });
}

const isBundled = (model) => /\/models\/chat\.gguf$/.test(model.source);

function knownItem([name, address, what, size], models) {
  if (models.some((model) => model.source === address)) return null;
  const use = () => load({source: address, label: name, remember: true});
  return item({name, facts: [what, `about ${bytes(size)} to fetch`], size, use, label: 'Fetch'});
}

function draw(models) {
  const others = models.filter((model) => !isBundled(model));
  const kept = models.find(isBundled);
  $('stored').replaceChildren(bundled('load-bundled', kept), ...others.map((model) => storedItem(model, true)));
  $('known').replaceChildren(...KNOWN.map((known) => knownItem(known, models)).filter(Boolean));
  $('choices').replaceChildren(bundled(null), ...others.slice(0, SHORT).map((model) => storedItem(model, false)));
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
  app.watch(['tern', 'probe', 'stored'], refreshStored);
}

/** Draws the lists anew. */
export async function refreshStored() {
  try {
    const models = await Tern.storage.list();
    models.sort((a, b) => b.usedAt - a.usedAt);
    draw(models);
    $('storage-use').textContent = await use();
    if (models.length) await offerKeeping();
  } catch (error) {
    draw([]);
    $('storage-use').textContent = `Models cannot be kept here: ${error.message}`;
  }
}

/** A torrent is stored under its hash alone, whatever else its link says. */
const hashOf = (source) => /^magnet:.*urn:btih:([0-9a-f]{40})/i.exec(source)?.[1].toLowerCase();

const isOf = (model, source) =>
  model.source === source || (hashOf(source) && hashOf(model.source) === hashOf(source));

/** The complete stored model of this source, or null. */
export async function findStored(source) {
  try {
    return (await Tern.storage.list()).find((model) => model.complete && isOf(model, source)) ?? null;
  } catch {
    return null;
  }
}
