/** Torrents: whether the loaded one is given to others, and what has come and gone. */
import {app} from './app.js';
import {$} from './dom.js';
import {bytes} from './format.js';
import {loadedSource, reload} from './loading.js';
import * as notices from './notices.js';
import * as settings from './settings.js';

const EVERY_MS = 1000;
const NONE = 'The loaded model is given to nobody: it was not loaded by a torrent or its link.';

/** @param {import('../../lib/index.js').TorrentInfo | null} torrent */
export function torrentText(torrent) {
  if (!torrent) return '';
  const {name, peers, fromPeers, fromWebSeeds, uploaded, seeding} = torrent;
  const came = `${bytes(fromPeers)} came from peers, ${bytes(fromWebSeeds)} from web seeds`;
  const here = fromPeers + fromWebSeeds > 0 ? came : '';
  const gone = seeding ? `given to others: ${bytes(uploaded)}, ${peers} ${peers === 1 ? 'peer' : 'peers'} now` : '';
  return `${name}: ${[here, gone].filter(Boolean).join('; ') || 'on this device'}`;
}

function show() {
  const torrent = app.tern?.torrent ?? null;
  const text = torrent || !$('seed').checked ? torrentText(torrent) : NONE;
  if ($('torrent-line').textContent !== text) $('torrent-line').textContent = text;
}

async function change() {
  const on = $('seed').checked;
  settings.set('seed', on);
  if (!app.tern?.torrent) return on && /^magnet:/i.test(loadedSource()) ? reload() : undefined;
  await app.tern.setSeeding(on).catch((error) => {
    $('seed').checked = false;
    settings.set('seed', false);
    notices.showError('load', error);
  });
  show();
}

export function start() {
  $('seed').checked = settings.get('seed', false);
  $('seed').addEventListener('change', change);
  setInterval(show, EVERY_MS);
}
