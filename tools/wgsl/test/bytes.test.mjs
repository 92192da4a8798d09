// Bytes without 8-bit integers.
import assert from 'node:assert/strict';
import {test} from 'node:test';

import {parseWgsl, validate, writeSpirv} from 'naga-wasm';

import {withoutInt8} from '../lib/bytes.mjs';
import {decode} from '../lib/spirv.mjs';

const OP_CAPABILITY = 17, INT8 = 39;

function usesInt8(text) {
    const module = parseWgsl(text);
    const {instructions} = decode(writeSpirv(module, validate(module)));
    return instructions.some((i) => i[0] === OP_CAPABILITY && i[1] === INT8);
}

test('no module asks for 8-bit integers', () => {
    const text = `@group(0) @binding(0) var<storage, read_write> a: array<u32>;
@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) i: u32) {
    a[i] = pack4xI8(unpack4xI8(a[i])) + pack4xU8(unpack4xU8(a[i]));
}`;
    assert.ok(usesInt8(text), 'naga no longer needs this');
    assert.ok(!usesInt8(withoutInt8(text)));
    assert.equal(withoutInt8(text).split('\n')[2], text.split('\n')[2].replace(/(un)?pack4/g, 'tern_$&'));
    assert.equal(withoutInt8('fn f() {}'), 'fn f() {}');
});
