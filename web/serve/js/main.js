/** Starts the page of `tern serve`: the chat of web/page, with the server's models in the engine's place. */
import {app} from '../app.js';
import * as chat from '../chat.js';
import {$, facts, h} from '../dom.js';
import {count} from '../format.js';
import * as frame from '../frame.js';
import * as notices from '../notices.js';
import * as sampling from '../sampling.js';
import * as settings from '../settings.js';
import * as metrics from './metrics.js';
import {ServerModel, json, useKey} from './server.js';

function showModel() {
  const model = app.tern?.model;
  $('model-line').textContent = model?.name ?? 'no model';
  facts($('model-facts'), [
    ['Family', model?.architecture],
    ['Parameters', model?.parameters && count(model.parameters)],
    ['Encoding', model?.encoding],
    ['Context', model && `${model.contextLength} tokens`],
  ]);
}

async function choose(name) {
  notices.clear('model');
  chat.stop();
  app.set('tern', null);
  try {
    app.set('tern', await ServerModel.open(name));
    settings.set('served', name);
  } catch (error) {
    notices.showError('model', error);
  }
}

const options = (names) => names.map((name) => h('option', {value: name}, name));

async function list() {
  const adapters = (await json('lora-adapters')).map((adapter) => adapter.name);
  const names = (await json('v1/models')).data.map((model) => model.id);
  const select = $('model');
  select.replaceChildren(
    h('optgroup', {label: 'Models'}, ...options(names.filter((name) => !adapters.includes(name)))),
    ...(adapters.length ? [h('optgroup', {label: 'Adapters'}, ...options(adapters))] : []),
  );
  const wanted = settings.get('served', '');
  if (names.includes(wanted)) select.value = wanted;
  $('version').textContent = (await json('api/version')).version;
  await choose(select.value);
}

async function open() {
  notices.clear('model');
  try {
    await list();
    $('key-form').hidden = true;
  } catch (error) {
    $('key-form').hidden = error.code !== 'KEY';
    if (error.code !== 'KEY') notices.showError('model', error);
    else $('key').focus();
  }
}

function giveKey(event) {
  event.preventDefault();
  useKey($('key').value);
  open();
}

async function start() {
  for (const part of [frame, sampling, chat]) part.start();
  $('key-form').addEventListener('submit', giveKey);
  $('model').addEventListener('change', () => choose($('model').value));
  app.watch(['tern'], showModel);
  await open();
  metrics.start();
}

start();
