#!/usr/bin/env node
// Makes kernels.js, the WGSL kernels for browsers: `export const kernels = {NAME: text}`. Needs no packages.
import fs from 'node:fs';
import path from 'node:path';
import {fileURLToPath} from 'node:url';

const GENERATED = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../src/backend/gpu/generated');

// Kernels share most of their declarations: each is written once, and a kernel is a list of their numbers, so that the
// module is half as long.
const DECLARATIONS = /^(?=fn |struct |const |override |var<|@group|@compute)/m;

// Spaces go beside what joins with no neighbour. Those around < and > stay: these may be the ends of a list of types.
const tight = (text) => text.replace(/ ?([,;:{}()]) ?/g, '$1')
    .replace(/(?<=[\w)\]]) (&&|\|\||[=!+*/|&^-]=|[=+*/^-]) (?=[\w(])/g, '$1');

export function kernelsModule() {
    const kernels = JSON.parse(fs.readFileSync(path.join(GENERATED, 'kernels.json'), 'utf8'));
    const numbers = new Map();
    const numberOf = (text) => numbers.get(text) ?? numbers.set(text, numbers.size).get(text);
    const lists = Object.entries(kernels).map(([name, lines]) =>
        [name, tight(lines.join('\n')).split(DECLARATIONS).map(numberOf)]);
    return `// Made by tools/wgsl/text.mjs from src/backend/gpu/generated/kernels.json.
const declarations = ${JSON.stringify([...numbers.keys()], null, 1)};
const lists = {
${lists.map(([name, list]) => ` ${JSON.stringify(name)}: [${list}],`).join('\n')}
};
/** @type {Record<string, string>} WGSL by name. */
export const kernels = Object.fromEntries(
 Object.entries(lists).map(([name, list]) => [name, list.map((number) => declarations[number]).join('')]),
);\n`;
}

if (process.argv[1] && fs.realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
    if (process.argv.length !== 3) {
        console.error('usage: text.mjs FILE');
        process.exit(2);
    }
    fs.writeFileSync(process.argv[2], kernelsModule());
}
