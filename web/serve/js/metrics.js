/** What the server counts, drawn: tokens a second, requests, pages. */
import {$, facts} from '../dom.js';
import {percent, short} from '../format.js';
import {plot} from '../plot.js';
import {ask} from './server.js';

const EVERY_MS = 1000;
const KEPT = 60;
const rates = [];
let last = null;

/** Sums of each name over its labels, of the text of Prometheus. @param {string} text */
export function sums(text) {
  const found = {};
  for (const line of text.split('\n')) {
    const match = /^([a-z_]+)(?:\{[^}]*\})? (\S+)$/.exec(line);
    if (match) found[match[1]] = (found[match[1]] ?? 0) + Number(match[2]);
  }
  return found;
}

const mean = (found, name) =>
  found[`${name}_count`] ? `${short((found[`${name}_sum`] / found[`${name}_count`]) * 1000)} ms` : '';

function show(found, now) {
  if (last) rates.push(((found.tern_generated_tokens_total - last.tokens) * 1000) / (now - last.at));
  last = {tokens: found.tern_generated_tokens_total, at: now};
  if (rates.length > KEPT) rates.shift();
  plot($('rate-plot'), rates, rates.length);
  facts($('server-facts'), [
    ['Running', `${found.tern_sequences_running} of requests, ${found.tern_sequences_waiting} wait`],
    ['Tokens', `${found.tern_generated_tokens_total} generated, ${found.tern_prompt_tokens_total} of prompts`],
    [
      'Found again',
      found.tern_prompt_tokens_total
        ? `${percent(found.tern_cached_tokens_total / found.tern_prompt_tokens_total)} of prompts`
        : '',
    ],
    ['Pages', `${found.tern_pages_used} used, ${found.tern_pages_cached} kept, of ${found.tern_pages}`],
    ['First token', mean(found, 'tern_first_token_seconds')],
    ['Between tokens', mean(found, 'tern_between_tokens_seconds')],
  ]);
}

async function read() {
  if (!document.hidden)
    try {
      show(sums(await (await ask('metrics')).text()), performance.now());
    } catch {
      last = null; /* the chat says what is wrong */
    }
  setTimeout(read, EVERY_MS);
}

export function start() {
  plot($('rate-plot'), [], 0);
  read();
}
