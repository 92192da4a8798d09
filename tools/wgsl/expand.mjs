#!/usr/bin/env node
// Prints a kernel's text with everything in it, or a pipeline's: with its overrides and without the lines that it does
// not have. With --spirv, the words of a pipeline as they are committed, for spirv-dis.
import {parseArgs} from 'node:util';

import {GENERATED, readKernel, readTable} from './build.mjs';
import {readModules} from './lib/pack.mjs';
import {textFor, withConstants} from './lib/specialise.mjs';

const USAGE = 'usage: expand.mjs KERNEL | PIPELINE | --spirv PIPELINE   (build.mjs --list names them)';

function expanded(name) {
    const rows = readTable(), row = rows.find((r) => r.name === name);
    if (row) return withConstants(row, textFor(row, readKernel(row)));
    if (!rows.some((r) => r.file === name)) throw new Error(`${name}: no kernel and no pipeline has this name`);
    return readKernel({file: name});
}

function spirv(name) {
    const words = readModules(GENERATED).get(name);
    if (!words) throw new Error(`${name}: no pipeline has this name`);
    return words;
}

try {
    const {values, positionals} = parseArgs({allowPositionals: true, options: {spirv: {type: 'boolean'}}});
    if (positionals.length !== 1) throw new Error(USAGE);
    process.stdout.write(values.spirv ? spirv(positionals[0]) : expanded(positionals[0]));
} catch (error) {
    console.error(error.message);
    process.exitCode = 2;
}
