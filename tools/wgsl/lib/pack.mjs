// All SPIR-V in two files: kernels.spvpack, the modules one behind the other, and spirv.def, which says where each
// pipeline's is: rows X(NAME, first word, words). Pipelines with the same words share them.
import fs from 'node:fs';
import path from 'node:path';

export const PACK = 'kernels.spvpack', INDEX = 'spirv.def';

const HEAD =
    '/* Made by tools/wgsl (`make shaders`); do not edit. Where the pipelines lie in kernels.spvpack, in words. */\n';
const ROW = /^X\((\w+), (\d+), (\d+)\)$/gm;

// [[file name, Buffer]] of modules, a Map from pipelines' names to Buffers.
export function packModules(modules) {
    const places = new Map(), parts = [], lines = [];
    let words = 0;
    for (const [name, bytes] of modules) {
        const key = bytes.toString('latin1');
        if (!places.has(key)) {
            places.set(key, words);
            parts.push(bytes);
            words += bytes.length / 4;
        }
        lines.push(`X(${name}, ${places.get(key)}, ${bytes.length / 4})\n`);
    }
    return [[PACK, Buffer.concat(parts)], [INDEX, Buffer.from(HEAD + lines.join(''))]];
}

// The modules of the pack in a folder, a Map; empty where there is none.
export function readModules(folder) {
    const modules = new Map();
    if (!fs.existsSync(path.join(folder, INDEX)) || !fs.existsSync(path.join(folder, PACK))) return modules;
    const pack = fs.readFileSync(path.join(folder, PACK));
    for (const [, name, first, n] of fs.readFileSync(path.join(folder, INDEX), 'utf8').matchAll(ROW)) {
        modules.set(name, pack.subarray(4 * Number(first), 4 * (Number(first) + Number(n))));
    }
    return modules;
}
