// What the passes change in naga's SPIR-V, and what they leave alone.
import assert from 'node:assert/strict';
import {test} from 'node:test';

import {parseWgsl, validate, writeSpirv} from 'naga-wasm';

import {
    forbidContraction, hintUnroll, int8Matrices, markCoherent, markReadOnly, narrowFences, removeLoopBounds,
    removeWorkgroupZeroing,
} from '../lib/passes.mjs';
import {isExact, UNROLL_MARK, withUnrollMarks} from '../lib/specialise.mjs';
import {poisonWorkgroupMemory} from '../lib/poison.mjs';
import {prune} from '../lib/prune.mjs';
import {decode, Decoration, encode, globalsOf, Op, workgroupBytes, workgroupSize} from '../lib/spirv.mjs';

function spirv(body, globals = '') {
    const module = parseWgsl(`struct P { n: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> a: array<u32>;
@group(0) @binding(2) var<storage, read_write> o: array<u32>;
${globals}
@compute @workgroup_size(8, 4) fn main(@builtin(local_invocation_id) id: vec3<u32>) { let local = id.x; ${body} }`);
    return decode(writeSpirv(module, validate(module)));
}
const count = (module, op) => module.instructions.filter((i) => i[0] === op).length;

test('encode undoes decode', () => {
    const module = spirv('o[local] = a[local];'),
        words = encode(module);
    assert.deepEqual(encode(decode(words)), words);
    assert.throws(() => decode(Uint32Array.of(1, 2, 3, 4, 5)), /not SPIR-V/);
    assert.throws(() => decode(Uint32Array.of(...words.subarray(0, 5), 0)), /bad instruction/);
    assert.deepEqual(workgroupSize(module), [8, 4, 1]);
});

test('every loop loses its bound and keeps its own condition', () => {
    const module = spirv(`var s = vec2<u32>(0xffffffffu);
        for (var i = 0u; i < p.n; i++) {
            for (var j = 0u; j < 4u; j++) { s += vec2(a[i * 4u + j]); }
            if (s.x > 9u) { break; }
        }
        while (s.x < 5u) { s.x *= 2u; }
        loop { s.y += 1u; if (s.y > 3u) { break; } }
        o[local] = s.x + s.y;`);
    const before = {
        loops: count(module, Op.LoopMerge),
        alls: count(module, Op.All),
        branches: count(module, Op.BranchConditional),
    };
    assert.equal(before.loops, 4);
    assert.equal(before.alls, 4);
    const variables = count(module, Op.Variable);
    assert.equal(removeLoopBounds(module), 4);
    assert.equal(count(module, Op.LoopMerge), 4);
    assert.equal(count(module, Op.All), 0);
    assert.equal(count(module, Op.BranchConditional), before.branches - 4);
    assert.equal(count(module, Op.Variable), variables - 4); // s has the same type and first value, and stays
});

test('a bound of another form is an error, not a slow kernel', () => {
    const module = spirv('for (var i = 0u; i < p.n; i++) { o[i] = a[i]; }');
    module.instructions.splice(module.instructions.findIndex((i) => i[0] === Op.All) + 1, 0, [0]);
    assert.throws(() => removeLoopBounds(module), /1 loops, but 0 loop bounds/);
});

const SHARED = 'var<workgroup> x: array<u32, 32>; var<workgroup> y: u32;';
test("naga's clearing of workgroup memory goes, the kernel's own stays", () => {
    const module = spirv(
        'if (local == 0u) { y = u32(); } workgroupBarrier(); x[local] = y; o[local] = x[31u - local];',
        SHARED,
    );
    const stores = count(module, Op.Store),
        barriers = count(module, Op.ControlBarrier);
    assert.equal(removeWorkgroupZeroing(module), 1);
    assert.equal(count(module, Op.Store), stores - 2);
    assert.equal(count(module, Op.ControlBarrier), barriers - 1);
});

test('poisoned workgroup memory has no zeros', () => {
    const types = `struct S { a: f32, b: vec3<i32>, c: array<vec2<u32>, 3>, d: bool }
        var<workgroup> s: S; var<workgroup> t: S;`;
    const module = spirv('if (s.d) { o[local] = s.c[1].x + t.c[local].y; }', types);
    const clears = (m) => m.instructions.filter((i) => i[0] === Op.Store).map((i) => globalsOf(m).get(i[2])?.[0]);
    assert.equal(clears(module).filter((op) => op === Op.ConstantNull).length, 2);
    assert.ok(poisonWorkgroupMemory(module) > 5);
    assert.equal(clears(module).filter((op) => op === Op.ConstantNull).length, 0);
    assert.deepEqual(encode(decode(encode(module))), encode(module));
});

test('without workgroup memory there is nothing to remove', () => {
    const module = spirv('if (local == 0u) { o[0] = u32(); } storageBarrier(); o[1] = a[1];'),
        n = module.instructions.length;
    assert.equal(removeWorkgroupZeroing(module), 0);
    assert.equal(module.instructions.length, n);
});

function readOnly(body, globals) {
    const module = spirv(body, globals);
    markReadOnly(module);
    return count({instructions: module.instructions.filter((i) => i[2] === Decoration.NonWritable)}, Op.Decorate);
}
test('bindings that are only read are marked so', () => {
    assert.equal(readOnly('o[local] = a[local] + arrayLength(&a);'), 1);
    assert.equal(readOnly('o[local] = 1u; a[local] = 2u;'), 0);
    assert.equal(readOnly('o[local] = 1u; if (local == 77u) { let q = &a[3]; *q = 2u; }'), 0);
    const atomics = '@group(0) @binding(3) var<storage, read_write> n: array<atomic<u32>>;';
    assert.equal(readOnly('o[local] = atomicAdd(&n[a[0]], 1u);', atomics), 1);
    const helper = 'fn f(q: ptr<function, u32>) { *q = 1u; } fn g(i: u32) { a[i] = 2u; }';
    assert.equal(readOnly('var v = 0u; f(&v); g(local); o[local] = v;', helper), 0);
});

test('loops marked for unrolling get the hint, others do not', () => {
    const module = spirv(
        withUnrollMarks(`for (var i = 0u; i < p.n; i++) {
        for (var j = 0u; j < 4u; j++) { // unroll
            if (j == p.n) { o[j] = a[i]; }
        }
    }
    for (var i = 0u; i < 3u; i++) { o[i] = 1u; }`).replace(/var<private>.*/, ''),
        'var<private> tern_unroll: u32;',
    );
    const before = module.instructions.length;
    assert.equal(hintUnroll(module, UNROLL_MARK), 1);
    assert.deepEqual(
        module.instructions.filter((i) => i[0] === Op.LoopMerge).map((i) => i[3]),
        [0, 1, 0],
    );
    assert.equal(module.instructions.length, before - 2); // without the store and its variable
    const outside = spirv(`tern_unroll = ${UNROLL_MARK}u;`, 'var<private> tern_unroll: u32;');
    assert.throws(() => hintUnroll(outside, UNROLL_MARK), /outside/);
    assert.equal(withUnrollMarks('if (x) { // unrolled'), 'if (x) { // unrolled');
});

test('arithmetic on floats is not contracted where the kernel says so', () => {
    const module = spirv('let v = f32(a[0]); o[local] = u32(v * 3.0 + v / 5.0 - f32(a[1])) * 7u;');
    assert.equal(forbidContraction(module), 4);
    const marked = module.instructions.filter((i) => i[0] === Op.Decorate && i[2] === Decoration.NoContraction);
    const floats = [Op.FAdd, Op.FSub, Op.FMul, Op.FDiv];
    assert.deepEqual(
        marked.map((i) => i[1]).sort(),
        module.instructions.filter((i) => floats.includes(i[0])).map((i) => i[2]).sort(),
    );
    assert.ok(isExact({source: '// What it does.\n//\n// no contraction\nstruct P'}));
    assert.ok(!isExact({source: 'let a = b; // no contraction'}));
});

test('bindings marked coherent are so', () => {
    const module = spirv('o[local] = a[local];');
    assert.equal(markCoherent(module, []), 0);
    assert.equal(markCoherent(module, [2]), 1);
    const coherent = module.instructions.filter((i) => i[0] === Op.Decorate && i[2] === Decoration.Coherent);
    const bindings = module.instructions.filter(
        (i) => i[0] === Op.Decorate && i[2] === Decoration.Binding && i[3] === 2,
    );
    assert.deepEqual(
        coherent.map((i) => i[1]),
        bindings.map((i) => i[1]),
    );
});

test('what is coherent is not taken for read only', () => {
    const module = spirv('o[local] = a[local];');
    assert.equal(markCoherent(module, [1]), 1);
    assert.equal(markReadOnly(module), 0);
    assert.equal(markReadOnly(spirv('o[local] = a[local];')), 1);
});

test('a textureBarrier becomes a fence, and the storageBarrier beside it the workgroup\'s', () => {
    const wait = 'fn wait(local: u32) { if (local == 0u) { textureBarrier(); } storageBarrier(); }';
    const module = spirv('o[local] = 1u; storageBarrier(); wait(local);', wait), globals = globalsOf(module);
    const WORKGROUP = 2, DEVICE = 1, RELEASE_AND_ACQUIRE_STORAGE = 0x48;
    const barriers = () => module.instructions
        .filter(([op]) => op === Op.ControlBarrier || op === Op.MemoryBarrier)
        .map(([op, ...ids]) => [op, ...ids.map((id) => globals.get(id)[3])]);
    assert.equal(narrowFences(module), 1);
    assert.deepEqual(barriers(), [
        [Op.MemoryBarrier, DEVICE, RELEASE_AND_ACQUIRE_STORAGE],
        [Op.ControlBarrier, WORKGROUP, WORKGROUP, RELEASE_AND_ACQUIRE_STORAGE],
        [Op.ControlBarrier, WORKGROUP, DEVICE, RELEASE_AND_ACQUIRE_STORAGE], // of another function
    ]);
    assert.equal(narrowFences(module), 0);
    assert.throws(() => narrowFences(spirv('textureBarrier();')), /without one storageBarrier/);
});

test('what a constant makes unreachable goes, with all that only it used', () => {
    const globals = 'var<private> unused: u32; fn big(x: u32) -> f32 { return sin(f32(x)); }';
    const body = (on) => `var x = a[local]; if (${on}) { x += u32(big(x)); } else { x += 7u; }
        for (var i = 0u; i < p.n; i++) { if (!${on}) { break; } x += i; if (!${on}) { o[9] = x; return; } }
        if (${on}) { o[local] = x; return; } o[local] = x + 1u;`;
    const on = spirv(body('true'), globals),
        off = spirv(body('false'), globals);
    const whole = on.instructions.length;
    assert.ok(prune(on) > 0);
    assert.ok(prune(off) > whole - on.instructions.length);
    assert.deepEqual([count(on, Op.Function), count(off, Op.Function)], [2, 1]);
    assert.deepEqual([count(on, Op.ExtInst), count(off, Op.ExtInst)], [2, 0]); // sin and a clamp
    for (const module of [on, off]) {
        const again = decode(encode(module));
        assert.equal(prune(again), 0);
        assert.equal(count(module, Op.Variable), count(again, Op.Variable));
    }
});

test('a switch of a constant is the case of its value', () => {
    for (const [value, calls] of [[2, ['sin']], [7, ['cos']], [9, []]]) {
        const module = spirv(`switch (KIND) {
            case 2u: { o[0] = u32(sin(f32(a[0]))); }
            case 5u, 7u: { o[0] = u32(cos(f32(a[0]))); }
            default: { o[0] = 3u; }
        }`, `const KIND: u32 = ${value}u;`);
        assert.ok(prune(module) > 0);
        const functions = {13: 'sin', 14: 'cos'}, extended = module.instructions.filter((i) => i[0] === Op.ExtInst);
        assert.deepEqual(extended.map((i) => functions[i[4]]).filter(Boolean), calls);
        assert.equal(count(module, Op.Switch), 0);
    }
});

test('what is not constant stays', () => {
    const module = spirv(
        'if (p.n == 3u) { o[local] = a[local]; } switch (p.n) { case 1u, 2u: { o[1] = 1u; } default: { o[2] = 2u; } }',
    );
    const blocks = count(module, Op.Label);
    prune(module);
    assert.equal(count(module, Op.Label), blocks);
});

test('bytes of workgroup memory are counted as WebGPU counts them', () => {
    const bytes = (type) =>
        workgroupBytes(spirv('v = w; o[local] = 1u;', `var<workgroup> v: ${type}; var<workgroup> w: ${type};`)) / 2;
    assert.equal(bytes('u32'), 16);
    assert.equal(bytes('array<vec3<f32>, 3>'), 48);
    assert.equal(bytes('array<array<u32, 5>, 3>'), 64);
    assert.equal(workgroupBytes(spirv('o[local] = 1u;', 'var<workgroup> unused: u32;')), 0);
    const structure = 'struct S { a: u32, b: vec3<f32>, c: vec2<f32> }';
    assert.equal(workgroupBytes(spirv('v.a = 1u; o[local] = v.a;', `${structure} var<workgroup> v: S;`)), 48);
});

test('matrices of f32 become those of int8, 32 deep, with sums of i32', () => {
    const text = `enable wgpu_cooperative_matrix;
var<workgroup> tile: array<vec4<f32>, 64>;
@compute @workgroup_size(32) fn main() {
    let a = coopLoadT<coop_mat16x16<f32, A>>(&tile[0], 2u);
    let b = coopLoad<coop_mat16x16<f32, B>>(&tile[0], 2u);
    coopStoreT(coopMultiplyAdd(a, b, coop_mat16x16<f32, C>()), &tile[0], 4u);
}`;
    const parsed = parseWgsl(text), module = decode(writeSpirv(parsed, validate(parsed)));
    assert.equal(int8Matrices(module), 3);
    const globals = globalsOf(module), constant = (id) => globals.get(id)[3], order = [...globals.keys()];
    const matrices = module.instructions.filter((i) => i[0] === Op.TypeCooperativeMatrix);
    const shapes = matrices.map(([, , type, , rows, columns, use]) =>
        [globals.get(type)[2], constant(rows), constant(columns), constant(use)]);
    assert.deepEqual(shapes.sort((x, y) => x[3] - y[3]), [[8, 16, 32, 0], [8, 32, 16, 1], [32, 16, 16, 2]]);
    for (const [, id, type, , rows] of matrices)
        for (const used of [type, rows]) assert.ok(order.indexOf(used) < order.indexOf(id), 'declared before its use');
    assert.equal(new Set(module.instructions.filter((i) => i[0] === Op.TypeInt).map((i) => i.slice(2).join())).size,
        count(module, Op.TypeInt), 'no type twice');
    assert.equal(module.instructions.find((i) => i[0] === Op.CooperativeMatrixMulAdd).at(-1), 15);
    assert.deepEqual(module.instructions[0], [Op.Capability, 39]);
});
