/** Files of the disk, under Node. */

import {TernError} from './errors.js';
import {importUnderNode} from './platform.js';

const PIECE_BYTES = 4 << 20;

/**
 * A file, or the manifest where the path (or file: URL) is a folder or a .json file (`manifest` is its path then, else
 * null).
 */
export async function openDisk(where) {
  const [{stat}, {join}, {fileURLToPath}] = await Promise.all(
    ['node:fs/promises', 'node:path', 'node:url'].map(importUnderNode)
  );
  const path = where.startsWith('file:') ? fileURLToPath(where) : where;
  const folder = await stat(path).then(
    (found) => found.isDirectory(),
    () => false
  );
  const at = folder ? join(path, 'manifest.json') : path;
  return {path, manifest: folder || path.endsWith('.json') ? at : null, file: await openFile(at)};
}

async function openFile(path) {
  const {open} = await importUnderNode('node:fs/promises');
  const {basename} = await importUnderNode('node:path');
  let handle;
  try {
    handle = await open(path, 'r');
  } catch (error) {
    throw new TernError(error.code === 'ENOENT' ? 'NOT_FOUND' : 'IO', `${path} cannot be opened: ${error.message}`, {
      cause: error
    });
  }
  const {size, mtimeMs} = await handle.stat();
  const close = () => handle.close();
  return {
    name: basename(path),
    size,
    version: {size, lastModified: mtimeMs},
    close,
    read: (offset, into, how) => read(handle, path, offset, into, how)
  };
}

async function read(handle, path, offset, into, {signal, onBytes} = {}) {
  for (let at = 0; at < into.length;) {
    if (signal?.aborted) throw new TernError('CANCELLED', `reading ${path} was cancelled`);
    const {bytesRead} = await handle.read(into, at, Math.min(PIECE_BYTES, into.length - at), offset + at);
    if (bytesRead === 0)
      throw new TernError('IO', `${path} ended after ${offset + at} bytes, expected ${offset + into.length}`);
    at += bytesRead;
    onBytes?.(bytesRead);
  }
}
