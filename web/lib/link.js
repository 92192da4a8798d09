/** The way to the core: a worker in a browser, this thread under Node. */

import {TernError} from './errors.js';
import {isNode} from './platform.js';
import {Client} from './rpc.js';

const here = import.meta.url;
/** A worker that does not answer is ended after so many ms. */
const FAREWELL_MS = 2000;

/** @typedef {{client: Client, close(): Promise<void>}} Link */

/** @param {(message: string) => void} onLost @returns {Promise<Link>} */
export function openLink(onLost) {
  return isNode ? openHere(onLost) : Promise.resolve(openWorker(onLost));
}

async function openHere(onLost) {
  const [{Host, METHODS}, {Server}] = await Promise.all([import('./host.js'), import('./rpc.js')]);
  const client = new Client((message) => queueMicrotask(() => server.receive(message)), onLost);
  const server = new Server(new Host(), (message) => queueMicrotask(() => client.receive(message)), METHODS);
  return {
    client,
    close: once(async () => {
      await client.call('dispose').finally(() => client.fail(gone()));
    })
  };
}

function openWorker(onLost) {
  const worker = startWorker();
  const client = new Client((message) => worker.postMessage(message), onLost);
  worker.onmessage = ({data}) => client.receive(data);
  worker.onmessageerror = () => fail('a message from the worker could not be read');
  worker.onerror = (event) =>
    fail(event.message ? `the worker failed: ${event.message}` : `the worker ${worker.url} could not be started`);
  const fail = (message) => {
    client.fail(new TernError('INTERNAL', message));
    worker.terminate();
  };
  return {
    client,
    close: once(async () => {
      const late = new Promise((resolve) => setTimeout(resolve, FAREWELL_MS));
      await Promise.race([client.call('dispose').catch(() => {}), late]);
      worker.terminate();
      client.fail(gone());
    })
  };
}

/** Workers come from the page's own origin: a library that lies elsewhere is imported by a small one. */
function startWorker() {
  const url = new URL('worker.js', here).href;
  const own = new URL(here).origin === globalThis.location?.origin;
  try {
    return Object.assign(own ? ownWorker() : foreignWorker(url), {url});
  } catch (error) {
    throw new TernError('UNSUPPORTED', `the worker ${url} cannot be started: ${error.message}`, {cause: error});
  }
}

/** In the form that bundlers know. */
const ownWorker = () => new Worker(new URL('./worker.js', import.meta.url), {type: 'module', name: 'tern'});

function foreignWorker(url) {
  const small = new Blob([`import ${JSON.stringify(url)};`], {type: 'text/javascript'});
  return new Worker(URL.createObjectURL(small), {type: 'module', name: 'tern'});
}

const gone = () => new TernError('INVALID_ARGUMENT', 'this Tern has been disposed of');

/** The first call's promise, for all calls. */
function once(action) {
  let result = null;
  return () => (result ??= action());
}
