/** The service worker: the page's own files stay here, so that the page opens without a network. */
import {$} from './dom.js';
import * as notices from './notices.js';

/** WebKit never answers where the page was left while it stored its files for the first time. */
const SILENT_MS = 30000;

function offer(worker) {
  notices.notice('update', {
    title: 'A new version of this page is here',
    actions: [{label: 'Use it now', run: () => worker.postMessage('activate')}],
  });
}

function watch(registration) {
  const look = (worker) => {
    if (worker?.state === 'installed' && navigator.serviceWorker.controller) offer(worker);
  };
  look(registration.waiting);
  registration.addEventListener('updatefound', () => {
    const worker = registration.installing;
    worker.addEventListener('statechange', () => look(worker));
  });
}

/** Rejects when the first worker could not store the page's files. */
function failure(registration) {
  const worker = registration.active ? null : registration.installing;
  return new Promise((_, reject) =>
    worker?.addEventListener('statechange', () => {
      if (worker.state === 'redundant') reject(new Error('its files could not be stored'));
    }),
  );
}

async function keep() {
  const registration = await navigator.serviceWorker.register('sw.js');
  watch(registration);
  await Promise.race([navigator.serviceWorker.ready, failure(registration)]);
}

const say = (text) => {
  $('offline-note').textContent = text;
};

export async function start() {
  if (!('serviceWorker' in navigator)) return say('Needs the network each time: this page was not opened securely.');
  const controlled = Boolean(navigator.serviceWorker.controller);
  navigator.serviceWorker.addEventListener('controllerchange', () => {
    if (controlled) location.reload();
  });
  const silent = setTimeout(() => say('Needs the network: the browser has not stored this page.'), SILENT_MS);
  try {
    await keep();
    say('Works offline.');
  } catch (error) {
    say(`Needs the network each time: ${error.message}`);
  }
  clearTimeout(silent);
}
