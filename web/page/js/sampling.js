/** The sampling controls: names, ranges and defaults of `tern run`. */
import {$, h} from './dom.js';
import * as settings from './settings.js';

/** name in the API, label, kind, smallest, largest, step, default, what it does */
export const CONTROLS = [
  ['temperature', 'Temperature', 'range', 0, 2, 0.05, 0.8, '0 is greedy: always the likeliest token'],
  ['topP', 'Top-p', 'range', 0.05, 1, 0.05, 0.95, 'The likeliest tokens that sum up to this; 1 is off'],
  ['minP', 'Min-p', 'range', 0, 1, 0.01, 0.05, 'Tokens at least so many times as likely as the best; 0 is off'],
  ['typicalP', 'Typical-p', 'range', 0.05, 1, 0.05, 1, 'Locally typical tokens that sum up to this; 1 is off'],
  ['topK', 'Top-k', 'number', 0, 1000, 1, 40, 'The likeliest tokens; 0 is off'],
  ['maxTokens', 'Max tokens', 'number', 1, 8192, 1, 256, 'Where a reply ends at the latest'],
  ['repetitionPenalty', 'Repetition penalty', 'range', 1, 2, 0.01, 1, 'Divides what was said before; 1 is off'],
  ['presencePenalty', 'Presence penalty', 'range', -2, 2, 0.1, 0, 'Subtracted once from what was said'],
  ['frequencyPenalty', 'Frequency penalty', 'range', -2, 2, 0.1, 0, 'Subtracted for each time it was said'],
  ['penaltyLastN', 'Penalty last n', 'number', 0, 8192, 1, 64, 'How many last tokens the penalties look at'],
];

const initialOf = (name) => CONTROLS.find((control) => control[0] === name)[6];

/** The nearest value that a control allows; NaN gives its default. */
export function within(name, value) {
  const [, , , lowest, highest, step, initial] = CONTROLS.find((control) => control[0] === name);
  if (!Number.isFinite(value)) return initial;
  const clamped = Math.min(highest, Math.max(lowest, value));
  return step === 1 ? Math.round(clamped) : clamped;
}

/** Lines of the box, with \n and \t for the characters. */
export const stopStrings = (text) =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => line.replaceAll('\\n', '\n').replaceAll('\\t', '\t'));

/** What the controls say, as options of generate and chat. */
export function options() {
  const chosen = {};
  for (const [name] of CONTROLS) chosen[name] = within(name, settings.get(`sampling.${name}`, initialOf(name)));
  const seed = settings.get('sampling.seed', '');
  const stop = stopStrings(settings.get('stop', ''));
  return {...chosen, ...(/^\d+$/.test(seed) ? {seed: Number(seed)} : {}), ...(stop.length ? {stop} : {})};
}

function control([name, label, kind, min, max, step, , help]) {
  const id = `s-${name}`;
  const value = h('output', {for: id});
  const input = h('input', {type: kind, id, min, max, step, 'aria-describedby': `${id}-help`, title: help});
  const take = () => {
    const chosen = within(name, input.value === '' ? NaN : Number(input.value));
    settings.set(`sampling.${name}`, chosen);
    value.textContent = kind === 'range' ? String(chosen) : '';
  };
  input.addEventListener('input', take);
  input.addEventListener('change', show);
  return h(
    'div',
    {class: 'control'},
    h('label', {for: id}, label, ' ', value),
    input,
    h('span', {id: `${id}-help`, class: 'unseen'}, help),
  );
}

function seedControl() {
  const input = h('input', {
    type: 'text',
    id: 's-seed',
    inputmode: 'numeric',
    pattern: '[0-9]*',
    placeholder: 'random',
    autocomplete: 'off',
    title: 'The same seed gives the same text',
  });
  input.addEventListener('input', () => settings.set('sampling.seed', input.value.trim()));
  return h('div', {class: 'control'}, h('label', {for: 's-seed'}, 'Seed'), input);
}

function show() {
  for (const [name, , kind] of CONTROLS) {
    const value = within(name, settings.get(`sampling.${name}`, initialOf(name)));
    $(`s-${name}`).value = String(value);
    if (kind === 'range') $(`s-${name}`).previousElementSibling.querySelector('output').textContent = String(value);
  }
  $('s-seed').value = settings.get('sampling.seed', '');
  $('stop-strings').value = settings.get('stop', '');
  $('system').value = settings.get('system', '');
}

function reset() {
  for (const [name] of CONTROLS) settings.set(`sampling.${name}`, undefined);
  settings.set('sampling.seed', undefined);
  settings.set('stop', undefined);
  show();
}

function greedy() {
  settings.set('sampling.temperature', 0);
  show();
}

export function start() {
  $('sampling').append(...CONTROLS.map(control), seedControl());
  $('stop-strings').addEventListener('input', () => settings.set('stop', $('stop-strings').value));
  $('system').addEventListener('input', () => settings.set('system', $('system').value));
  $('greedy').onclick = greedy;
  $('sampling-reset').onclick = reset;
  show();
}
