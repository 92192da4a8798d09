/**
 * What loading needs of a package's manifest: its name, its shards, and where they lie in the file; of an adapter's its
 * files.
 */

import {TernError} from './errors.js';

export const MANIFEST_BYTES = 16 << 20;
/** No shard is larger, but those of experts. */
export const SHARD_BYTES = 64 << 20;
export const EXPERT_BYTES = 1 << 30;
/** Names of shards, which stay inside the package's folder. */
export const FILE_NAME = /^[A-Za-z0-9_-][A-Za-z0-9._-]*$/;

/**
 * @typedef {{file: string, bytes: number, sha256: string, place: number, expert: string | null}} Shard `place`: among
 *   the manifest's; `expert`: "layer_expert", whose it is
 * @typedef {{size: number, ranges: {offset: number, bytes: number, at: number}[]}} Layout of a file: which of its
 *   ranges lie where in the shards that are no expert's, one behind another, in the order of the file
 */

/**
 * @param {string} text of manifest.json
 * @param {string} where for messages
 * @param {(text: string) => any} [check] the core's: throws MALFORMED where the manifest is not what the format says
 * @returns {Promise<{name: string | null, shards: Shard[], ordered: number, layout: Layout | null}>} the first
 *   `ordered` shards make up what is read in order, the others are experts'; `layout` null: they are the file
 */
export async function readManifest(text, where, check) {
  const manifest = parse(text, where);
  if (isAdapters(manifest))
    throw new TernError('UNSUPPORTED', `${where}: the package of an adapter (LoRA), that of a model expected`);
  await check?.(text);
  const {version, name = null} = manifest ?? {};
  const shards = shardsOf(manifest, where, ({type}) => (type === 'expert' ? EXPERT_BYTES : SHARD_BYTES));
  const whole = () => ({shards: shards.map(plain), ordered: shards.length, layout: null});
  const plan = version === 2 ? byExpert(shards, where) : whole();
  return {name: typeof name === 'string' ? name : null, ...plan};
}

/**
 * The files of an adapter's package. Errors: MALFORMED, UNSUPPORTED (a model's).
 * @param {string} text of manifest.json @param {string} where for messages
 * @returns {{file: string, bytes: number, sha256: string}[]}
 */
export function readAdapterManifest(text, where) {
  const manifest = parse(text, where);
  if (!isAdapters(manifest))
    throw new TernError('UNSUPPORTED', `${where}: the package of a model, that of an adapter (LoRA) expected`);
  return shardsOf(manifest, where, () => EXPERT_BYTES);
}

const isAdapters = (manifest) => manifest?.kind === 'adapter';

function shardsOf(manifest, where, mostOf) {
  const {shards} = manifest ?? {};
  if (!Array.isArray(shards) || shards.length === 0)
    throw malformed(where, `"shards" is ${JSON.stringify(shards)}, expected a list of shards`);
  shards.forEach((shard, i) => checkShard(shard, mostOf(shard ?? {}), `${where}: shards[${i}]`));
  return shards;
}

const plain = ({file, bytes, sha256, expertKey = null}, place) => ({file, bytes, sha256, place, expert: expertKey});

/** Dense shards first, then those of experts. */
function byExpert(shards, where) {
  const all = shards.map(plain);
  const dense = all.filter(({expert}) => expert === null);
  const ranges = [];
  let before = 0;
  for (const {place, bytes} of dense) {
    let at = before;
    for (const [offset, n] of rangesOf(shards[place], `${where}: shards[${place}]`)) {
      ranges.push({offset, bytes: n, at});
      at += n;
    }
    before += bytes;
  }
  ranges.sort((a, b) => a.offset - b.offset);
  const size = all.reduce((sum, {bytes}) => sum + bytes, 0);
  const experts = all.filter(({expert}) => expert !== null);
  return {shards: [...dense, ...experts], ordered: dense.length, layout: {size, ranges}};
}

/** That they cover the file and fill their shards is the core's to check. */
function rangesOf({ranges}, where) {
  const right = (range) => Array.isArray(range) && range.length === 2 && range.every((n) => Number.isSafeInteger(n));
  if (Array.isArray(ranges) && ranges.every(right)) return ranges;
  throw malformed(where, `"ranges" is ${JSON.stringify(ranges)}, expected a list of [offset, bytes]`);
}

function parse(text, where) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new TernError('MALFORMED', `${where} is no manifest: ${error.message}`, {cause: error});
  }
}

/** Names stay inside the package's folder, whoever wrote the manifest. */
function checkShard(shard, most, where) {
  const {file, bytes, sha256} = shard ?? {};
  if (typeof file !== 'string' || !FILE_NAME.test(file)) {
    throw malformed(where, `"file" is ${JSON.stringify(file)}, expected the name of a file beside the manifest`);
  }
  if (!Number.isInteger(bytes) || bytes < 1 || bytes > most) {
    throw malformed(where, `"bytes" is ${JSON.stringify(bytes)}, expected 1 to ${most}`);
  }
  if (typeof sha256 !== 'string' || !/^[0-9a-f]{64}$/.test(sha256)) {
    throw malformed(where, `"sha256" is ${JSON.stringify(sha256)}, expected 64 hexadecimal digits`);
  }
}

const malformed = (where, what) => new TernError('MALFORMED', `${where}: ${what}`);
