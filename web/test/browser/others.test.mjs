/** The page's main ways in Firefox and WebKitGTK: load, answer, keep, go offline, fine-tune, use the adapter. */
import assert from 'node:assert/strict';
import test from 'node:test';
import {serve} from './server.mjs';
import {GREEDY, PROMPT, TOKENS, nativeText, skip} from './site.mjs';
import {SITE} from './browser.mjs';
import {BROWSERS, until} from './webdriver.mjs';

const SETTINGS = JSON.stringify({...GREEDY, backend: 'auto'});
const TEXT = 'The tern flies over the snow. '.repeat(12);
const READY = `const line = document.getElementById("model-line").textContent;
  return line !== "no model" && document.getElementById("loading").hidden`;
const ask = (text) =>
  `document.getElementById("prompt").value = ${JSON.stringify(text)};
   document.getElementById("composer").requestSubmit();`;
const REPLY = `const done = document.getElementById("stop").hidden && document.querySelectorAll(".turn .tools").length;
  return done ? [...document.querySelectorAll(".turn .reply")].at(-1).innerText : ""`;
const TRAIN = `location.hash = "#finetune";
  const set = {text: ${JSON.stringify(TEXT)}, steps: 3, batch: 1, sequence: 16, learningRate: 0.02};
  for (const [name, value] of Object.entries(set)) document.getElementById("ft-" + name).value = String(value);
  document.getElementById("finetune-form").requestSubmit();`;
/** Where there is no private file system (WebKitGTK when it is driven), the model is fetched anew each time. */
const FAILED = 'return /download failed/.test(document.getElementById("notices").innerText)';
const STATUS = 'return (document.getElementById("ft-status").textContent.match(/^Done after 3 steps.*/) ?? [""])[0]';

for (const [name, open, missing] of BROWSERS) {
  test(
    `${name}: a model, a text, offline, an adapter`,
    {skip: skip || missing || false, timeout: 120000},
    async (t) => {
      const server = await serve({mounts: [['/', SITE]], routes: {}});
      const browser = await open();
      t.after(async () => {
        await browser.close();
        await server.close();
      });
      await browser.goto(`${server.url}icon.svg`); // the page, left while it stores its files, stores none in WebKit
      await browser.run(`localStorage.setItem("tern", ${JSON.stringify(SETTINGS)})`);
      await browser.goto(server.url);
      await until(browser, READY, 'the bundled model');
      await browser.run(ask(PROMPT));
      const expected = nativeText(PROMPT, TOKENS).text.trimEnd();
      assert.equal(await until(browser, REPLY, 'a text'), expected);
      await until(browser, 'return /^Works/.test(document.getElementById("offline-note").textContent)', 'offline');
      await browser.run(TRAIN);
      assert.match(await until(browser, STATUS, 'fine-tuning'), /loss/);
      await browser.run('document.getElementById("ft-try").click()');
      await until(
        browser,
        'return document.getElementById("adapters").innerText.includes("fine-tuned here")',
        'the adapter',
      );
      await server.close();
      await browser.run('location.hash = "#chat"; location.reload()');
      const keeps = await browser.run('return typeof navigator.storage?.getDirectory === "function"');
      await until(browser, keeps ? READY : FAILED, 'the page without its server');
      assert.equal(await until(browser, REPLY, 'the conversation that was kept'), expected);
    },
  );
}
