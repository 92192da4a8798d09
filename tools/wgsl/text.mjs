#!/usr/bin/env node
// Makes kernels.js, the WGSL kernels for browsers: `export const kernels = {file: text}`. Needs no packages.
import fs from 'node:fs';
import path from 'node:path';
import {fileURLToPath} from 'node:url';

import {GPU, kernelFiles, readTables} from './lib/folders.mjs';
import {nativeOnly} from './lib/pipelines.mjs';
import {strip} from './lib/strip.mjs';

// The files that rows for WebGPU name, sorted.
function files() {
    return [...new Set(readTables().filter((row) => !nativeOnly(row)).map((row) => row.file))].sort();
}

export function kernelsModule() {
    const paths = kernelFiles();
    const texts = files().map((file) => {
        const text = strip(fs.readFileSync(path.join(GPU, paths[file]), 'utf8'));
        return `${JSON.stringify(file)}: ${JSON.stringify(text)}`;
    });
    return `// Made by tools/wgsl/text.mjs from src/backend/gpu. "~" begins lines for subgroups alone.
export const kernels = {\n${texts.join(',\n')}\n};\n`;
}

if (process.argv[1] && fs.realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
    if (process.argv.length !== 3) {
        console.error('usage: text.mjs FILE');
        process.exit(2);
    }
    fs.writeFileSync(process.argv[2], kernelsModule());
}
