#!/usr/bin/env node
// Makes kernels.js, the WGSL kernels for browsers: `export const kernels = {NAME: text}`. Needs no packages.
import fs from 'node:fs';
import path from 'node:path';
import {fileURLToPath} from 'node:url';

const GENERATED = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../src/backend/gpu/generated');

export function kernelsModule() {
    const kernels = JSON.parse(fs.readFileSync(path.join(GENERATED, 'kernels.json'), 'utf8'));
    const texts = Object.entries(kernels).map(([name, lines]) => [name, lines.join('\n')]);
    return `// Made by tools/wgsl/text.mjs from src/backend/gpu/generated/kernels.json.
export const kernels = ${JSON.stringify(Object.fromEntries(texts), null, 1)};\n`;
}

if (process.argv[1] && fs.realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
    if (process.argv.length !== 3) {
        console.error('usage: text.mjs FILE');
        process.exit(2);
    }
    fs.writeFileSync(process.argv[2], kernelsModule());
}
