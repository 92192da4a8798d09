/** What stands around the views of a page: its theme, and the panel of settings. */
import {$} from './dom.js';
import * as settings from './settings.js';

const THEMES = ['system', 'light', 'dark'];

function showTheme(theme) {
  $('theme').textContent = `Theme: ${theme}`;
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

function nextTheme() {
  const theme = THEMES[(THEMES.indexOf(settings.get('theme', 'system')) + 1) % THEMES.length];
  settings.set('theme', theme);
  showTheme(theme);
}

function showPanel() {
  $('panel-toggle').setAttribute('aria-expanded', String(document.body.dataset.panel === 'open'));
}

function togglePanel() {
  const open = document.body.dataset.panel !== 'open';
  document.body.dataset.panel = open ? 'open' : 'closed';
  if (open) $('panel').scrollIntoView();
}

export function start() {
  showTheme(settings.get('theme', 'system'));
  $('theme').onclick = nextTheme;
  $('panel-toggle').onclick = togglePanel;
  new MutationObserver(showPanel).observe(document.body, {attributes: true, attributeFilter: ['data-panel']});
}
