/** One model at a time: load it, pause, resume, fail, lose its device. Shows the progress. */
import {Tern} from '../lib/index.js';
import {app} from './app.js';
import {$, announce} from './dom.js';
import {canRetry, cpuHelps, hintTitle} from './explain.js';
import {progressText} from './format.js';
import * as notices from './notices.js';
import * as settings from './settings.js';

/** @typedef {{source: any, label: string, store?: boolean, backend?: string, remember?: boolean}} Request */
/** @type {{request: Request, control: AbortController, paused: boolean, alone: boolean} | null} */
let current = null;
/** Ends when the load before has let go of its model. */
let settled = Promise.resolve();
/** The last request that gave a model. @type {Request | null} */
let last = null;

const PHASES = {download: 'Fetching', read: 'Reading', prepare: 'Preparing'};

function show(title, text, paused) {
  $('loading').hidden = false;
  $('loading-title').textContent = title;
  $('loading-text').textContent = text;
  $('pause').hidden = paused;
  $('resume').hidden = !paused;
}

function showProgress(label, progress) {
  const bar = $('loading-bar');
  if (progress.total > 0) bar.value = Math.min(1, progress.loaded / progress.total);
  show(`${PHASES[progress.phase] ?? 'Loading'} ${label}`, progressText(progress), false);
}

const ACTIVATIONS = new Set(['auto', 'int8', 'f32']);
const SIZE = /^\d+(\.\d+)?[KMGT]$/;

function options(request) {
  const contextLength = settings.get('contextLength', 0);
  const threads = settings.get('threads', 0);
  const activations = settings.get('activations', 'auto');
  const experts = settings.get('experts', 'all');
  return {
    backend: request.backend ?? settings.get('backend', 'auto'),
    activations: ACTIVATIONS.has(activations) ? activations : 'auto',
    ...(contextLength > 0 ? {contextLength} : {}),
    ...(threads > 0 ? {threads} : {}),
    ...(SIZE.test(experts) ? {experts} : {}),
    ...(request.store === undefined ? {} : {store: request.store}),
    ...(settings.get('seed', false) ? {seed: true} : {}),
  };
}

/** What the library says while it goes on; why there is no GPU was said when the page opened, and is in the panel. */
function hint({code, message, about}) {
  if (about === 'backend') {
    app.set('gpuReason', message);
    if (!app.probe?.webgpu) return;
  }
  if (about === 'experts') return;
  notices.notice('hint', {title: hintTitle(code), text: message});
}

/** Gives the model back, if there is one. */
async function unload() {
  const tern = app.tern;
  if (!tern) return;
  app.set('tern', null);
  await tern.dispose().catch(() => {});
}

/** Loads this beside what is there, and takes its place once it is ready. @param {Request} request */
export async function load(request) {
  current?.control.abort();
  for (const key of ['load', 'lost', 'hint']) notices.clear(key);
  await run(request);
}

/** The source of the model that is there, or null. */
export const loadedSource = () => (app.tern ? (last?.source ?? null) : null);

/** One load after the other: a later one waits until the earlier has ended, and does nothing where a third follows. */
function run(request) {
  const mine = {request, control: new AbortController(), paused: false, alone: false};
  current = mine;
  app.gpuReason = '';
  $('loading-bar').removeAttribute('value');
  show(`Loading ${request.label}`, '', false);
  announce(`Loading ${request.label}`);
  settled = settled.then(() => attempt(mine));
  return settled;
}

const open = (mine) =>
  Tern.load(mine.request.source, {
    ...options(mine.request),
    signal: mine.control.signal,
    onNotice: (what) => {
      if (current === mine) hint(what);
    },
    onProgress: (progress) => {
      if (current === mine && !mine.paused) showProgress(mine.request.label, progress);
    },
  });

/** Whether it may fit once the other model is gone, which comes back where it does not. */
const wantsRoom = (error) => Boolean(app.tern) && ['OUT_OF_MEMORY', 'DEVICE_LOST'].includes(error?.code);

async function openAlone(mine, error) {
  if (current !== mine || mine.paused || !wantsRoom(error)) throw error;
  await unload();
  mine.alone = true;
  return open(mine);
}

async function attempt(mine) {
  if (current !== mine || mine.paused) return;
  try {
    const tern = await open(mine).catch((error) => openAlone(mine, error));
    if (current !== mine || mine.paused) await tern.dispose();
    else await adopt(tern, mine.request);
  } catch (error) {
    if (current === mine) failed(mine, error);
    app.set('stored', app.stored + 1);
  }
}

async function adopt(tern, request) {
  const before = app.tern;
  current = null;
  last = request;
  $('loading').hidden = true;
  if (request.remember) settings.set('model', request.source);
  app.set('tern', tern);
  const where = tern.backend === 'webgpu' ? 'the GPU' : 'the CPU';
  announce(`${tern.model.name} is ready on ${where}`);
  Promise.resolve(tern.lost).then(
    (message) => {
      if (app.tern === tern) lost(tern, request, message);
    },
    () => {},
  );
  await before?.dispose().catch(() => {});
}

function failed(mine, error) {
  if (mine.paused || error?.code === 'CANCELLED') return;
  current = null;
  $('loading').hidden = true;
  notices.showError('load', error, remedies(mine.request, error?.code));
  if (mine.alone && last && last !== mine.request) run(last);
}

function lost(tern, request, message) {
  app.set('tern', null);
  tern.dispose().catch(() => {});
  notices.showError('lost', {code: 'DEVICE_LOST', message}, remedies(request, 'DEVICE_LOST'));
}

function remedies(request, code) {
  const actions = [];
  if (canRetry(code)) actions.push({label: 'Load again', run: () => load(request)});
  if (cpuHelps(code) && request.backend !== 'cpu')
    actions.push({label: 'Load on the CPU', run: () => load({...request, backend: 'cpu'})});
  if (request.source !== 'bundled' && !canRetry(code) && !app.tern)
    actions.push({label: 'Bundled model', run: loadBundled});
  return actions;
}

export const loadBundled = () => load({source: 'bundled', label: 'the bundled model', remember: true});

/** The last model once more, with what is chosen now. */
export const reload = () => (last ? load(last) : loadBundled());

function pause() {
  if (!current) return;
  current.paused = true;
  current.control.abort();
  show(`Paused: ${current.request.label}`, $('loading-text').textContent, true);
  announce('Paused');
  $('resume').focus();
}

function resume() {
  if (!current) return;
  run(current.request);
  $('pause').focus();
}

function cancel() {
  current?.control.abort();
  current = null;
  $('loading').hidden = true;
  announce('Cancelled');
  if (!app.tern)
    notices.notice('load', {title: 'Loading was cancelled', actions: [{label: 'Bundled model', run: loadBundled}]});
}

/** What stands on the first line, and on a phone above the conversation: the model and what runs it. */
function modelLine() {
  const tern = app.tern;
  $('model-line').textContent = $('model-line-phone').textContent = tern
    ? `${tern.model.name} · ${tern.backend === 'webgpu' ? 'WebGPU' : 'CPU'}`
    : 'no model';
}

export function start() {
  $('pause').onclick = pause;
  $('resume').onclick = resume;
  $('cancel').onclick = cancel;
  app.watch(['tern'], modelLine);
}
