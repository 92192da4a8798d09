// Every row of the pipeline table, compiled as the web page compiles it; and kernels that must not pass.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import {after, before, test} from 'node:test';

import {fixtures} from '../fixtures.mjs';
import {compile} from '../lib/compile.mjs';
import {kernelFor, readKernels, readTable} from '../lib/folders.mjs';
import {nativeOnly} from '../lib/pipelines.mjs';
import {plainKernel} from '../lib/specialise.mjs';
import {Tint} from '../lib/tint.mjs';

const rows = readTable(), kernels = await readKernels();
let tint;
before(async () => {
    tint = await Tint.open();
});
after(() => tint.close());

test('there are pipelines', () => assert.ok(rows.length > 0));

for (const row of rows.filter((r) => !nativeOnly(r))) {
    test(`Tint: ${row.name}`, () => tint.check(row, kernelFor(row, kernels)));
}

const good = {
    name: 'GOOD',
    file: 'good',
    signature: 'rw',
    needs: 0,
    subgroup: 0,
    invocations: 64,
    bytes: 256,
    overrides: {WORKGROUP: '64'},
    where: 'pipelines.def:1',
};
const source = `override WORKGROUP: u32 = 256;
struct P { n: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> a: array<u32>;
@group(0) @binding(2) var<storage, read_write> o: array<u32>;
var<workgroup> shared_sums: array<u32, WORKGROUP>;
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(local_invocation_index) local: u32) {
    var x = a[local];
    shared_sums[local] = x;
    workgroupBarrier();
    for (var i = 0u; i < p.n; i++) { x += shared_sums[i]; }
    o[local] = x;
}
`;
const kernel = (text) => plainKernel('good.wgsl', text);
const withSubgroups = (text) => `enable subgroups;\n${text.replace('o[local] = x', 'o[local] = subgroupAdd(x)')}`;
const subgroups = {...good, name: 'GOOD_SUBGROUPS', needs: 1, subgroup: 4};

test('a good kernel passes, with subgroups and without', async () => {
    for (const [row, text] of [[good, source], [subgroups, withSubgroups(source)]]) {
        await tint.check(row, kernel(text));
        assert.equal(compile(row, kernel(text))[0], 0x07230203);
    }
});

test('bytes are packed and unpacked without 8-bit integers', () => {
    for (const name of [
        'unpack4xI8(x)',
        'vec4i(unpack4xU8(x))',
        'vec4i(i32(pack4xI8(vec4i(1))))',
        'vec4i(i32(pack4xU8(vec4u(1))))',
    ]) {
        // a capability too many would be an error
        compile(good, kernel(source.replace('o[local] = x', `o[local] = u32((${name}).y)`)));
    }
});

test('the build is deterministic', () => {
    const text = withSubgroups(source);
    assert.deepEqual(compile(subgroups, kernel(text)), compile(subgroups, kernel(text)));
});

// What is wrong, the row, the text, and what both compilers, or one alone, must say with file and line.
const broken = [
    ['a name that is nowhere', good, source.replace('x += shared', 'x += shraed'), /good\.wgsl:12: GOOD: .*shraed/s],
    [
        'a barrier in divergent flow',
        good,
        source.replace('workgroupBarrier();', 'if (x == 1u) { workgroupBarrier(); }'),
        /good\.wgsl:11: GOOD: /,
        'tint',
    ],
    [
        'subgroups where the row has none',
        good,
        withSubgroups(source),
        /good\.wgsl:\d+: GOOD: Tint: /,
        'tint',
    ],
    [
        'subgroups where the row has none, by naga',
        good,
        withSubgroups(source),
        /does not say that it needs subgroups/,
        'naga',
    ],
    [
        'what not every device has',
        {...good, name: 'HALF'},
        `enable f16;\n${source.replace('o[local] = x', 'o[local] = u32(f16(x))')}`,
        /HALF: pipelines\.def:1 needs SPIR-V capability 9,/,
        'naga',
    ],
    [
        'an override that is not there',
        {...good, overrides: {WORKGROUP: '64', ROWS: '4'}},
        source,
        /sets ROWS, which the kernel does not have/,
    ],
    [
        'an override of another type',
        {...good, overrides: {WORKGROUP: 'true'}},
        source,
        /WORKGROUP=true: a value of type u32/,
    ],
    ['a signature', {...good, signature: 'ww'}, source, /has signature "ww"; the kernel's bindings say "rw"/, 'naga'],
    ['invocations', {...good, invocations: 128}, source, /says 128 invocations; the kernel has 64/, 'naga'],
    [
        'workgroup bytes',
        {...good, bytes: 100},
        source,
        /says 100 bytes of workgroup memory; the kernel has 256/,
        'naga',
    ],
];
for (const [what, row, text, message, only] of broken) {
    test(`refused: ${what}`, async () => {
        if (only !== 'tint') assert.throws(() => compile(row, kernel(text)), message);
        if (only !== 'naga') await assert.rejects(tint.check(row, kernel(text)), message);
    });
}

test('the fixtures in tests/data/kernels are what their texts give', () => {
    for (const [file, bytes] of fixtures())
        assert.ok(fs.readFileSync(file).equals(bytes), `${file}: node fixtures.mjs`);
});
