/** Fine-tuning in the browser (experimental): a LoRA adapter from pasted text, its loss, and what to do with it. */
import {addAdapter} from './adapters.js';
import {app} from './app.js';
import {$, announce, h, saveFile} from './dom.js';
import {count, duration, short} from './format.js';
import {plot, runningMean} from './plot.js';
import * as notices from './notices.js';
import * as settings from './settings.js';

/** name in the API, label, smallest, largest, step, default, what it does */
const CONTROLS = [
  ['rank', 'Rank', 1, 64, 1, 8, 'How much the adapter can hold; more is larger and slower'],
  ['steps', 'Steps', 1, 10000, 1, 60, 'How often it learns from some rows of the text'],
  ['learningRate', 'Learning rate', 0.00001, 0.1, 'any', 0.005, 'How far each step goes; too far and the loss rises'],
  ['batch', 'Rows in a step', 1, 64, 1, 4, 'More make steps steadier and slower'],
  ['sequence', 'Tokens in a row', 16, 1024, 1, 64, 'How much text it sees at once; a token is about four letters'],
  ['seed', 'Seed', 0, 4294967295, 1, 1, 'The same seed gives the same adapter'],
];

let control = null;
let losses = [];
let planned = 1;
let frame = 0;
/** @type {Uint8Array | null} */
let adapter = null;

function setting([name, label, min, max, step, initial, help]) {
  const input = h('input', {
    type: 'number',
    id: `ft-${name}`,
    min,
    max,
    step,
    required: true,
    'aria-describedby': `ft-${name}-help`,
    value: String(settings.get(`finetune.${name}`, initial)),
    onchange: () => settings.set(`finetune.${name}`, input.valueAsNumber),
  });
  return h(
    'div',
    {class: 'control'},
    h('label', {for: `ft-${name}`}, label),
    input,
    h('span', {id: `ft-${name}-help`, class: 'small'}, help),
  );
}

const options = () => Object.fromEntries(CONTROLS.map(([name]) => [name, $(`ft-${name}`).valueAsNumber]));

function update() {
  const training = app.busy === 'finetune';
  $('ft-start').disabled = !app.tern || Boolean(app.busy);
  $('ft-start').hidden = training;
  $('ft-stop').hidden = !training;
  $('ft-try').disabled = !adapter || !app.tern || training;
  $('ft-save').disabled = !adapter;
  if (!app.tern && !training) $('ft-status').textContent = 'Load a model first.';
  else if ($('ft-status').textContent === 'Load a model first.') $('ft-status').textContent = '';
}

function draw() {
  frame ||= requestAnimationFrame(() => {
    frame = 0;
    plot($('ft-plot'), losses, planned);
  });
}

function onStep(step, began) {
  losses.push(step.loss);
  planned = step.steps;
  draw();
  const left = ((performance.now() - began) / 1000 / losses.length) * (step.steps - losses.length);
  $('ft-status').textContent =
    `Step ${step.step} of ${step.steps} · loss ${short(step.loss)} · ` +
    `${short(step.tokensPerSecond)} tokens/s · ${duration(left)} left`;
}

function summary(stopped) {
  if (losses.length === 0) return stopped ? 'Stopped before the first step.' : 'No step was made.';
  const means = runningMean(losses);
  const fall = `loss ${short(losses[0])} at first, ${short(means.at(-1))} at the end`;
  return `${stopped ? 'Stopped' : 'Done'} after ${losses.length} steps: ${fall}`;
}

async function train(event) {
  event.preventDefault();
  const text = $('ft-text').value;
  if (!app.tern || app.busy || text.trim() === '') return;
  notices.clear('finetune');
  control = new AbortController();
  losses = [];
  adapter = null;
  app.set('busy', 'finetune');
  $('ft-status').textContent = 'Preparing …';
  announce('Training begins');
  $('ft-plot').scrollIntoView({block: 'nearest'});
  const began = performance.now();
  try {
    adapter = await app.tern.finetune(text, {
      ...options(),
      signal: control.signal,
      onStep: (step) => onStep(step, began),
    });
    done(control.signal.aborted);
  } catch (error) {
    ended(error);
  }
  app.set('busy', '');
}

function done(stopped) {
  $('ft-status').textContent = summary(stopped);
  $('ft-caption').textContent = `Loss in each step. ${summary(stopped)}`;
  announce(summary(stopped));
}

function ended(error) {
  if (error?.code === 'CANCELLED') return done(true);
  $('ft-status').textContent = '';
  if (error?.code !== 'DEVICE_LOST') notices.showError('finetune', error);
}

async function tryIt() {
  if (await addAdapter(adapter, 'fine-tuned here')) location.hash = '#chat';
}

async function readFile() {
  const [file] = $('ft-file').files;
  if (!file) return;
  $('ft-text').value = await file.text();
  counted();
}

function counted() {
  const n = $('ft-text').value.length;
  $('ft-count').textContent = n ? `${count(n)} characters` : '';
}

export function start() {
  $('ft-controls').append(...CONTROLS.map(setting));
  $('finetune-form').addEventListener('submit', train);
  $('ft-stop').onclick = () => {
    $('ft-status').textContent = 'Stopping …';
    control?.abort();
  };
  $('ft-text').addEventListener('input', counted);
  $('ft-file').addEventListener('change', readFile);
  $('ft-try').onclick = tryIt;
  $('ft-save').onclick = () => saveFile('adapter.gguf', [adapter], 'application/octet-stream');
  plot($('ft-plot'), [], 1);
  app.watch(['tern', 'busy'], update);
}
