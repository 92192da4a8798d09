#!/usr/bin/env node
// Prints a kernel's text with all that it imports, as devices with subgroups get it, or a pipeline's, with its
// overrides. With --spirv, the words of a pipeline as they are committed, for spirv-dis.
import {parseArgs} from 'node:util';

import {GENERATED, kernelFor, readKernels, readTable} from './lib/folders.mjs';
import {readPack, unpack} from './lib/pack.mjs';
import {withConstants} from './lib/specialise.mjs';

const USAGE = 'usage: expand.mjs KERNEL | PIPELINE | --spirv PIPELINE   (build.mjs --list names them)';

async function expanded(name) {
    const kernels = await readKernels(), row = readTable().find((r) => r.name === name);
    if (row) return withConstants(row, kernelFor(row, kernels));
    if (!kernels.has(name)) throw new Error(`${name}: no kernel and no pipeline has this name`);
    return kernels.get(name).subgroups.text;
}

function spirv(name) {
    const entries = readPack(GENERATED);
    if (!entries.has(name)) throw new Error(`${name}: no pipeline has this name`);
    return Buffer.from(unpack(entries, name).buffer);
}

try {
    const {values, positionals} = parseArgs({allowPositionals: true, options: {spirv: {type: 'boolean'}}});
    if (positionals.length !== 1) throw new Error(USAGE);
    process.stdout.write(values.spirv ? spirv(positionals[0]) : await expanded(positionals[0]));
} catch (error) {
    console.error(error.message);
    process.exitCode = 2;
}
