// The pack of all SPIR-V: what goes in comes out with other ids, no kernel depends on another, and the committed one
// has every row of the table.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import {test} from 'node:test';

import {compile} from '../lib/compile.mjs';
import {GENERATED, kernelFor, readKernels, readTable} from '../lib/folders.mjs';
import {digestOf, keyOf, keysFile, readKeys} from '../lib/keys.mjs';
import {number} from '../lib/number.mjs';
import {idPositions} from '../lib/operands.mjs';
import {packFiles, packKernel, readPack, unpack} from '../lib/pack.mjs';
import {decode, encode} from '../lib/spirv.mjs';

const rows = readTable(), kernels = await readKernels();
// Modules of a kernel that declares more than one function, and has subgroups, switches and a decorated constant.
const of = (file, n = 12) => rows.filter((row) => row.file === file).slice(0, n)
    .map((row) => [row.name, compile(row, kernelFor(row, kernels))]);

// Words with ids in the order in which they are met: equal for modules that differ in their ids alone.
function inOrderMet(words) {
    const met = new Map(), {header, instructions} = decode(words);
    const all = instructions.map((i) => {
        const out = [...i];
        for (const n of idPositions(i)) out[n] = met.get(i[n]) ?? (met.set(i[n], met.size + 1), met.size);
        return out;
    });
    return encode({header: [...header.slice(0, 3), met.size + 1, header[4]], instructions: all});
}

function inFolder(files, use) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tern-pack-'));
    for (const [name, bytes] of files) fs.writeFileSync(path.join(folder, name), bytes);
    const result = use(folder);
    fs.rmSync(folder, {recursive: true});
    return result;
}

for (const file of ['rope', 'linear_quant_vec', 'sample']) {
    test(`${file}: modules come back, with other ids`, () => {
        const modules = of(file), packed = new Map(packKernel(modules));
        const back = inFolder(packFiles(packed), readPack);
        assert.deepEqual([...back.keys()], modules.map(([name]) => name));
        for (const [name, words] of modules) {
            const now = unpack(back, name);
            assert.deepEqual(inOrderMet(now), inOrderMet(words), name);
            const ids = decode(now).instructions.flatMap((i) => idPositions(i).map((n) => i[n]));
            assert.ok(Math.max(...ids) < now[3] && Math.min(...ids) > 0, name);
        }
    });
}

test('modules of a kernel that are equal take a few bytes', () => {
    const [[, words]] = of('rope', 1), [[, first], [, second]] = packKernel([['A', words], ['B', words]]);
    assert.equal(second.reference, 'A');
    assert.ok(first.packed.length > 1000 && second.packed.length < 10);
});

test('ids that functions share, and those they do not', () => {
    const {first, modules} = number(of('linear_quant_vec').map(([, words]) => decode(words)));
    for (const {header, instructions} of modules) {
        const start = instructions.findIndex((i) => i[0] === 54);
        const types = instructions.slice(0, start).filter((i) => i[0] >= 19 && i[0] <= 33);
        assert.ok(types.length > 5 && types.every((i) => i[1] < first));
        assert.ok(header[3] > first);
    }
});

test('an opcode that is not known is an error', () => {
    assert.throws(() => idPositions([86, 1, 2]), /opcode 86: which operands are ids is not known/);
});

test('a folder without a pack has no modules and no keys', () => {
    inFolder([], (folder) => {
        assert.equal(readPack(folder).size, 0);
        assert.equal(readKeys(folder).size, 0);
    });
});

test('a key changes with the text and the rows of its kernel, and with no other', () => {
    const other = new Map(kernels), {plain, subgroups} = kernels.get('rope');
    const changed = (kernel) => ({...kernel, text: `${kernel.text} `});
    other.set('rope', {plain: changed(plain), subgroups: changed(subgroups)});
    const key = keyOf('rope', rows, kernels);
    assert.notEqual(keyOf('rope', rows, other), key);
    assert.equal(keyOf('sample', rows, other), keyOf('sample', rows, kernels));
    const wider = rows.map((row) => (row.file === 'rope' ? {...row, invocations: 32} : row));
    assert.notEqual(keyOf('rope', wider, kernels), key);
    const moved = rows.map((row) => ({...row, where: 'elsewhere.def:1'}));
    assert.equal(keyOf('rope', moved, kernels), key);
    const both = `${key} 0123456789abcdef`;
    assert.equal(inFolder([['kernels.keys', keysFile([['rope', both]])]], readKeys).get('rope'), both);
});

test('a digest changes with the modules of its kernel, and with no other', () => {
    const pack = readPack(GENERATED), [name, entry] = [...pack][0], {file} = rows.find((row) => row.name === name);
    const other = new Map(pack).set(name, {...entry, packed: Buffer.from(entry.packed).fill(0, 9, 10)});
    assert.notEqual(digestOf(file, rows, other), digestOf(file, rows, pack));
    assert.equal(digestOf('sample', rows, other), digestOf('sample', rows, pack));
    other.delete(name);
    assert.notEqual(digestOf(file, rows, other), digestOf(file, rows, pack));
});

test('every pipeline is in the committed pack, and every kernel has its key', () => {
    const pack = readPack(GENERATED), keys = readKeys(GENERATED);
    assert.deepEqual([...pack.keys()], rows.map((row) => row.name));
    for (const file of new Set(rows.map((row) => row.file))) {
        const expected = `${keyOf(file, rows, kernels)} ${digestOf(file, rows, pack)}`;
        assert.equal(keys.get(file), expected, `${file}: make shaders`);
    }
});
