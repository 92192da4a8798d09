/**
 * Writes into SITE/sw.js which files the service worker keeps, and a version that changes with any of them:
 *   node web/stamp.mjs build/web/site
 * All files of the folder but models (models/, *.gguf), source maps, and sw.js itself. Prints what they take, gzipped.
 */
import {createHash} from 'node:crypto';
import {readFileSync, readdirSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {fileURLToPath} from 'node:url';
import {gzipSync} from 'node:zlib';

const kept = (name) => name !== 'sw.js' && !name.startsWith('models/') && !/\.(gguf|map|d\.ts)$/.test(name);

/** Names of the page's own files, sorted. @param {string} site */
export function pageFiles(site) {
  const names = readdirSync(site, {recursive: true, withFileTypes: true}).filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name).slice(join(site, '/').length).replaceAll('\\', '/'));
  return names.filter(kept).sort();
}

/** @param {string} site @returns {{version: string, files: string[], gzipped: number}} */
export function stamp(site) {
  const files = pageFiles(site);
  const sum = createHash('sha256');
  let gzipped = 0;
  for (const name of files) {
    const bytes = readFileSync(join(site, name));
    sum.update(`${name}\0${bytes.length}\0`).update(bytes);
    gzipped += gzipSync(bytes, {level: 9}).length;
  }
  const version = sum.digest('hex').slice(0, 16);
  const path = join(site, 'sw.js');
  const text = readFileSync(path, 'utf8')
    .replace(/^const VERSION = .*;$/m, () => `const VERSION = '${version}';`)
    .replace(/^const FILES = .*;$/m, () => `const FILES = ${JSON.stringify(files)};`);
  writeFileSync(path, text);
  return {version, files, gzipped: gzipped + gzipSync(text, {level: 9}).length};
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const {files, gzipped} = stamp(process.argv[2] ?? 'build/web/site');
  console.log(`${files.length} files of the page, ${(gzipped / 1e6).toFixed(2)} MB gzipped`);
}
