/** A model with weights of real size: the shapes of BitNet 700M, two layers, 67 MB. Made once by `tern synth`. */
import {execFileSync} from 'node:child_process';
import {existsSync, mkdirSync, renameSync} from 'node:fs';
import {dirname, join} from 'node:path';
import {fileURLToPath} from 'node:url';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const NATIVE = process.env.TERN_NATIVE ?? join(ROOT, 'build/release/tern');
export const REAL_WEIGHTS = join(ROOT, 'build/web-large/bitnet-700m-two-layers.gguf');

/** Why there is none, or false; for `skip`. */
export const noRealWeights = () =>
  process.env.TERN_WEB_REQUIRED || existsSync(REAL_WEIGHTS) || existsSync(NATIVE) ? false : `no ${NATIVE}`;

export function makeRealWeights() {
  if (existsSync(REAL_WEIGHTS)) return;
  mkdirSync(dirname(REAL_WEIGHTS), {recursive: true});
  const part = `${REAL_WEIGHTS}.${process.pid}`;
  const how = ['--preset', 'bitnet-700m', '--layers', '2', '--head', 'q8_0'];
  execFileSync(NATIVE, ['synth', ...how, '-o', part], {stdio: 'pipe'});
  renameSync(part, REAL_WEIGHTS);
}

/** Of a text of random bytes, what everybody shows alike. */
export const visible = (text) => text.replace(/[^\x21-\x7e]/g, '');

/** What the native command writes after a prompt. */
export function nativeReply(prompt, n) {
  const how = ['-p', prompt, '--greedy', '-n', `${n}`, '--json', '--quiet'];
  return visible(JSON.parse(execFileSync(NATIVE, ['run', '-m', REAL_WEIGHTS, ...how], {encoding: 'utf8'})).text);
}
