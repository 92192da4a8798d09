/** The bench in Debian's headless Chromium: a server of the library, the bench and the model, and one page. */
import path from 'node:path';

import {launch, WEB} from '../test/browser/browser.mjs';
import {serve} from '../test/browser/server.mjs';

/** In the page: a worker measures. */
function measureThere(message) {
  return new Promise((resolve, reject) => {
    const worker = new Worker('/bench/worker.js', {type: 'module'});
    worker.onmessage = ({data}) => {
      if (data.line) console.log(data.line);
      else if (data.error) reject(new Error(data.error));
      else resolve(data);
    };
    worker.onerror = (event) => reject(new Error(event.message));
    worker.postMessage(message);
  });
}

/**
 * @param {string} file @param {object} options as measure.js has them, and backend, threads, activations
 * @param {(line: string) => void} say
 * @returns {Promise<{best: object, gpu: object | null, browser: string}>} `browser`: its name and version
 */
export async function measureInChromium(file, options, say) {
  const mounts = [['/lib/', path.join(WEB, 'lib')], ['/bench/', path.join(WEB, 'bench')],
    ['/model/', path.dirname(path.resolve(file))]];
  const empty = (request, response, headers) =>
    response.writeHead(200, {...headers, 'Content-Type': 'text/html'}).end('<!doctype html><title>bench</title>');
  const server = await serve({mounts, routes: {'/': empty}});
  const browser = await launch({gpu: options.backend === 'webgpu'});
  try {
    const page = await browser.newPage();
    page.on('console', (message) => message.type() === 'log' && say(message.text()));
    await page.goto(server.url);
    const model = `/model/${encodeURIComponent(path.basename(file))}`;
    const found = await page.evaluate(measureThere, {model, options});
    return {...found, browser: `Chromium ${browser.version()}`};
  } finally {
    await browser.close();
    await server.close();
  }
}
