/**
 * GGUF files in parts, as llama.cpp's gguf-split names them: NAME-00001-of-00003.gguf. Any of them stands for all,
 * which lie beside it.
 */

import {TernError} from './errors.js';

/** As many as the core takes. */
const MOST_PARTS = 4096;
const PART = /^(.*)-(\d{5})-of-(\d{5})(\.gguf)$/is;

/**
 * What a path says of itself; null: it is no part, or the only one. Errors: LIMIT.
 * @param {string} path @returns {{stem: string, part: number, count: number, ending: string} | null}
 */
export function partOf(path) {
  const [, stem, number, of, ending] = PART.exec(path) ?? [];
  const part = Number(number), count = Number(of);
  if (!stem || !(count > 1 && part >= 1 && part <= count)) return null;
  if (count > MOST_PARTS) throw new TernError('LIMIT', `${path}: ${count} parts, at most ${MOST_PARTS} expected`);
  return {stem, part, count, ending};
}

const five = (n) => String(n).padStart(5, '0');

/** The paths of all parts, in their order; of a whole file its own. @param {string} path @returns {string[]} */
export function partPaths(path) {
  const found = partOf(path);
  if (!found) return [path];
  const {stem, count, ending} = found;
  return Array.from({length: count}, (_, i) => `${stem}-${five(i + 1)}-of-${five(count)}${ending}`);
}

/** The same of a URL, whose query stays. @param {string} href */
export function partUrls(href) {
  const url = new URL(href);
  if (!partOf(url.pathname)) return [href];
  return partPaths(url.pathname).map((path) => Object.assign(new URL(href), {pathname: path}).href);
}

/** The path of the first part, by which all of them are known. @param {string} path */
export const firstPart = (path) => partPaths(path)[0];

/** What the whole is called: NAME.gguf. @param {string} name */
export function wholeName(name) {
  const found = partOf(name);
  return found ? found.stem + found.ending : name;
}

/**
 * The files of one model in their order. Errors: NOT_FOUND, naming what is missing; INVALID_ARGUMENT (others).
 * @template {{name?: string}} T
 * @param {T[]} files @returns {T[] | null} null: the first of them is no part
 */
export function inOrder(files) {
  const found = partOf(files[0]?.name ?? '');
  if (!found) return null;
  const paths = partPaths(files[0].name ?? '');
  const other = files.find(({name = ''}) => !paths.includes(name));
  if (other)
    throw new TernError('INVALID_ARGUMENT', `${other.name} is no part of the same model as ${files[0].name}`);
  return paths.map((path, i) => files.find(({name}) => name === path) ?? missing(path, i, found.count, files.length));
}

function missing(path, i, count, picked) {
  const among = picked === 1 ? 'pick all parts together' : `it is not among the ${picked} files picked`;
  throw new TernError('NOT_FOUND', `${path}, part ${i + 1} of the model's ${count}, is missing: ${among}`);
}

/** Says of an error which part it is about. @param {any} error @returns {any} */
export function aboutPart(error, i, count) {
  if (count === 1 || error?.code === 'CANCELLED' || !error?.code) return error;
  return new TernError(error.code, `part ${i + 1} of the model's ${count}: ${error.message}`, {cause: error});
}
