/** The conversation: sending, streaming, stopping, regenerating, editing, branching, keeping, saving. */
import {app} from './app.js';
import {Conversation} from './conversation.js';
import * as conversations from './conversations.js';
import {$, announce, h, saveFile} from './dom.js';
import {short} from './format.js';
import * as history from './history.js';
import * as notices from './notices.js';
import * as sampling from './sampling.js';
import * as settings from './settings.js';
import {grow, render, toEnd} from './transcript.js';

let conversation = new Conversation();
/** @type {{turn: any, control: AbortController} | null} */
let writing = null;
/** While a reply comes it is kept so often: a page that is reloaded or closed loses no more than this. */
const KEEP_MS = 1000;

const EXAMPLES = {
  chat: ['Tell me a story about a fox and a lost key.', 'What can you do?'],
  complete: ['Once upon a time', 'One day a little bird'],
};

const actions = {
  isWriting: (turn) => writing?.turn === turn,
  isLast: (turn) => conversation.turns.at(-1) === turn,
  versions: (turn) => conversation.versions(turn),
  step: (turn, by) => {
    if (app.busy === 'chat') return;
    conversation.step(turn, by);
    draw();
    keep();
  },
  edit,
  regenerate,
  branch: (turn) => {
    stop();
    show(conversation.branch(turn));
    keep();
    announce('A conversation of its own begins here');
  },
  goOn: (turn) => {
    if (ready()) ask(turn.user + turn.reply, 'complete');
  },
};

const listed = {
  current: () => conversation.id,
  open: (kept) => {
    if (!kept) return;
    stop();
    show(Conversation.from(kept));
    if (location.hash) location.hash = '#chat';
    document.body.dataset.panel = 'closed';
  },
  removed: (id) => {
    if (id !== conversation.id) return conversations.refresh(listed);
    conversation.root.children = []; /* a reply under way does not bring it back */
    return fresh();
  },
};

const ready = () => app.tern && !app.busy;

/** Chat where the model has a template and the person did not choose otherwise. */
function mode() {
  if (!app.tern?.model.hasChatTemplate) return 'complete';
  return settings.get('mode', 'chat') === 'complete' ? 'complete' : 'chat';
}

function draw() {
  render(conversation, actions);
  $('chat-title').textContent = conversation.title || 'New conversation';
  $('editing').hidden = !conversation.editing;
  $('welcome').hidden = conversation.turns.length > 0;
  $('transcript').hidden = conversation.turns.length === 0;
}

/** Shows this conversation from now on. */
function show(other) {
  conversation = other;
  conversations.remember(conversation.id);
  $('stats').textContent = '';
  draw();
  toEnd();
  conversations.refresh(listed);
}

async function save(which) {
  if (which.root.children.length) await history.put(which.data());
}

async function keep(which = conversation) {
  await save(which);
  await conversations.refresh(listed);
}

function drawExamples() {
  const examples = EXAMPLES[mode()].map((text) =>
    h('button', {type: 'button', disabled: !ready(), onclick: () => ready() && ask(text, mode())}, text),
  );
  $('examples').replaceChildren(...examples);
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
  drawExamples();
}

function stream(own, turn, signal) {
  const options = {...sampling.options(), signal};
  const {contextLength} = app.tern.model;
  options.maxTokens = Math.min(options.maxTokens, contextLength);
  if (turn.mode === 'complete') return app.tern.generate(turn.user, options);
  return app.tern.chat(own.messages(turn, settings.get('system', '')), options);
}

async function read(own, turn, text) {
  let first = 0;
  let n = 0;
  let kept = performance.now();
  for await (const piece of text) {
    turn.reply += piece.text;
    if (piece.thought) turn.thoughts = (turn.thoughts ?? '') + piece.thought;
    grow(turn);
    const now = performance.now();
    if (n++ === 0) first = now;
    else if (now > first) $('stats').textContent = `${short(((n - 1) * 1000) / (now - first))} tokens/s · ${n} tokens`;
    if (now - kept < KEEP_MS) continue;
    kept = now;
    save(own);
  }
  return text.result;
}

async function write(turn) {
  const control = new AbortController();
  const {tern} = app;
  const own = conversation;
  writing = {turn, control};
  app.set('busy', 'chat');
  $('stats').textContent = 'Reading the prompt …';
  conversations.remember(own.id);
  draw();
  toEnd();
  turn.stopped = true; /* what is kept from here on, until it is finished */
  keep(own);
  try {
    finish(turn, await read(own, turn, stream(own, turn, control.signal)));
  } catch (error) {
    failed(turn, error, control.signal.aborted || app.tern !== tern);
  }
  writing = null;
  app.set('busy', '');
  draw();
  await keep(own);
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
  turn.stopped = aborted && error?.code !== 'DEVICE_LOST';
  if (turn.stopped) {
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
  write(conversation.again(turn));
}

function edit(turn) {
  if (app.busy === 'chat') return;
  $('prompt').value = conversation.cut(turn);
  draw();
  $('prompt').focus();
}

function giveUpEditing() {
  conversation.uncut();
  $('prompt').value = '';
  draw();
}

function fresh() {
  stop();
  show(new Conversation());
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

function listen() {
  $('composer').addEventListener('submit', send);
  $('prompt').addEventListener('keydown', keys);
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') stop();
  });
  $('stop').onclick = stop;
  $('new-chat').onclick = fresh;
  $('edit-cancel').onclick = giveUpEditing;
  $('export-text').onclick = () =>
    saveFile('conversation.txt', [conversation.text(settings.get('system', ''))], 'text/plain');
  $('export-json').onclick = exportJson;
  for (const name of ['chat', 'complete'])
    $(`mode-${name}`).addEventListener('change', () => {
      settings.set('mode', name);
      update();
    });
}

export async function start() {
  listen();
  app.watch(['tern', 'busy'], update);
  draw();
  const kept = await conversations.last();
  if (kept && conversation.root.children.length === 0) show(Conversation.from(kept));
  else await conversations.refresh(listed);
}
