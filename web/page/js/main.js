/** Starts the page: its parts, then a model. */
import * as adapters from './adapters.js';
import * as chat from './chat.js';
import * as device from './device.js';
import * as finetune from './finetune.js';
import * as frame from './frame.js';
import * as loading from './loading.js';
import * as offline from './offline.js';
import * as picker from './picker.js';
import * as sampling from './sampling.js';
import * as settings from './settings.js';
import {$} from './dom.js';
import * as stored from './stored.js';
import * as torrent from './torrent.js';

const VIEWS = {chat: 'Tern', models: 'Models - Tern', finetune: 'Fine-tune - Tern'};

function showView() {
  const view = location.hash.slice(1) || 'chat';
  if (!Object.hasOwn(VIEWS, view)) return;
  for (const name of Object.keys(VIEWS)) $(`${name}-view`).hidden = name !== view;
  for (const link of document.querySelectorAll('.bar nav a')) {
    if (link.getAttribute('href') === `#${view}`) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  document.title = VIEWS[view];
  document.body.dataset.panel = 'closed';
}

/** The model of last time where all of it is still here, else the bundled one, which is small. */
async function firstModel() {
  const source = settings.get('model', 'bundled');
  if (source === 'bundled') return loading.loadBundled();
  const found = await stored.findStored(source);
  if (!found) return loading.loadBundled();
  const gives = /^magnet:/i.test(source) && settings.get('seed', false);
  return loading.load({source: gives ? source : {stored: found.id}, label: found.name, remember: gives});
}

/** A file that is dropped beside the places for it must not replace the page. */
function keepPage(event) {
  event.preventDefault();
}

async function start() {
  frame.start();
  window.addEventListener('hashchange', showView);
  document.addEventListener('dragover', keepPage);
  document.addEventListener('drop', keepPage);
  showView();
  for (const part of [loading, sampling, chat, picker, stored, torrent, adapters, finetune]) part.start();
  await device.start();
  await firstModel();
  await offline.start();
}

start();
