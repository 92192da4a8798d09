/** The model section: what is loaded, and where another one comes from. */
import {app} from './app.js';
import {$, facts, h} from './dom.js';
import {bytes, count} from './format.js';
import {load, reload} from './loading.js';
import * as notices from './notices.js';
import * as settings from './settings.js';

function showModel() {
  const model = app.tern?.model;
  facts(
    $('model-facts'),
    model
      ? [
          ['Name', model.name],
          ['Architecture', model.architecture],
          ['Parameters', count(model.parameters)],
          ['Size', bytes(model.bytes)],
          ['Layers', `${model.layers} of width ${model.embedding}`],
          ['Vocabulary', count(model.vocabulary)],
          ['Context', `${count(model.contextLength)} of ${count(model.trainedContextLength)} tokens`],
          ['Chat template', model.hasChatTemplate ? 'yes' : 'none: completes texts'],
        ]
      : [['Loaded', 'nothing']],
  );
}

/**
 * What people paste without https:// still means a web address; relative ones are files beside the page; hf: is the
 * Hugging Face hub.
 */
export function address(text, base) {
  const value = text.trim();
  if (/^(hf|magnet):/i.test(value)) return value;
  const named = /^[a-z][a-z0-9+.-]*:\/\//i.test(value) || /^[./]/.test(value);
  return new URL(named || !/^[^/]+\.[^/]+\//.test(value) ? value : `https://${value}`, base).href;
}

/** The page's policy (connect-src), in words where it forbids an address; else ''. @param {URL} url */
export function policyRefuses(url, origin) {
  const local = ['localhost', '127.0.0.1'].includes(url.hostname);
  if (url.protocol !== 'http:' || local || url.origin === origin) return '';
  return `${url.href}: the policy of this page allows https:, http://localhost and its own server, not ${url.origin}`;
}

/** What people call it: the last part of an address, a torrent's name. */
export function labelOf(source) {
  const {searchParams, pathname, protocol} = new URL(source);
  if (protocol === 'magnet:') return searchParams.get('dn') || 'a torrent';
  return decodeURIComponent(pathname.split('/').pop() || source);
}

/** What was typed into an input; null, and said, where the page may not ask there. */
export function addressIn(input, about) {
  const source = address(input.value, location.href);
  const refused = policyRefuses(new URL(source), location.origin);
  if (refused) notices.showError(about, {code: 'INVALID_ARGUMENT', message: refused});
  return refused ? null : source;
}

function loadAddress(event) {
  event.preventDefault();
  const source = addressIn($('url'), 'load');
  if (source === null) return;
  location.hash = '#chat';
  load({source, label: labelOf(source), remember: true});
}

/** @param {File[]} files */
export function loadFiles(files) {
  if (files.length === 0) return;
  const label = files.length === 1 ? files[0].name : `${files.length} files`;
  location.hash = '#chat';
  load({source: files.length === 1 ? files[0] : files, label, store: $('keep').checked});
}

/** Files that are dropped on an element, or picked in its input. */
export function onFiles(area, input, use) {
  input.addEventListener('change', () => {
    const files = [...input.files];
    input.value = '';
    use(files);
  });
  area.addEventListener('dragover', (event) => {
    event.preventDefault();
    area.classList.add('over');
  });
  area.addEventListener('dragleave', () => area.classList.remove('over'));
  area.addEventListener('drop', (event) => {
    event.preventDefault();
    area.classList.remove('over');
    use([...event.dataTransfer.files]);
  });
}

function choice(name, label, values, initial) {
  const id = `choose-${name}`;
  const list = h('select', {
    id,
    onchange: () => {
      settings.set(name, typeof initial === 'number' ? Number(list.value) : list.value);
      if (app.tern && !app.busy) reload();
    },
  });
  for (const [value, text] of values) list.append(h('option', {value: String(value)}, text));
  list.value = String(settings.get(name, initial));
  if (list.selectedIndex < 0) list.value = String(initial);
  return h('div', {class: 'control'}, h('label', {for: id}, label), list);
}

function controls() {
  const cores = Math.max(1, navigator.hardwareConcurrency ?? 1);
  const threads = [[0, 'all cores'], ...[1, 2, 4, 8, 16].filter((n) => n <= cores).map((n) => [n, String(n)])];
  $('load-controls').append(
    choice(
      'backend',
      'Runs on',
      [
        ['auto', 'GPU, else CPU'],
        ['webgpu', 'GPU (WebGPU)'],
        ['cpu', 'CPU'],
      ],
      'auto',
    ),
    choice(
      'contextLength',
      'Context',
      [[0, 'up to 2048'], ...[512, 1024, 2048, 4096, 8192].map((n) => [n, `${n} tokens`])],
      0,
    ),
    choice(
      'activations',
      'Activations',
      [
        ['auto', 'int8 where it is faster'],
        ['int8', 'int8, on the CPU'],
        ['f32', 'f32 (more exact, slower)'],
      ],
      'auto',
    ),
  );
  $('load-controls').append(
    choice(
      'experts',
      'Experts in memory (packages by expert)',
      [['all', 'all'], ...['500M', '1G', '1.5G', '2G', '3G'].map((size) => [size, size])],
      'all',
    ),
  );
  if (globalThis.crossOriginIsolated) $('load-controls').append(choice('threads', 'CPU threads', threads, 0));
  else
    $('load-controls').append(
      h(
        'p',
        {class: 'small'},
        'The CPU has one thread here: more need a page with the headers COOP and COEP, as make web-serve sends them.',
      ),
    );
}

export function start() {
  controls();
  $('url-form').addEventListener('submit', loadAddress);
  onFiles($('model-drop'), $('file'), loadFiles);
  app.watch(['tern'], showModel);
}
