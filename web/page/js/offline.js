/** The service worker: the page's own files stay here, so that the page opens without a network. */
import {$} from './dom.js';
import * as notices from './notices.js';

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

export async function start() {
  if (!('serviceWorker' in navigator)) {
    $('offline-note').textContent = 'Needs the network each time: this page was not opened securely.';
    return;
  }
  const controlled = Boolean(navigator.serviceWorker.controller);
  navigator.serviceWorker.addEventListener('controllerchange', () => {
    if (controlled) location.reload();
  });
  try {
    watch(await navigator.serviceWorker.register('sw.js'));
    await navigator.serviceWorker.ready;
    $('offline-note').textContent = 'Works offline.';
  } catch (error) {
    $('offline-note').textContent = `Needs the network each time: ${error.message}`;
  }
}
