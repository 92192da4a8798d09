/** LoRA adapters beside the loaded model: drop or pick files, set how much each counts, keep them for next time. */
import {app} from './app.js';
import {$, announce, h} from './dom.js';
import {count} from './format.js';
import {keep, refreshKept} from './kept-adapters.js';
import {addressIn, labelOf, onFiles} from './picker.js';
import * as notices from './notices.js';

/** @type {{lora: any, source: any, name: string, scale: number, used: boolean, kept: boolean}[]} */
let adapters = [];

async function apply() {
  const chosen = adapters.filter((adapter) => adapter.used).map(({lora, scale}) => ({lora, scale}));
  try {
    await app.tern.setLoras(chosen);
  } catch (error) {
    notices.showError('adapter', error);
  }
}

/** Loads an adapter and uses it from now on. @param {any} source @param {string} name @returns {Promise<boolean>} */
export async function addAdapter(source, name) {
  notices.clear('adapter');
  const tern = app.tern;
  if (!tern) {
    notices.notice('adapter', {
      title: 'An adapter needs a model',
      text: 'Load the model that it was made for first.',
      bad: true,
    });
    return false;
  }
  try {
    const lora = await tern.loadLora(source);
    if (app.tern !== tern) return false;
    adapters.push({lora, source, name, scale: 1, used: true, kept: Object.hasOwn(source, 'stored')});
    await apply();
    render();
    $('adapters-section').open = true;
    announce(`The adapter ${name} is in use`);
    return true;
  } catch (error) {
    notices.showError('adapter', error);
    return false;
  }
}

async function remove(adapter) {
  adapters = adapters.filter((other) => other !== adapter);
  await apply();
  await adapter.lora.dispose().catch(() => {});
  render();
  $('adapter-file').focus();
}

async function keepIt(adapter) {
  adapter.kept = await keep(adapter.source, adapter.name);
  await refreshKept();
  render();
}

function item(adapter, at) {
  const disabled = Boolean(app.busy);
  const scale = h('input', {
    type: 'number',
    id: `scale-${at}`,
    min: -4,
    max: 4,
    step: 0.1,
    value: String(adapter.scale),
    disabled,
    onchange: () => {
      adapter.scale = Number.isFinite(scale.valueAsNumber) ? scale.valueAsNumber : 1;
      apply();
    },
  });
  const used = h('input', {
    type: 'checkbox',
    checked: adapter.used,
    disabled,
    onchange: () => {
      adapter.used = used.checked;
      apply();
    },
  });
  return h(
    'li',
    {},
    h('label', {class: 'check'}, used, h('strong', {}, adapter.name)),
    h('div', {class: 'small'}, `rank ${adapter.lora.rank}, ${count(adapter.lora.parameters)} parameters`),
    h(
      'div',
      {class: 'row'},
      h('label', {for: `scale-${at}`}, 'Scale'),
      h('div', {}, scale),
      h(
        'button',
        {
          type: 'button',
          class: 'quiet',
          disabled,
          hidden: adapter.kept,
          'aria-label': `Keep ${adapter.name} in this browser`,
          onclick: () => keepIt(adapter),
        },
        'Keep',
      ),
      h(
        'button',
        {
          type: 'button',
          class: 'quiet',
          disabled,
          'aria-label': `Remove ${adapter.name}`,
          onclick: () => remove(adapter),
        },
        'Remove',
      ),
    ),
  );
}

function render() {
  const none = h('li', {class: 'small'}, 'None: the model as it is.');
  $('adapters').replaceChildren(...(adapters.length ? adapters.map(item) : [none]));
}

/** Whether these files are an adapter of PEFT. */
export const isPeft = (files) => files.some((file) => /^adapter_/.test(file.name));

export function addFiles(files) {
  if (files.length === 0) return;
  addAdapter(files.length === 1 ? files[0] : files, isPeft(files) ? 'adapter_model' : files[0].name);
}

async function addAddress(event) {
  event.preventDefault();
  const source = addressIn($('adapter-url'), 'adapter');
  if (source !== null && (await addAdapter(source, labelOf(source)))) $('adapter-url').value = '';
}

export function start() {
  $('adapter-form').addEventListener('submit', addAddress);
  onFiles($('adapter-drop'), $('adapter-file'), addFiles);
  app.watch(['tern'], () => {
    adapters = [];
    render();
    refreshKept();
  });
  app.watch(['busy'], () => {
    render();
    refreshKept();
  });
}
