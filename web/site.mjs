/**
 * Puts the page together, ready for any static server:
 *   node web/site.mjs build/web/site
 * web/page, web/lib with the WebAssembly modules in lib/wasm, the bundled model, and WebTorrent where it is installed,
 * which is loaded when a torrent is. Scripts and style sheets are minified where esbuild is installed. Then writes into
 * sw.js which files the service worker keeps (all but models, WebTorrent, source maps and sw.js itself), and a version
 * that changes with any of them.
 * Prints what they take, gzipped.
 */
import {createHash} from 'node:crypto';
import {cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync} from 'node:fs';
import {dirname, join} from 'node:path';
import {fileURLToPath} from 'node:url';
import {gzipSync} from 'node:zlib';

const WEB = dirname(fileURLToPath(import.meta.url));
const MODEL = 'models/chat.gguf';

const WEBTORRENT = {'node_modules/webtorrent/dist/webtorrent.min.js': 'webtorrent.min.js',
  'node_modules/webtorrent/LICENSE': 'webtorrent.LICENSE'};

const kept = (name) =>
  name !== 'sw.js' && !/^(models|vendor)\//.test(name) && !/\.(gguf|map|d\.ts|cjs)$/.test(name);

/** Names of the page's own files, sorted. @param {string} site */
export function pageFiles(site) {
  const names = readdirSync(site, {recursive: true, withFileTypes: true})
    .filter((entry) => entry.isFile())
    .map((entry) =>
      join(entry.parentPath ?? entry.path, entry.name)
        .slice(join(site, '/').length)
        .replaceAll('\\', '/'),
    );
  return names.filter(kept).sort();
}

/**
 * Writes files and version into SITE/sw.js.
 * @param {string} site @returns {{version: string, files: string[], gzipped: number}} bytes
 */
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

/** esbuild, or null where it is not installed. */
const esbuild = await import('esbuild').catch((error) => {
  if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error;
  return null;
});

/**
 * Minifies the scripts and style sheets written here, each in its place. Emscripten's are minified already, and `stamp`
 * reads sw.js. @param {string} site
 */
function minify(site) {
  const mine = pageFiles(site).filter((name) => /\.(js|css)$/.test(name) && !name.startsWith('lib/wasm/'));
  for (const name of mine) {
    const path = join(site, name), loader = name.endsWith('.css') ? 'css' : 'js';
    const {code} = esbuild.transformSync(readFileSync(path, 'utf8'), {minify: true, target: 'es2022', loader});
    writeFileSync(path, code);
  }
}

/** Throws where the WebAssembly modules were not built. @param {string} site is made anew */
export function assemble(site) {
  for (const name of ['tern.js', 'tern.wasm']) {
    const path = join(WEB, 'lib/wasm', name);
    if (!existsSync(path)) throw new Error(`${path} is missing: build the WebAssembly modules first (make web)`);
  }
  rmSync(site, {recursive: true, force: true});
  mkdirSync(join(site, 'models'), {recursive: true});
  cpSync(join(WEB, 'page'), site, {recursive: true});
  cpSync(join(WEB, 'lib'), join(site, 'lib'), {recursive: true, filter: (path) => !/\.(d\.ts|cjs)$/.test(path)});
  cpSync(join(WEB, '..', MODEL), join(site, MODEL));
  for (const [from, to] of Object.entries(WEBTORRENT))
    if (existsSync(join(WEB, from))) cpSync(join(WEB, from), join(site, 'vendor', to));
  if (esbuild) minify(site);
  return stamp(site);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const {files, gzipped} = assemble(process.argv[2] ?? join(WEB, '../build/web/site'));
  if (!esbuild) console.log('The page is not minified: npm --prefix web ci --ignore-scripts installs esbuild.');
  console.log(`${files.length} files of the page, ${(gzipped / 1e6).toFixed(2)} MB gzipped`);
}
