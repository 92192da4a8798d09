// Writes what the kernels' texts say as C: generated/kernels.h and generated/kernels.c.
import {overrideValues, reflect} from './reflect.mjs';

const C_TYPES = {u32: 'uint32_t', i32: 'int32_t', f32: 'float', bool: 'bool'};
const upper = (name) => name.toUpperCase();

const HEADER = `/* Made by tools/wgsl (\`make shaders\`) from the kernels' WGSL; do not edit. For a kernel
 * NAME (the name of its file):
 *
 *   tern_gpu_NAME_uniform              its struct P
 *   tern_gpu_NAME_set(d, &uniform)     what dispatch d of a pipeline of this kernel, or of one with the same P, is told
 *   TERN_GPU_NAME_BINDING_X            which of the dispatch's bindings is var X: WGSL's @binding less 1
 *   TERN_GPU_NAME_CONST_X              the value of const X
 *   tern_gpu_NAME_overrides            the values of its overrides
 *   tern_gpu_NAME_overrides_of(p)      those that pipeline p has, given in the table, by default or computed; p must be
 *                                      a pipeline of this kernel, or of one with the same overrides
 *   tern_gpu_kernel_of(p)              which kernel it is, TERN_GPU_KERNEL_NAME */
#ifndef TERN_BACKEND_GPU_GENERATED_KERNELS_H
#define TERN_BACKEND_GPU_GENERATED_KERNELS_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "backend/gpu/program.h"

/* clang-format off */
`;

const SOURCE = `/* Made by tools/wgsl (\`make shaders\`) from the kernels' WGSL and the pipeline table; do not edit. The
 * kernel of each pipeline, and the values of its overrides. */
#include "backend/gpu/generated/kernels.h"

/* clang-format off */
`;

const GETTERS = `
typedef struct tern_gpu_specialised {
    tern_gpu_kernel kernel, same_uniform, same_overrides; /* the first kernel with the same P, the same overrides */
    uint32_t uniform_bytes;
    const void *overrides;
} tern_gpu_specialised;

extern const tern_gpu_specialised tern_gpu_specialised_kernels[TERN_GPU_PIPELINE_COUNT];

static inline tern_gpu_kernel tern_gpu_kernel_of(tern_gpu_pipeline pipeline)
{
    return tern_gpu_specialised_kernels[pipeline].kernel;
}

static inline void tern_gpu_set_uniform(tern_gpu_dispatch *d, tern_gpu_kernel same, const void *uniform, size_t bytes)
{
    assert(tern_gpu_specialised_kernels[d->pipeline].same_uniform == same);
    memcpy(d->uniform, uniform, bytes);
}
`;

function structOf(name, fields) {
    return `typedef struct ${name} {\n${fields.map((f) => `    ${C_TYPES[f.type]} ${f.name};\n`).join('')}} ${name};\n`;
}

function enumOf(names) {
    return names.length === 0 ? '' : `enum {\n${names.map((n) => `    ${n},\n`).join('')}};\n`;
}

// Which earlier kernel has the same fields, so that both are one type in C.
class Shapes {
    constructor() {
        this.first = new Map();
    }
    of(kernel, fields) {
        const shape = JSON.stringify(fields);
        if (!this.first.has(shape)) this.first.set(shape, kernel);
        return this.first.get(shape);
    }
}

function typeOf(name, kind, same, fields) {
    const type = `tern_gpu_${name}_${kind}`;
    return same === name ? structOf(type, fields) : `typedef tern_gpu_${same}_${kind} ${type};\n`;
}

// Sorted: which file an override is declared in makes no difference.
const fieldsOf = (kernel) =>
    kernel.overrides.map(({key, type}) => ({name: key.toLowerCase(), type})).sort((a, b) => (a.name < b.name ? -1 : 1));

function setter(name, same) {
    return `static inline void tern_gpu_${name}_set(tern_gpu_dispatch *d, const tern_gpu_${name}_uniform *uniform)
{
    tern_gpu_set_uniform(d, TERN_GPU_KERNEL_${upper(same)}, uniform, sizeof *uniform);
}
`;
}

function getter(name, same) {
    return `static inline const tern_gpu_${name}_overrides *tern_gpu_${name}_overrides_of(tern_gpu_pipeline pipeline)
{
    assert(tern_gpu_specialised_kernels[pipeline].same_overrides == TERN_GPU_KERNEL_${upper(same)});
    return tern_gpu_specialised_kernels[pipeline].overrides;
}
`;
}

const isEnumerator = (value) => Number.isInteger(value) && Math.abs(value) < 2 ** 31;

function kernelPart(name, kernel, uniforms, overrides) {
    const prefix = `TERN_GPU_${upper(name)}`, same = overrides.of(name, fieldsOf(kernel));
    const sameUniform = uniforms.of(name, kernel.uniform);
    const constants = Object.entries(kernel.constants).filter(([, value]) => isEnumerator(value));
    return [
        `\n/* ${kernel.file} */\n`,
        typeOf(name, 'uniform', sameUniform, kernel.uniform),
        `static_assert(sizeof(tern_gpu_${name}_uniform) <= TERN_GPU_UNIFORM_WORDS * 4, "${kernel.file}: struct P");\n`,
        setter(name, sameUniform),
        enumOf(kernel.bindings.map((b) => `${prefix}_BINDING_${upper(b)}`)),
        enumOf(constants.map(([key, value]) => `${prefix}_CONST_${upper(key)} = ${value}`)),
        kernel.overrides.length ? typeOf(name, 'overrides', same, fieldsOf(kernel)) + getter(name, same) : '',
    ].join('');
}

// A kernel is to C the same with subgroups and without.
function reflected({file, plain, subgroups}) {
    const kernel = reflect(plain.text, file);
    if (JSON.stringify(reflect(subgroups.text, file)) !== JSON.stringify(kernel))
        throw new Error(`${file}: uniform, bindings, constants or overrides are others with subgroups`);
    return kernel;
}

// kernels: a Map from names to {file, plain, subgroups}; the header's text.
export function headerOf(kernels) {
    const names = [...kernels.keys()], uniforms = new Shapes(), overrides = new Shapes();
    const parts = names.map((name) => kernelPart(name, reflected(kernels.get(name)), uniforms, overrides));
    const members = names.map((n) => `    TERN_GPU_KERNEL_${upper(n)},\n`);
    const list = `typedef enum tern_gpu_kernel {\n${members.join('')}} tern_gpu_kernel;\n`;
    return `${HEADER}${list}${GETTERS}${parts.join('')}\n#endif\n`;
}

const literalOf = (type, value) => (type === 'f32' ? `${value}f` : type === 'u32' ? `${value}u` : `${value}`);

function rowPart(row, kernel, text, same) {
    const kernels = [row.file, same.uniform, same.overrides].map((name) => `TERN_GPU_KERNEL_${upper(name)}`);
    const which = `[TERN_GPU_${row.name}] = {${kernels.join(', ')}, sizeof(tern_gpu_${row.file}_uniform)`;
    if (kernel.overrides.length === 0) return `    ${which}, NULL},\n`;
    const values = overrideValues(text, kernel.file, row.overrides);
    const fields = kernel.overrides.map(({key, type}) => `.${key.toLowerCase()} = ${literalOf(type, values[key])}`);
    return `    ${which}, &(const tern_gpu_${row.file}_overrides){${fields.join(', ')}}},\n`;
}

// The source's text: a row for each pipeline.
export function sourceOf(kernels, rows) {
    const known = new Map([...kernels].map(([name, kernel]) => [name, reflected(kernel)]));
    const uniforms = new Shapes(), overrides = new Shapes(), same = new Map();
    for (const [name, kernel] of known)
        same.set(name, {uniform: uniforms.of(name, kernel.uniform), overrides: overrides.of(name, fieldsOf(kernel))});
    const lines = rows.map((r) => rowPart(r, known.get(r.file), kernels.get(r.file).plain.text, same.get(r.file)));
    const array = 'const tern_gpu_specialised tern_gpu_specialised_kernels[TERN_GPU_PIPELINE_COUNT]';
    return `${SOURCE}${array} = {\n${lines.join('')}};\n`;
}
