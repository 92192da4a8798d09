/**
 * Whether the WebAssembly modules and the kernels are there; for `skip`. Where CI says so (TERN_WEB_REQUIRED) tests
 * run, and fail.
 */
import {existsSync} from 'node:fs';
import {fileURLToPath} from 'node:url';

const LIB = new URL('../../lib/', import.meta.url);
export const MODEL = fileURLToPath(new URL('../../../models/stories.gguf', import.meta.url));

/** @param {string[]} files of web/lib */
export function missing(...files) {
  if (process.env.TERN_WEB_REQUIRED) return false;
  const absent = files.find((file) => !existsSync(new URL(file, LIB)));
  return absent ? `no web/lib/${absent}: make web` : false;
}
