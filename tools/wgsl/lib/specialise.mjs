// What becomes of a kernel for one row of the pipeline table. A kernel is {text, source, place}: its WGSL; the file
// that it was linked from; and where a line of the text comes from, {file, line}. All functions keep the number of
// lines, so that messages of compilers name the right one.
import {nativeOnly} from './pipelines.mjs';

const OVERRIDE = /^(\s*)override\s+(\w+)\s*(?::\s*(\w+))?\s*(?:=\s*([^;]+?))?\s*;(.*)$/;

export class KernelError extends Error {
    constructor({file, line}, pipeline, message) {
        super(`${file}:${line}: ${pipeline}: ${message}`);
    }
}

// The kernel that is a file as it stands.
export const plainKernel = (file, text) => ({text, source: text, place: (line) => ({file, line})});

function fail(row, kernel, index, message) {
    throw new KernelError(kernel.place(index + 1), row.name, message);
}

function literal(row, kernel, {index, type, key}, value) {
    const number = Number(value);
    const integer = Number.isInteger(number) && /^-?(0[xX])?[0-9a-fA-F]+$/.test(value);
    const good = {
        bool: () => value === 'true' || value === 'false',
        u32: () => integer && number >= 0 && number < 2 ** 32,
        i32: () => integer && number >= -(2 ** 31) && number < 2 ** 31,
        f32: () => /^-?[0-9.]+(e[-+]?\d+)?f?$/.test(value),
    }[type];
    if (!good) fail(row, kernel, index, `override ${key}: type ${type ?? 'missing'}; bool, u32, i32 or f32 expected`);
    if (!good()) fail(row, kernel, index, `override ${key}=${value}: a value of type ${type} expected`);
    return value;
}

// The overrides of a text: [{index of its line, key, type, value: the default's text or undefined}].
export function overridesOf(source) {
    return source.split('\n').flatMap((line, index) => {
        const match = OVERRIDE.exec(line);
        return match ? [{index, key: match[2], type: match[3], value: match[4]}] : [];
    });
}

// Every override of the row must be in the text, with a value of its type.
export function checkOverrides(row, kernel) {
    const known = new Map(overridesOf(kernel.text).map((o) => [o.key, o]));
    for (const [key, value] of Object.entries(row.overrides)) {
        const override = known.get(key);
        if (!override) {
            const keys = [...known.keys()].join(', ') || 'none';
            fail(row, kernel, 0, `${row.where} sets ${key}, which the kernel does not have; it has ${keys}`);
        }
        literal(row, kernel, override, value);
    }
    for (const o of known.values()) {
        if (o.value === undefined && !(o.key in row.overrides)) {
            fail(row, kernel, o.index, `override ${o.key}: no value here nor in ${row.where}`);
        }
    }
}

// The values for GPUProgrammableStage.constants.
export function constantsFor(row, kernel) {
    checkOverrides(row, kernel);
    return Object.fromEntries(Object.entries(row.overrides).map(([key, value]) =>
        [key, value === 'true' ? 1 : value === 'false' ? 0 : Number(value.replace(/f$/, ''))]));
}

// The text with constants in place of overrides.
export function withConstants(row, kernel) {
    checkOverrides(row, kernel);
    return kernel.text.split('\n').map((line) => {
        const match = OVERRIDE.exec(line);
        if (!match) return line;
        const [, space, key, type, value, rest] = match;
        return `${space}const ${key}${type ? `: ${type}` : ''} = ${row.overrides[key] ?? value};${rest}`;
    }).join('\n');
}

// The text without `enable subgroups`, for naga, which has subgroups without it and refuses the line.
export const withoutEnable = (source) => source.replace(/^[ \t]*enable\s+subgroups\s*;.*$/gm, '');

// The text with a mark for hintUnroll (passes.mjs) in each loop whose body begins with a comment "// unroll".
export const UNROLL_MARK = 0x7e26a11;
export function withUnrollMarks(source) {
    const marked = source.replace(/\{(\s*)\/\/ unroll[ \t]*$/gm, `{$1 tern_unroll = ${UNROLL_MARK}u;`);
    return marked === source ? source : `${marked}\nvar<private> tern_unroll: u32;\n`;
}

// Whether the kernel asks that nothing is contracted: a line "// no contraction" in its file.
export const isExact = (kernel) => /^\/\/ no contraction\s*$/m.test(kernel.source);

// Whether its cooperative matrices of f32 stand for int8: a line "// int8 matrices" in its file.
export const hasInt8Matrices = (kernel) => /^\/\/ int8 matrices\s*$/m.test(kernel.source);

// The text with the uniform block as immediate data (Vulkan's push constants): no buffer and no binding for it. As fast
// as a uniform buffer on an H200.
export function withImmediates(source) {
    return source.replace(/@group\s*\(\s*0\s*\)\s*@binding\s*\(\s*0\s*\)\s*var\s*<\s*uniform\s*>/, 'var<immediate>');
}

const withoutComments = (source) => source.replace(/\/\/[^\n]*|\/\*[\s\S]*?\*\//g, (c) => c.replace(/[^\n]/g, ' '));

const COHERENT = {coherent: 'always', 'coherent where it waits': 'waits'};
const BINDING = /((?:@\w+\s*\([^)]*\)\s*)+)var\s*<\s*(uniform|storage)\s*(?:,\s*(read|read_write)\s*)?>\s*(\w+)/g;

// The bindings in the text: [{group, binding, space: 'uniform' | 'r' | 'w', name, line, coherent}], by number;
// coherent: 'always' or, where it waits for other dispatches, 'waits'.
export function bindingsOf(source) {
    const text = withoutComments(source), lines = source.split('\n'), bindings = [];
    for (const match of text.matchAll(BINDING)) {
        const [, attributes, space, access, name] = match;
        const line = text.slice(0, match.index + match[0].length).split('\n').length;
        bindings.push({
            group: Number(/@group\s*\(\s*(\d+)/.exec(attributes)?.[1]),
            binding: Number(/@binding\s*\(\s*(\d+)/.exec(attributes)?.[1]),
            name,
            line,
            coherent: COHERENT[/\/\/ (coherent(?: where it waits)?)\s*$/.exec(lines[line - 1])?.[1]],
            space: space === 'uniform' ? 'uniform' : access === 'read_write' ? 'w' : 'r',
        });
    }
    return bindings.sort((a, b) => a.binding - b.binding);
}

// Binding 0 must be the uniform block; bindings 1.. have the row's signature.
export function checkSignature(row, kernel) {
    const bindings = bindingsOf(kernel.text);
    for (const [i, b] of bindings.entries()) {
        if (b.group !== 0) fail(row, kernel, b.line - 1, `${b.name} is in group ${b.group}: group 0 expected`);
        if (b.binding !== i) fail(row, kernel, b.line - 1, `${b.name} has binding ${b.binding}: ${i} expected`);
        if ((b.space === 'uniform') !== (i === 0)) {
            fail(row, kernel, b.line - 1, `${b.name}: binding 0, and no other, is var<uniform>`);
        }
    }
    if (bindings.length === 0) fail(row, kernel, 0, 'no bindings; binding 0 must be var<uniform>');
    const found = bindings.slice(1).map((b) => b.space).join('');
    if (found !== row.signature) {
        fail(row, kernel, 0, `${row.where} has signature "${row.signature}"; the kernel's bindings say "${found}"`);
    }
    const most = nativeOnly(row) ? 9 : 8;
    if (found.length > most) fail(row, kernel, 0, `${found.length} storage bindings: at most ${most} expected`);
}
