/** Opens the built site in Chromium, in a profile of its own. */
import {execFileSync} from 'node:child_process';
import {join} from 'node:path';
import {after} from 'node:test';
import {ROOT, SITE, TERN, launch, missing, ready, settle, watchedPage} from './browser.mjs';
import {serve as serveShipped} from '../../serve.mjs';
import {serve} from './server.mjs';

/** The bundled model, which follows a chat template, and a smaller one that has none. */
export const MODEL = join(ROOT, 'models/chat.gguf');
export const STORIES = join(ROOT, 'models/stories.gguf');
export const PROMPT = 'Once upon a time';
export const TOKENS = 48;
/**
 * Settings of the page: completing texts greedily on the CPU. The GPU is SwiftShader, which compiles for seconds and
 * writes slowly.
 */
export const GREEDY = {mode: 'complete', 'sampling.temperature': 0, 'sampling.maxTokens': TOKENS, backend: 'cpu'};
export const ON_GPU = {...GREEDY, 'sampling.maxTokens': 6, backend: 'webgpu'};
export const skip = missing();

/** What a test that fails leaves open is closed after the file's last test. */
const stations = new Set();
after(() => Promise.all([...stations].map((station) => station.close())));

/** What `tern run --greedy` writes: the prompt and its continuation. */
export function nativeText(prompt = PROMPT, tokens = TOKENS, more = [], model = MODEL) {
  const args = ['run', '-m', model, '-p', prompt, '-n', String(tokens), '--greedy', '--json', '--quiet', ...more];
  const found = JSON.parse(execFileSync(TERN, args, {encoding: 'utf8', env: {...process.env, DEBUGINFOD_URLS: ''}}));
  return {text: prompt + found.text, tokens: found.statistics.generated_tokens};
}

/** The site as `make web-serve` serves it, policy headers included. */
async function shippedServer() {
  const server = await serveShipped(SITE);
  const close = () =>
    new Promise((done) => {
      server.close(done);
      server.closeAllConnections();
    });
  return {url: `http://localhost:${server.address().port}/`, port: server.address().port, close};
}

/**
 * A browser and the site on a server (`shipped`: that of make web-serve); `open` gives a page in a new profile, or in
 * `context`.
 * @param {{gpu?: boolean, isolated?: boolean, host?: string, args?: string[], routes?: any,
 *   mounts?: [string, string][], shipped?: boolean, small?: boolean}} options
 *   `small`: the smaller model as the bundled one
 */
export async function station(options = {}) {
  const {gpu = true, isolated = true, host, args = [], routes = {}, mounts = [], shipped = false, small} = options;
  const browser = await launch({gpu, args});
  const mine = () => serve({mounts: [...mounts, ['/', SITE]], isolated, host, routes});
  const server = await (shipped ? shippedServer() : mine());
  if (small) routes['/models/chat.gguf'] = server.sendFile(STORIES);
  async function open({settings = {}, options = {}, context, path = '', url = server.url, wait = true} = {}) {
    const place =
      context ?? (await browser.newContext({viewport: {width: 1280, height: 860}, acceptDownloads: true, ...options}));
    if (!context) await settle(place, settings);
    const page = await watchedPage(place, url);
    await page.goto(url + path);
    if (wait) await ready(page);
    return page;
  }
  const place = {browser, server, open, close};
  async function close() {
    if (!stations.delete(place)) return;
    await browser.close();
    await server.close();
  }
  stations.add(place);
  return place;
}

/** Types an address into the picker and loads it. */
export async function loadUrl(page, url) {
  await page.evaluate(() => {
    location.hash = '#models';
  });
  await page.fill('#url', url);
  await page.press('#url', 'Enter');
}

/** Waits for an error; gives its text. */
export async function alertText(page, timeout = 30000) {
  const alert = page.locator('[role=alert]').last();
  await alert.waitFor({timeout});
  return alert.innerText();
}
