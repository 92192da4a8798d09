/** The way to the core: a worker in a browser, this thread under Node. */

import {TernError} from './errors.js';
import {isElsewhere, isNode, whyNoWorker} from './platform.js';
import {Client} from './rpc.js';

/** undefined where a bundler makes one classic script of all. */
const here = import.meta.url;
/** A worker that does not answer is ended after so many ms. */
const FAREWELL_MS = 2000;

/** @typedef {{client: Client, close(): Promise<void>}} Link */

/**
 * @param {(message: string) => void} onLost @param {string | URL} [address] of worker.js, where a bundler has taken the
 *   rest of the library away from it
 * @returns {Promise<Link>}
 */
export async function openLink(onLost, address) {
  return isNode ? openHere(onLost) : openWorker(onLost, address);
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

function openWorker(onLost, address) {
  const worker = startWorker(address);
  const client = new Client((message) => worker.postMessage(message), onLost);
  worker.onmessage = ({data}) => client.receive(data);
  worker.onmessageerror = () => fail('INTERNAL', 'a message from the worker could not be read');
  worker.onerror = ({message}) =>
    message ? fail('INTERNAL', `the worker failed: ${message}`) : fail('UNSUPPORTED', notStarted(worker.url));
  const fail = (code, message) => {
    client.fail(new TernError(code, message));
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

const notStarted = (url) =>
  `the worker ${url} could not be started: it is not there, or the page's Content-Security-Policy forbids it ` +
  '(worker-src, script-src)';

/** Workers come from the page's own origin: a library that lies elsewhere is imported by a small one. */
function startWorker(address) {
  const refused = whyNoWorker();
  if (refused) throw refused;
  const {href: url} = urlOf(address);
  try {
    if (isElsewhere(url)) return Object.assign(new Worker(importing(url), how), {url});
    return Object.assign(address ? new Worker(url, how) : ownWorker(), {url});
  } catch (error) {
    throw new TernError('UNSUPPORTED', `the worker ${url} cannot be started: ${error.message}`, {cause: error});
  }
}

function urlOf(address) {
  if (address) return new URL(address, globalThis.document?.baseURI ?? location.href);
  if (here) return new URL('worker.js', here);
  throw new TernError('INVALID_ARGUMENT', 'Tern.load: worker is missing, where lib/worker.js lies: this is one script');
}

const how = /** @type {WorkerOptions} */ ({type: 'module', name: 'tern'});

/** In the form that bundlers know. */
const ownWorker = () => new Worker(new URL('./worker.js', import.meta.url), {type: 'module', name: 'tern'});

const importing = (url) =>
  URL.createObjectURL(new Blob([`import ${JSON.stringify(url)};`], {type: 'text/javascript'}));

const gone = () => new TernError('INVALID_ARGUMENT', 'this Tern has been disposed of');

/** The first call's promise, for all calls. */
function once(action) {
  let result = null;
  return () => (result ??= action());
}
