/** Starts Debian's Chromium for the browser tests and watches what a page does: errors, requests to others. */
import assert from 'node:assert/strict';
import {existsSync} from 'node:fs';
import {dirname, join} from 'node:path';
import {fileURLToPath} from 'node:url';
import {chromium} from 'playwright-core';

export const WEB = join(dirname(fileURLToPath(import.meta.url)), '../..');
export const ROOT = join(WEB, '..');
/** Where `make web` puts the page; TERN_SITE for another build. */
export const SITE = process.env.TERN_SITE ?? join(ROOT, 'build/web/site');
export const TERN = process.env.TERN_NATIVE ?? join(ROOT, 'build/release/tern');

export const EXECUTABLE = process.env.CHROMIUM ?? '/usr/bin/chromium';
const GPU = ['--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader', '--enable-features=Vulkan'];
const NO_GPU = ['--disable-features=WebGPU', '--disable-gpu'];

/** Why browser tests cannot run here, or false; for `skip`. Where CI says so (TERN_WEB_REQUIRED) they run, and fail. */
export function missing({site = true} = {}) {
  if (process.env.TERN_WEB_REQUIRED) return false;
  if (!existsSync(EXECUTABLE)) return `no ${EXECUTABLE}`;
  if (site && !existsSync(join(SITE, 'index.html'))) return `no ${SITE}: make web`;
  return false;
}

/** @param {{gpu?: boolean, args?: string[]}} options */
export function launch({gpu = true, args = []} = {}) {
  return chromium.launch({executablePath: EXECUTABLE, args: ['--no-sandbox', ...(gpu ? GPU : NO_GPU), ...args]});
}

/**
 * A page that notes what goes wrong: console errors, exceptions, requests to any other origin than `origin`.
 * @param {import('playwright-core').BrowserContext} context @param {string} origin
 */
export async function watchedPage(context, origin) {
  const page = await context.newPage();
  const seen = {errors: [], foreign: []};
  page.on('console', (message) => {
    if (message.type() === 'error') seen.errors.push(`${message.text()} ${message.location().url}`);
  });
  page.on('pageerror', (error) => seen.errors.push(String(error)));
  context.on('request', (request) => {
    const {protocol, origin: from} = new URL(request.url());
    if (protocol.startsWith('http') && `${from}/` !== origin) seen.foreign.push(request.url());
  });
  return Object.assign(page, {seen});
}

/** Waits until a model is ready; gives the first line. */
export async function ready(page, timeout = 180000) {
  await page.waitForFunction(
    () => document.getElementById('model-line').textContent !== 'no model' && document.getElementById('loading').hidden,
    null,
    {timeout},
  );
  return page.textContent('#model-line');
}

/** Writes a prompt, waits for the end, gives the last reply (completions: with the prompt). */
export async function ask(page, prompt, timeout = 120000) {
  await page.fill('#prompt', prompt);
  await page.press('#prompt', 'Enter');
  await finished(page, timeout);
  return page.locator('.turn .reply').last().innerText();
}

/** Waits until a part of the page shows what the pattern asks for; says at last what it shows instead. */
export async function says(page, selector, pattern, timeout = 10000) {
  let text = '';
  for (const end = Date.now() + timeout; Date.now() < end; await page.waitForTimeout(50)) {
    text = await page.innerText(selector);
    if (text.match(pattern)) return;
  }
  assert.match(text, pattern);
}

/** Waits until so many parts are there. */
export async function counts(locator, expected, timeout = 10000) {
  let count = -1;
  for (const end = Date.now() + timeout; Date.now() < end; await locator.page().waitForTimeout(50)) {
    count = await locator.count();
    if (count === expected) return;
  }
  assert.equal(count, expected);
}

/** Waits until nothing is being written. */
export async function finished(page, timeout = 120000) {
  await page.waitForFunction(
    () => document.getElementById('stop').hidden && !document.querySelector('.writing'),
    null,
    {timeout},
  );
}

/** Sets sampling through the page's own storage; before the page is opened. */
export async function settle(context, values) {
  await context.addInitScript((chosen) => {
    if (!localStorage.getItem('tern')) localStorage.setItem('tern', JSON.stringify(chosen));
  }, values);
}
