/** @tern/web as `npm pack` packs it, installed into a folder of its own, without a network. */
import {execFile} from 'node:child_process';
import {readFile} from 'node:fs/promises';
import {join} from 'node:path';
import {promisify} from 'node:util';
import {assemble} from '../../package.mjs';

const run = promisify(execFile);
const QUIET = ['--silent', '--offline', '--ignore-scripts', '--no-audit', '--no-fund'];

/**
 * @param {string} folder for the tarball
 * @returns {Promise<{tarball: string, files: string[]}>} `files`: what is in it
 */
export async function pack(folder) {
  assemble(join(folder, 'package'));
  const {stdout} = await run('npm', ['pack', ...QUIET, '--json', join(folder, 'package')], {cwd: folder});
  const [{filename, files}] = JSON.parse(stdout);
  return {tarball: join(folder, filename.replace(/^@/, '').replace('/', '-')), files: files.map(({path}) => path)};
}

/** Installs it there, beside what the folder's lock file has brought. */
export async function install(tarball, folder) {
  await run('npm', ['install', ...QUIET, '--no-save', tarball], {cwd: folder});
  const manifest = join(folder, 'node_modules/@tern/web/package.json');
  return JSON.parse(await readFile(manifest, 'utf8'));
}
