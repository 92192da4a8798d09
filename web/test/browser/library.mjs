/** The library as files of a server, for tests of it in a browser without the page. */
import {readFileSync, readdirSync} from 'node:fs';
import {join} from 'node:path';
import {SITE} from './browser.mjs';

const TYPES = {js: 'text/javascript', wasm: 'application/wasm', html: 'text/html'};
export const ISOLATED = {'cross-origin-opener-policy': 'same-origin', 'cross-origin-embedder-policy': 'require-corp'};

/** With an empty page, /index.html. */
export function libraryFiles() {
  const files = {'/index.html': Buffer.from('<!doctype html><title>test</title>')};
  for (const entry of readdirSync(join(SITE, 'lib'), {recursive: true, withFileTypes: true})) {
    const path = join(entry.parentPath ?? entry.path, entry.name);
    if (entry.isFile()) files[path.slice(SITE.length)] = readFileSync(path);
  }
  return files;
}

/** What its server says of each file: its type, and `headers`; by themselves those that threads need. */
export const typed =
  (headers = ISOLATED) =>
  (request, {path}) => ({
    headers: {'content-type': TYPES[path.split('.').pop()] ?? 'application/octet-stream', ...headers}
  });
