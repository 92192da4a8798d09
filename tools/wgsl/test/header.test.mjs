// What C gets to know of a kernel.
import assert from 'node:assert/strict';
import {test} from 'node:test';

import {evaluate} from '../lib/evaluate.mjs';
import {headerOf, sourceOf} from '../lib/header.mjs';
import {overrideValues, reflect} from '../lib/reflect.mjs';
import {plainKernel} from '../lib/specialise.mjs';

const text = `override WORKGROUP: u32 = 256; // at most 256
override Q8: bool = false;
const DEPTH = 16u;
const TILE: u32 = DEPTH * 2u;
const NOTHING: f32 = -1e30;
override LOADS: u32 = 2u * DEPTH / WORKGROUP + select(3u, 1u, Q8);

struct P {
    cols: u32, // of x
    // word of params
    shift: i32,
    scale: f32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read> x: array<f32>;
`;

const kernelOf = (file, text) => ({file, plain: plainKernel(file, text), subgroups: plainKernel(file, text)});
const kernels = (a, b) => new Map([['a', kernelOf('f/a.wgsl', a)], ['b', kernelOf('f/b.wgsl', b)]]);

test('constant expressions', () => {
    const names = new Map([['A', 7], ['ON', true]]);
    for (const [expression, value] of [
        ['1', 1], ['0xffu', 255], ['2u + 3u * A', 23], ['(2u + 3u) * A', 35], ['A / 2u', 3], ['-A % 4', -3],
        ['1e-3f', 1e-3], ['0x1.8p-1f', 0.75], ['true', true], ['select(1u, A - 1u, ON)', 6],
    ])
        assert.equal(evaluate(expression, names), value, expression);
    for (const wrong of ['', '1 +', 'B', '(1', '1 1', 'select(1, 2)', '1 ? 2'])
        assert.throws(() => evaluate(wrong, names), wrong);
});

test('fields, bindings, constants and overrides', () => {
    assert.deepEqual(reflect(text, 'a.wgsl'), {
        file: 'a.wgsl',
        uniform: [{name: 'cols', type: 'u32'}, {name: 'shift', type: 'i32'}, {name: 'scale', type: 'f32'}],
        bindings: ['params', 'x'],
        overrides: [{key: 'WORKGROUP', type: 'u32'}, {key: 'Q8', type: 'bool'}, {key: 'LOADS', type: 'u32'}],
        constants: {DEPTH: 16, TILE: 32, NOTHING: -1e30},
    });
    assert.deepEqual(overrideValues(text, 'a.wgsl'), {WORKGROUP: 256, Q8: false, LOADS: 3});
    assert.deepEqual(overrideValues(text, 'a.wgsl', {WORKGROUP: '8', Q8: 'true'}), {WORKGROUP: 8, Q8: true, LOADS: 5});
});

test('overrides may name others that come later', () => {
    const later = 'override A: u32 = 2u * B + C;\noverride B: u32 = 3;\nconst C = D;\nconst D = 1u;';
    assert.deepEqual(overrideValues(later, 'a.wgsl', {B: '5'}), {A: 11, B: 5});
    assert.deepEqual(reflect(`${later}\nstruct P { n: u32 }`, 'a.wgsl').constants, {C: 1, D: 1});
});

test('what has no place in C is refused by name', () => {
    assert.throws(() => reflect(text.replace('scale: f32', 'scale: vec2<f32>'), 'a.wgsl'),
        /a\.wgsl: struct P: scale: vec2<f32>: /);
    assert.throws(() => reflect('struct Q { a: u32 }', 'a.wgsl'), /a\.wgsl: no struct P/);
    assert.throws(() => overrideValues(`${text}override X: u32 = Y;`, 'a.wgsl'), /a\.wgsl: override X = Y: /);
    assert.throws(() => overrideValues('override X: u32 = X + 1u;', 'a.wgsl'), /a\.wgsl: override X = /);
});

test('the header names every field, and kernels with the same ones share a type', () => {
    const header = headerOf(kernels(text, text.replace('256', '128')));
    for (const part of [
        'typedef struct tern_gpu_a_uniform {\n    uint32_t cols;\n    int32_t shift;\n    float scale;\n'
            + '} tern_gpu_a_uniform;',
        'typedef tern_gpu_a_uniform tern_gpu_b_uniform;',
        'static inline void tern_gpu_b_set(tern_gpu_dispatch *d, const tern_gpu_b_uniform *uniform)\n{\n    '
            + 'tern_gpu_set_uniform(d, TERN_GPU_KERNEL_A, uniform, sizeof *uniform);\n}',
        'TERN_GPU_A_BINDING_PARAMS,\n    TERN_GPU_A_BINDING_X,',
        'TERN_GPU_A_CONST_TILE = 32,', 'typedef tern_gpu_a_overrides tern_gpu_b_overrides;', 'TERN_GPU_KERNEL_B,',
    ])
        assert.ok(header.includes(part), part);
    assert.ok(!header.includes('NOTHING'));
});

test("a pipeline's overrides are the table's, then the kernel's", () => {
    const row = {name: 'B_8', file: 'b', overrides: {WORKGROUP: '8'}};
    const source = sourceOf(kernels(text, text), [row]);
    assert.ok(source.includes('[TERN_GPU_B_8] = {TERN_GPU_KERNEL_B, TERN_GPU_KERNEL_A, TERN_GPU_KERNEL_A, '
        + 'sizeof(tern_gpu_b_uniform), '
        + '&(const tern_gpu_b_overrides){.workgroup = 8u, .q8 = false, .loads = 7u}},'), source);
});

test('a kernel that is another to C with subgroups is refused', () => {
    const kernel = {...kernelOf('f/a.wgsl', text), subgroups: plainKernel('f/a.wgsl', text.replace('cols', 'rows'))};
    assert.throws(() => headerOf(new Map([['a', kernel]])), /f\/a\.wgsl: uniform, .* with subgroups/);
});
