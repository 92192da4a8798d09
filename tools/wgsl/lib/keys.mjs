// What a kernel's SPIR-V was made from, as a key of its linked texts, its rows and the tools, and a digest of what it
// became. They lie beside the pack, so that only kernels that have changed are made again, and those whose modules are
// not those of the key, as after a merge.
import crypto from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import {fileURLToPath} from 'node:url';

import {kernelFor} from './folders.mjs';

export const KEYS = 'kernels.keys';
const HEAD =
    '# Made by tools/wgsl (`make shaders`); do not edit. Kernels: what each was made from, and what it became.\n';
const HERE = path.dirname(fileURLToPath(import.meta.url));

// All that compiles: our own files, and the lock file with the versions of the others.
function toolsText() {
    const files = fs.readdirSync(HERE).filter((name) => name.endsWith('.mjs')).sort();
    return [...files.map((name) => path.join(HERE, name)), path.join(HERE, '../package-lock.json')]
        .map((file) => fs.readFileSync(file, 'utf8'));
}
const tools = toolsText();

const hash = (parts) =>
    parts.reduce((sum, part) => sum.update(part), crypto.createHash('sha256')).digest('hex').slice(0, 16);

// The digest of a kernel's packed modules (pack.mjs); of those that are missing it is another.
export function digestOf(file, rows, entries) {
    const own = rows.filter((row) => row.file === file).map((row) => entries.get(row.name));
    return hash(own.flatMap((e) => (e ? [`${e.reference} ${e.words} ${e.sum} `, e.packed] : ['missing'])));
}

// The key of a kernel, as 16 digits.
export function keyOf(file, rows, kernels) {
    const own = rows.filter((row) => row.file === file).map(({where, ...row}) => row);
    const texts = [...new Set(own.map((row) => kernelFor(row, kernels).text))];
    return hash([JSON.stringify([tools, own, texts])]);
}

export const keysFile = (keys) =>
    Buffer.from(HEAD + [...keys].sort().map(([file, key]) => `${file} ${key}\n`).join(''));

// Kernel -> key and digest, as a folder has them.
export function readKeys(folder) {
    const file = path.join(folder, KEYS), text = fs.existsSync(file) ? fs.readFileSync(file, 'utf8') : '';
    return new Map([...text.matchAll(/^(\w+) ([0-9a-f]{16} [0-9a-f]{16})$/gm)].map(([, name, key]) => [name, key]));
}
