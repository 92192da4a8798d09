/**
 * Other browsers for the tests, from Debian's packages, each through its own door: Firefox through Marionette (there is
 * no geckodriver in Debian 12), WebKitGTK's MiniBrowser through WebKitWebDriver. Both only open a page and run scripts.
 */
import {spawn} from 'node:child_process';
import {existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync} from 'node:fs';
import {connect} from 'node:net';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {createServer} from 'node:net';

const LIBRARIES = '/usr/lib/x86_64-linux-gnu';

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

function freePort() {
  const server = createServer();
  return new Promise((done) =>
    server.listen(0, '127.0.0.1', () => {
      const {port} = server.address();
      server.close(() => done(port));
    }),
  );
}

/** Asks again until it is there. */
async function eventually(action, ms = 30000) {
  for (const end = Date.now() + ms; ; await pause(100)) {
    try {
      return await action();
    } catch (error) {
      if (Date.now() > end) throw error;
    }
  }
}

/** Ends a program with all that it started. */
function ender(child) {
  return () => {
    try {
      process.kill(-child.pid, 'SIGKILL');
    } catch {
      /* it has ended */
    }
  };
}

const start = (program, args, env = {}) =>
  spawn(program, args, {stdio: 'ignore', detached: true, env: {...process.env, ...env}});

/** Marionette: "LENGTH:[0, id, command, parameters]", and [1, id, error, result] back. */
class Marionette {
  constructor(socket) {
    this.socket = socket;
    this.waiting = new Map();
    this.next = 1;
    let rest = Buffer.alloc(0);
    socket.on('data', (data) => {
      rest = this.#take(Buffer.concat([rest, data]));
    });
  }

  #take(bytes) {
    for (;;) {
      const colon = bytes.indexOf(':');
      const end = colon + 1 + Number(bytes.subarray(0, Math.max(0, colon)).toString());
      if (colon < 0 || bytes.length < end) return bytes;
      this.#answer(JSON.parse(bytes.subarray(colon + 1, end).toString()));
      bytes = bytes.subarray(end);
    }
  }

  #answer(message) {
    if (!Array.isArray(message)) return;
    const [, id, error, result] = message;
    const {done, failed} = this.waiting.get(id);
    if (error) failed(new Error(error.message));
    else done(result);
  }

  send(command, parameters = {}) {
    const id = this.next++;
    const text = Buffer.from(JSON.stringify([0, id, command, parameters]));
    this.socket.write(Buffer.concat([Buffer.from(`${text.length}:`), text]));
    return new Promise((done, failed) => this.waiting.set(id, {done, failed}));
  }
}

function connected(port) {
  return new Promise((done, failed) => {
    const socket = connect(port, '127.0.0.1', () => done(socket));
    socket.once('error', failed);
  });
}

async function openFirefox() {
  const profile = mkdtempSync(join(tmpdir(), 'tern-firefox-'));
  const port = await freePort();
  writeFileSync(join(profile, 'user.js'), `user_pref("marionette.port", ${port});\n`);
  const args = ['--headless', '--marionette', '--no-remote', '--profile', profile, 'about:blank'];
  const child = start('/usr/bin/firefox-esr', args, {HOME: profile});
  const end = ender(child);
  try {
    const marionette = new Marionette(await eventually(() => connected(port)));
    await marionette.send('WebDriver:NewSession', {capabilities: {alwaysMatch: {}}});
    return {
      goto: (url) => marionette.send('WebDriver:Navigate', {url}),
      run: async (script) => (await marionette.send('WebDriver:ExecuteScript', {script, args: []})).value,
      close: async () => {
        end();
        marionette.socket.destroy();
        await pause(200);
        rmSync(profile, {recursive: true, force: true, maxRetries: 5});
      },
    };
  } catch (error) {
    end();
    throw error;
  }
}

const miniBrowser = () =>
  readdirSync(LIBRARIES)
    .filter((name) => name.startsWith('webkit2gtk-'))
    .map((name) => join(LIBRARIES, name, 'MiniBrowser'))
    .find(existsSync);

async function ask(url, method, body) {
  const response = await fetch(url, {method, ...(body ? {body: JSON.stringify(body)} : {})});
  const {value} = await response.json();
  if (!response.ok) throw new Error(value.message ?? value.error);
  return value;
}

async function openWebKit() {
  const port = await freePort();
  const driver = start('/usr/bin/xvfb-run', ['-a', '/usr/bin/WebKitWebDriver', `--port=${port}`], {
    WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS: '1', // as root, in a container
    LIBGL_ALWAYS_SOFTWARE: '1',
  });
  const end = ender(driver);
  const options = {binary: miniBrowser(), args: ['--automation']};
  const capabilities = {alwaysMatch: {'webkitgtk:browserOptions': options}};
  const root = `http://127.0.0.1:${port}`;
  try {
    await eventually(() => ask(`${root}/status`, 'GET'));
    const {sessionId} = await ask(`${root}/session`, 'POST', {capabilities});
    const session = `${root}/session/${sessionId}`;
    return {
      goto: (url) => ask(`${session}/url`, 'POST', {url}),
      run: (script) => ask(`${session}/execute/sync`, 'POST', {script, args: []}),
      close: async () => {
        await ask(session, 'DELETE').catch(() => {});
        end();
      },
    };
  } catch (error) {
    end();
    throw error;
  }
}

/** Each: name, the way to open it, and why it cannot be had here, or ''. */
export const BROWSERS = [
  ['Firefox ESR', openFirefox, existsSync('/usr/bin/firefox-esr') ? '' : 'no firefox-esr'],
  [
    'WebKitGTK',
    openWebKit,
    existsSync('/usr/bin/WebKitWebDriver') && existsSync('/usr/bin/xvfb-run') && miniBrowser()
      ? ''
      : 'no webkit2gtk-driver, MiniBrowser or xvfb',
  ],
];

/** Waits until a script gives something true; gives it. */
export async function until(browser, script, what, ms = 60000) {
  for (const end = Date.now() + ms; ; await pause(200)) {
    const value = await browser.run(script);
    if (value) return value;
    if (Date.now() > end) throw new Error(`${what}: not within ${ms} ms; the page says ${await browser.run(SAID)}`);
  }
}

const SAID = `const parts = [...document.querySelectorAll("#notices, #model-line, #offline-note")];
  return [document.title, ...parts.map((part) => part.textContent.trim())].join(" | ")`;
