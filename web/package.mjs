/**
 * Puts the npm package together, ready for `npm pack`:
 *   node web/package.mjs build/web/package
 * web/lib with the modules and kernels that were built, the bundled model, examples, README and LICENSE.
 */
import {cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {dirname, join} from 'node:path';
import {fileURLToPath} from 'node:url';

const WEB = dirname(fileURLToPath(import.meta.url)), ROOT = join(WEB, '..');
const BUILT = ['wasm/tern.js', 'wasm/tern.wasm', 'wasm/tern-threads.js', 'wasm/tern-threads.wasm',
  'wasm/tern-threads.worker.js', 'wasm/tern-threads.worker.cjs', 'kernels.js'];

/** What `npm install` needs of web/package.json: not the scripts and packages of its tests. */
function manifest() {
  const whole = JSON.parse(readFileSync(join(WEB, 'package.json'), 'utf8'));
  const {scripts, devDependencies, private: hidden, ...rest} = whole;
  return `${JSON.stringify(rest, null, 2)}\n`;
}

/** @param {string} folder is made anew */
export function assemble(folder) {
  const absent = BUILT.find((name) => !existsSync(join(WEB, 'lib', name)));
  if (absent) throw new Error(`web/lib/${absent} is missing: make web builds it`);
  rmSync(folder, {recursive: true, force: true});
  mkdirSync(join(folder, 'models'), {recursive: true});
  cpSync(join(WEB, 'lib'), join(folder, 'lib'), {recursive: true});
  cpSync(join(ROOT, 'models/chat.gguf'), join(folder, 'models/chat.gguf'));
  cpSync(join(ROOT, 'LICENSE'), join(folder, 'LICENSE'));
  cpSync(join(WEB, 'README.md'), join(folder, 'README.md'));
  cpSync(join(WEB, 'examples'), join(folder, 'examples'), {recursive: true});
  writeFileSync(join(folder, 'package.json'), manifest());
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = process.argv[2] ?? join(ROOT, 'build/web/package');
  assemble(folder);
  console.log(`${folder}: npm pack ${folder}`);
}
