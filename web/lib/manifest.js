/** What loading needs of a package's manifest: its name, and its shards in order. */

import {TernError} from './errors.js';

/** No shard is larger. */
export const SHARD_BYTES = 64 << 20;

/**
 * @param {string} text of manifest.json
 * @param {string} where for messages
 * @param {(text: string) => any} [check] the core's: throws MALFORMED where the manifest is not what the format says
 * @returns {Promise<{name: string | null, shards: {file: string, bytes: number, sha256: string}[]}>}
 */
export async function readManifest(text, where, check) {
  const manifest = parse(text, where);
  await check?.(text);
  const {shards, version, name = null} = manifest ?? {};
  if (version === 2) throw new TernError('UNSUPPORTED', `${where}: shards by expert, which are not for a browser yet`);
  if (!Array.isArray(shards) || shards.length === 0)
    throw malformed(where, `"shards" is ${JSON.stringify(shards)}, expected a list of shards`);
  shards.forEach((shard, i) => checkShard(shard, `${where}: shards[${i}]`));
  return {name: typeof name === 'string' ? name : null, shards};
}

function parse(text, where) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new TernError('MALFORMED', `${where} is no manifest: ${error.message}`, {cause: error});
  }
}

/** Names stay inside the package's folder, whoever wrote the manifest. */
function checkShard(shard, where) {
  const {file, bytes, sha256} = shard ?? {};
  if (typeof file !== 'string' || !/^[A-Za-z0-9_-][A-Za-z0-9._-]*$/.test(file)) {
    throw malformed(where, `"file" is ${JSON.stringify(file)}, expected the name of a file beside the manifest`);
  }
  if (!Number.isInteger(bytes) || bytes < 1 || bytes > SHARD_BYTES) {
    throw malformed(where, `"bytes" is ${JSON.stringify(bytes)}, expected 1 to ${SHARD_BYTES}`);
  }
  if (typeof sha256 !== 'string' || !/^[0-9a-f]{64}$/.test(sha256)) {
    throw malformed(where, `"sha256" is ${JSON.stringify(sha256)}, expected 64 hexadecimal digits`);
  }
}

const malformed = (where, what) => new TernError('MALFORMED', `${where}: ${what}`);
