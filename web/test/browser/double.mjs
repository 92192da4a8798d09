/** Pages over a double of the library, in a browser of their own. */
import assert from 'node:assert/strict';
import {join} from 'node:path';
import {WEB, launch, ready, settle, watchedPage} from './browser.mjs';
import {serve} from './server.mjs';

/** The browser and the server of the page; `close` ends both. */
export async function launchDouble() {
  const browser = await launch({gpu: false});
  const routes = {};
  const server = await serve({mounts: [['/', join(WEB, 'page')]], routes});
  routes['/lib/index.js'] = server.sendFile(join(WEB, 'test/fake-tern.js'));

  /** Opens the page in a profile of its own; `fake` steers the double, `settings` are the page's. */
  async function open({fake = {}, settings = {}, options = {}, path = ''} = {}) {
    const context = await browser.newContext({acceptDownloads: true, ...options});
    await context.addInitScript((chosen) => {
      globalThis.fake = chosen;
    }, fake);
    await settle(context, settings);
    const page = await watchedPage(context, server.url);
    await page.goto(server.url + path);
    await ready(page);
    return page;
  }

  async function close() {
    await browser.close();
    await server.close();
  }

  return {open, close, server};
}

/** Closes a page on which no error was seen, nor a request to anybody else. */
export async function quiet(page) {
  assert.deepEqual(page.seen, {errors: [], foreign: []});
  await page.context().close();
}
