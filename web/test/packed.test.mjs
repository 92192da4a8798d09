/** What `npm pack` makes of @tern/web, tried from an empty folder: what is in it, its example for Node, its types. */
import assert from 'node:assert/strict';
import {execFile} from 'node:child_process';
import {existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {after, before, describe, test} from 'node:test';
import {fileURLToPath} from 'node:url';
import {promisify} from 'node:util';
import {missing} from './support/built.mjs';
import {install, pack} from './support/packed.mjs';

const run = promisify(execFile);
const TSC = fileURLToPath(new URL('../node_modules/typescript/bin/tsc', import.meta.url));
const PROGRAM = readFileSync(new URL('types.ts', import.meta.url), 'utf8');

describe('the package from an empty folder', {skip: missing('wasm/tern-threads.wasm')}, () => {
  let folder, app, packed, manifest;

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'tern-pack-'));
    app = join(folder, 'app');
    mkdirSync(app);
    packed = await pack(folder);
    writeFileSync(join(app, 'package.json'), JSON.stringify({name: 'app', private: true, type: 'module'}));
    manifest = await install(packed.tarball, app);
  });
  after(() => rmSync(folder, {recursive: true}));

  test('it has what it needs, nothing of the tests, and no dependencies', () => {
    assert.equal(manifest.name, '@tern/web');
    assert.deepEqual([manifest.dependencies, manifest.devDependencies], [undefined, undefined]);
    assert.deepEqual(readdirSync(join(app, 'node_modules')).filter((name) => !name.startsWith('.')), ['@tern']);
    for (const file of ['LICENSE', 'README.md', 'lib/index.js', 'lib/index.d.ts', 'lib/worker.js', 'lib/kernels.js',
      'lib/wasm/tern.wasm', 'lib/wasm/tern-threads.worker.cjs', 'models/chat.gguf', 'examples/node.mjs'])
      assert.ok(packed.files.includes(file), file);
    assert.deepEqual(packed.files.filter((file) => /test|bench|node_modules|page\//.test(file)), []);
  });

  test('its example for Node answers, and the process ends without dispose()', async () => {
    const example = join(app, 'node_modules/@tern/web/examples/node.mjs');
    const {stdout} = await run(process.execPath, [example, 'What is your name?'], {cwd: app, timeout: 60000});
    assert.match(stdout, /Tern/);
  });

  test("a program of one's own imports it by its name", async () => {
    const program = `import {Tern, version} from '@tern/web';
      const tern = await Tern.load('bundled', {backend: 'cpu'});
      console.log(JSON.stringify([version, tern.model.name, tern.device.threads > 0]));`;
    writeFileSync(join(app, 'own.mjs'), program);
    const {stdout} = await run(process.execPath, ['own.mjs'], {cwd: app, timeout: 60000});
    assert.deepEqual(JSON.parse(stdout), [manifest.version, 'chat', true]);
  });

  test('its types, as TypeScript finds them', {skip: existsSync(TSC) ? false : 'no typescript: npm ci'}, async () => {
    writeFileSync(join(app, 'program.ts'), PROGRAM.replaceAll("'../lib/index.js'", "'@tern/web'"));
    for (const [module, resolution] of [
      ['nodenext', 'nodenext'],
      ['esnext', 'bundler']
    ]) {
      const library = 'es2022,dom,dom.iterable,dom.asynciterable';
      const flags = ['--noEmit', '--strict', '--target', 'es2022', '--lib', library];
      const how = ['--module', module, '--moduleResolution', resolution];
      const {stdout} = await run(process.execPath, [TSC, ...flags, ...how, 'program.ts'], {cwd: app}).catch((e) => e);
      assert.equal(stdout, '', resolution);
    }
  });
});
