/** Models of the Hugging Face hub by their names: hf:ORG/NAME[/FILE][:TAG][@REVISION], as `tern pull` has them. */

import {TernError} from './errors.js';
import {HTTP_DEFAULTS} from './http.js';
import {firstPart, partOf, partPaths} from './parts.js';
import {isNode} from './platform.js';

/** @typedef {{repository: string, file: string, tag: string, revision: string}} HubName */

const HALF = '(?![^/:@]*(?:--|\\.\\.))[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])?';
const NAME = new RegExp(`^hf:(${HALF}/${HALF})(/[^:@]+)?(?::([\\w.-]+))?(?:@([^ ?#%]+))?$`, 'i');
/** Ternary first: it is what Tern is for. Then as in llama.cpp, Q4_K_M before others. */
const PREFERRED = ['I2_S', 'TQ2_0', 'TQ1_0', 'MXFP4', 'Q4_K_M', 'Q4_K_S', 'Q4_0', 'Q5_K_M', 'Q8_0', 'BF16', 'F16'];

export const isHub = (text) => /^hf:/i.test(text);

const safe = (path) => path.split('/').every((part) => !['', '.', '..'].includes(part)) && !/[\\\0-\x1f]/.test(path);

/** @param {string} text @returns {HubName} Errors: INVALID_ARGUMENT. */
export function parseHub(text) {
  const match = NAME.exec(text);
  const [, repository = '', path = '', tag = '', revision = 'main'] = match ?? [];
  const file = path.slice(1);
  if (!match || (file && tag) || (file && !safe(file)) || !safe(revision))
    throw new TernError(
      'INVALID_ARGUMENT',
      `"${text}": a model of the hub is hf:ORG/NAME[/FILE][:TAG][@REVISION], with a FILE or a TAG but not both`
    );
  return {repository, file, tag, revision};
}

/** Of HF_ENDPOINT under Node. */
const endpoint = () => ((isNode && process.env.HF_ENDPOINT) || 'https://huggingface.co').replace(/\/+$/, '');

/** Of a file that is split the first part stands for all. */
const isModel = (path) =>
  /\.gguf$/i.test(path) && !/(mmproj|imatrix)[^/]*$/i.test(path) && firstPart(path) === path;
const escaped = (tag) => tag.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
const hasTag = (path, tag) => new RegExp(`(^|[-./])${escaped(tag)}($|[-./])`, 'i').test(path);

/**
 * The file that a name without one means, by the rule of `tern pull`; of one that is split the first part.
 * @param {string[]} files @param {HubName} name @returns {string} Errors: NOT_FOUND, INVALID_ARGUMENT.
 */
export function chooseFile(files, {repository, tag}) {
  const models = files.filter(isModel);
  const there = (models.length ? models : files).slice(0, 8).join(', ') || 'nothing';
  const found = tag ? models.filter((path) => hasTag(path, tag)) : models;
  const whole = (path) => allThere(files, path);
  if (found.length === 0)
    throw new TernError('NOT_FOUND', `${repository} has no GGUF file${tag ? ` of ${tag}` : ''}: it has ${there}`);
  if (found.length === 1) return whole(found[0]);
  const first = PREFERRED.find((each) => !tag && found.some((path) => hasTag(path, each)));
  const chosen = first ? found.filter((path) => hasTag(path, first)) : [];
  if (chosen.length === 1) return whole(chosen[0]);
  throw new TernError(
    'INVALID_ARGUMENT',
    `${repository} has several files${tag ? ` of ${tag}` : ''}: ` +
      `name one of ${(chosen.length ? chosen : found).join(', ')}`
  );
}

/** The path, of a file that is split where no part is missing. */
function allThere(files, path) {
  const count = partOf(path)?.count;
  const absent = partPaths(path).findIndex((part) => !files.includes(part));
  if (absent < 0) return path;
  throw new TernError('NOT_FOUND', `${partPaths(path)[absent]}: part ${absent + 1} of ${count} is not there`);
}

async function filesOf({repository, revision}, {signal, http}) {
  const url = `${endpoint()}/api/models/${repository}/revision/${encodeURIComponent(revision)}`;
  const fetch = http?.fetch ?? HTTP_DEFAULTS.fetch;
  const response = await fetch(url, {signal}).catch((cause) => {
    if (signal?.aborted) throw new TernError('CANCELLED', `reading ${url} was cancelled`, {cause});
    throw new TernError('NETWORK', `${url}: no answer (${cause.message})`, {cause});
  });
  if (!response.ok) {
    const why = [401, 403, 404].includes(response.status) ? ': there is no such model, or it is gated' : '';
    throw new TernError(
      response.status === 404 ? 'NOT_FOUND' : 'NETWORK',
      `${url}: HTTP status ${response.status}${why}`
    );
  }
  const {siblings} = await response.json().catch(() => ({}));
  if (!Array.isArray(siblings)) throw new TernError('NETWORK', `${url}: the answer names no files ("siblings")`);
  return siblings.map(({rfilename}) => String(rfilename)).filter(safe);
}

/** Where the file of a name lies. @param {string} text @param {{signal?: AbortSignal, http?: any}} [options] */
export async function hubUrl(text, options = {}) {
  const name = parseHub(text);
  const file = name.file || chooseFile(await filesOf(name, options), name);
  const path = file.split('/').map(encodeURIComponent).join('/');
  return `${endpoint()}/${name.repository}/resolve/${encodeURIComponent(name.revision)}/${path}`;
}
