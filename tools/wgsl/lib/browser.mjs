// The kernels for browsers: kernels.js, `export const kernels = {file: text}`.
import {nativeOnly} from './pipelines.mjs';
import {strip} from './strip.mjs';

function literal(file, text) {
    if (/[`\\$]/.test(text)) throw new Error(`${file}: "\`", "\\" or "$" in the text`);
    return `\`${text}\``;
}

// kernels: {NAME: {file, text}}; those that no row for WebGPU names are left out.
export function kernelsModule(kernels, rows) {
    const names = new Set(rows.filter((row) => !nativeOnly(row)).map((row) => row.file));
    const texts = [...names].sort().map((name) => `${name}: ${literal(kernels[name].file, strip(kernels[name].text))},\n`);
    return `// Made by tools/wgsl (\`make shaders\`) from src/backend/gpu; do not edit. "~" begins lines for subgroups alone.
export const kernels = {\n${texts.join('')}};\n`;
}
