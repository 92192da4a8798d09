#!/usr/bin/env node
// Compiles tests/data/kernels/*.wgsl, the kernels with a mistake each, as build.mjs compiles the real ones.
import fs from 'node:fs';
import path from 'node:path';
import {fileURLToPath} from 'node:url';

import {compile} from './lib/compile.mjs';
import {plainKernel} from './lib/specialise.mjs';

const FOLDER = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../tests/data/kernels');

// [[file to write, its bytes]]
export function fixtures() {
    const names = fs.readdirSync(FOLDER).filter((f) => f.endsWith('.wgsl')).map((f) => f.slice(0, -5));
    return names.sort().map((name) => {
        const row = {name, file: name, needs: 1, overrides: {}, where: 'tests/data/kernels'};
        const text = fs.readFileSync(path.join(FOLDER, `${name}.wgsl`), 'utf8');
        const words = compile(row, plainKernel(`tests/data/kernels/${name}.wgsl`, text), {check: false});
        return [path.join(FOLDER, `${name}.spv`), Buffer.from(words.buffer)];
    });
}

if (process.argv[1] && fs.realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
    for (const [file, bytes] of fixtures()) fs.writeFileSync(file, bytes);
}
