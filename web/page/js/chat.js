/** The conversation: sending, streaming, stopping, regenerating, editing, saving. */
import {app} from './app.js';
import {Conversation} from './conversation.js';
import {$, announce, saveFile} from './dom.js';
import {short} from './format.js';
import * as notices from './notices.js';
import * as sampling from './sampling.js';
import * as settings from './settings.js';
import {grow, render, toEnd} from './transcript.js';

let conversation = new Conversation();
/** @type {{turn: any, control: AbortController} | null} */
let writing = null;

const actions = {
  isWriting: (turn) => writing?.turn === turn,
  isLast: (turn) => conversation.turns.at(-1) === turn,
  edit,
  regenerate,
  goOn: (turn) => {
    if (ready()) ask(turn.user + turn.reply, 'complete');
  },
};

const ready = () => app.tern && !app.busy;

/** Chat where the model has a template and the person did not choose otherwise. */
function mode() {
  if (!app.tern?.model.hasChatTemplate) return 'complete';
  return settings.get('mode', 'chat') === 'complete' ? 'complete' : 'chat';
}

function update() {
  const chat = mode() === 'chat';
  const template = app.tern?.model.hasChatTemplate ?? true;
  $('send').disabled = !ready();
  $('send').hidden = app.busy === 'chat';
  $('stop').hidden = app.busy !== 'chat';
  $('mode-chat').checked = chat;
  $('mode-complete').checked = !chat;
  $('mode-chat').disabled = !template;
  $('mode-note').textContent = template
    ? ''
    : 'This model has no chat template: it goes on with the text that you give it.';
  $('system-note').textContent = chat ? '' : 'Not used while texts are completed.';
  $('prompt-label').textContent = chat ? 'Your message' : 'Text to go on with';
  $('prompt').placeholder = chat ? '' : 'Once upon a time';
  $('send').textContent = chat ? 'Send' : 'Complete';
  if (app.busy === 'finetune') $('stats').textContent = 'The model is being fine-tuned.';
}

function stream(turn, signal) {
  const options = {...sampling.options(), signal};
  const {contextLength} = app.tern.model;
  options.maxTokens = Math.min(options.maxTokens, contextLength);
  if (turn.mode === 'complete') return app.tern.generate(turn.user, options);
  return app.tern.chat(conversation.messages(turn, settings.get('system', '')), options);
}

async function read(turn, text) {
  let first = 0;
  let n = 0;
  for await (const piece of text) {
    turn.reply += piece.text;
    grow(turn);
    const now = performance.now();
    if (n++ === 0) first = now;
    else if (now > first) $('stats').textContent = `${short(((n - 1) * 1000) / (now - first))} tokens/s · ${n} tokens`;
  }
  return text.result;
}

async function write(turn) {
  const control = new AbortController();
  const {tern} = app;
  writing = {turn, control};
  turn.reply = '';
  turn.error = turn.result = undefined;
  turn.stopped = false;
  app.set('busy', 'chat');
  $('stats').textContent = 'Reading the prompt …';
  render(conversation, actions);
  toEnd();
  try {
    finish(turn, await read(turn, stream(turn, control.signal)));
  } catch (error) {
    failed(turn, error, control.signal.aborted || app.tern !== tern);
  }
  writing = null;
  app.set('busy', '');
  render(conversation, actions);
}

function finish(turn, result) {
  turn.result = result;
  turn.stopped = result.reason === 'caller';
  app.set('result', result);
  $('stats').textContent = '';
  announce(`${turn.stopped ? 'Stopped' : 'Done'}. ${turn.reply}`);
}

function failed(turn, error, aborted) {
  $('stats').textContent = '';
  if (aborted && error?.code !== 'DEVICE_LOST') {
    turn.stopped = true;
    announce(`Stopped. ${turn.reply}`);
    return;
  }
  turn.error = {code: error?.code ?? 'INTERNAL', message: error?.message ?? String(error)};
  if (error?.code !== 'DEVICE_LOST') notices.showError('chat', error);
}

function ask(text, how) {
  notices.clear('chat');
  write(conversation.add(text, how));
}

function send(event) {
  event?.preventDefault();
  const text = $('prompt').value;
  if (!ready() || text.trim() === '') return;
  $('prompt').value = '';
  ask(text, mode());
}

function regenerate(turn) {
  if (!ready()) return;
  notices.clear('chat');
  if (turn.mode === 'chat') conversation.turns.length = conversation.turns.indexOf(turn) + 1;
  write(turn);
}

function edit(turn) {
  if (app.busy === 'chat') return;
  $('prompt').value = conversation.cut(turn);
  render(conversation, actions);
  $('prompt').focus();
}

function fresh() {
  stop();
  conversation = new Conversation();
  $('stats').textContent = '';
  render(conversation, actions);
  $('prompt').focus();
}

export function stop() {
  writing?.control.abort();
}

function keys(event) {
  if (event.isComposing) return;
  if (event.key === 'Enter' && !event.shiftKey) send(event);
}

function exportJson() {
  const about = {
    tern: $('version').textContent,
    model: app.tern?.model ?? null,
    sampling: sampling.options(),
    system: settings.get('system', ''),
  };
  saveFile('conversation.json', [conversation.json(about)], 'application/json');
}

export function start() {
  $('composer').addEventListener('submit', send);
  $('prompt').addEventListener('keydown', keys);
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') stop();
  });
  $('stop').onclick = stop;
  $('new-chat').onclick = fresh;
  $('export-text').onclick = () =>
    saveFile('conversation.txt', [conversation.text(settings.get('system', ''))], 'text/plain');
  $('export-json').onclick = exportJson;
  for (const name of ['chat', 'complete'])
    $(`mode-${name}`).addEventListener('change', () => {
      settings.set('mode', name);
      update();
    });
  app.watch(['tern', 'busy'], update);
  render(conversation, actions);
}
