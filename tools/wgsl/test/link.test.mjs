// Kernels and what they import become one text, and its lines are found again.
import assert from 'node:assert/strict';
import {test} from 'node:test';

import {Linker} from '../lib/link.mjs';
import {isExact} from '../lib/specialise.mjs';

const kernel = `// What it does.
//
// no contraction
import package::shared::sums::total;
import package::shared::other;
import naga::{coop_mat16x16, C};

override LANES: u32 = 8; // of a row
@group(0) @binding(1) var<storage, read_write> scratch: array<u32>; // coherent
var<workgroup> held: array<f32, LANES>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) local: u32) {
    let c = coop_mat16x16<f32, C>();
    var s = total(local) + other::total(local);
    @if(subgroups) s = subgroupAdd(s);
    for (var i = 0u; i < 4u; i++) { // unroll
        held[i] = s;
    }
    @if(waits) storageBarrier();
}
`;
const sources = {
    'rows/a.wesl': kernel,
    'shared/sums.wesl': '// Sums.\nimport kernel::held;\n\nfn total(i: u32) -> f32 {\n    return held[i];\n}\n',
    'shared/other.wgsl': 'fn total(i: u32) -> f32 {\n    return f32(i);\n}\nfn not_used() {}\n',
    'rows/plain.wgsl': '// As it stands.\nfn main() { }\n',
};
const linker = new Linker(sources);

test('imports are in the text, what is not used is not, and names that meet are told apart', async () => {
    const {text} = await linker.link('rows/a.wesl', false);
    assert.match(text, /var s = total\(local\) \+ other_total\(local\);/);
    assert.match(text, /fn total\(i: u32\) -> f32 \{\s+return held\[i\];/);
    assert.match(text, /fn other_total\(i: u32\)/);
    assert.doesNotMatch(text, /not_used|import|subgroupAdd|0x7e26a11/);
    assert.match(text, /let c = coop_mat16x16<f32, C>\(\);/);
});

test('a condition chooses', async () => {
    const {text} = await linker.link('rows/a.wesl', true), waiting = await linker.link('rows/a.wesl', false, true);
    assert.match(text, /s = subgroupAdd\(s\);/);
    assert.doesNotMatch(text, /storageBarrier/);
    assert.match(waiting.text, /storageBarrier\(\);/);
    assert.doesNotMatch(waiting.text, /subgroupAdd/);
});

test('comments that the build looks for are where it looks', async () => {
    const linked = await linker.link('rows/a.wesl', false);
    assert.ok(isExact(linked));
    assert.match(linked.text, /array<u32>; \/\/ coherent$/m);
    assert.match(linked.text, /\{\s+\/\/ unroll$/m);
    assert.match(linked.text, /^override LANES: u32 = 8;/m);
});

test('a line of the text is found in its file', async () => {
    const linked = await linker.link('rows/a.wesl', false), lines = linked.text.split('\n');
    for (const [part, place] of [
        ['held[i] = s', {file: 'rows/a.wesl', line: 18}],
        ['return held[i]', {file: 'shared/sums.wesl', line: 5}],
        ['return f32(i)', {file: 'shared/other.wgsl', line: 2}],
    ])
        assert.deepEqual(linked.place(lines.findIndex((line) => line.includes(part)) + 1), place, part);
});

test('a file of plain WGSL stays as it is', async () => {
    const linked = await linker.link('rows/plain.wgsl', true);
    assert.equal(linked.text, sources['rows/plain.wgsl']);
    assert.deepEqual(linked.place(2), {file: 'rows/plain.wgsl', line: 2});
});

test('what cannot be linked is named with its line', async () => {
    for (const [from, to, message] of [
        ['total(local) +', 'totals(local) +', /^rows\/a\.wesl:15: wesl: .*totals/],
        ['package::shared::other', 'package::shared::others', /^rows\/a\.wesl:15: wesl: .*other::total/],
        ['let c =', 'let = ', /^rows\/a\.wesl:14: wesl: /],
    ]) {
        const broken = new Linker({...sources, 'rows/a.wesl': kernel.replace(from, to)});
        await assert.rejects(broken.link('rows/a.wesl', false), {message});
    }
    const wrong = sources['shared/sums.wesl'].replace('held[i]', 'hold[i]');
    const broken = new Linker({...sources, 'shared/sums.wesl': wrong});
    await assert.rejects(broken.link('rows/a.wesl', false), {message: /^shared\/sums\.wesl:5: wesl: .*hold/});
});
