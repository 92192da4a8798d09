// The kernels for browsers: {NAME: lines}, and {'NAME with subgroups': lines} of those that differ, without comments.
import {nativeOnly} from './pipelines.mjs';

// Without comments, indentation and empty lines.
export function strip(text) {
    if (text.includes('/*')) throw new Error('a comment /* */: comments // expected');
    return text.split('\n').map((line) => line.replace(/\/\/.*$/, '').trim()).filter(Boolean);
}

// Those that no row for WebGPU names are left out.
export function browserTexts(kernels, rows) {
    const texts = {};
    for (const name of [...new Set(rows.filter((row) => !nativeOnly(row)).map((row) => row.file))].sort()) {
        const {plain, subgroups} = kernels.get(name);
        texts[name] = strip(plain.text);
        if (subgroups.text !== plain.text) texts[`${name} with subgroups`] = strip(subgroups.text);
    }
    return texts;
}
