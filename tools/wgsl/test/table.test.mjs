// Reading the pipeline table, and what a row makes of a text.
import assert from 'node:assert/strict';
import {test} from 'node:test';

import {parseTable} from '../lib/pipelines.mjs';
import {
    bindingsOf, constantsFor, overridesOf, plainKernel, withConstants, withoutEnable, withUnrollMarks,
} from '../lib/specialise.mjs';

test('rows, with comments, strings that follow each other, sums and products', () => {
    const rows = parseTable(
        `/* a
comment */
#include "other.def"
X(ONE, "one", "rw", 0, 0, 256, 0, "") // another
X(TWO, "two", "r" "ww", TERN_GPU_NEEDS_SUBGROUPS, 4, 2 * 64, 4 * 256 + 16, "A=1 "
  "B=true C=1.5")
`,
        't.def',
    );
    assert.deepEqual(rows, [
        {
            where: 't.def:4',
            name: 'ONE',
            file: 'one',
            signature: 'rw',
            needs: 0,
            subgroup: 0,
            invocations: 256,
            bytes: 0,
            overrides: {},
        },
        {
            where: 't.def:5',
            name: 'TWO',
            file: 'two',
            signature: 'rww',
            needs: 1,
            subgroup: 4,
            invocations: 128,
            bytes: 1040,
            overrides: {A: '1', B: 'true', C: '1.5'},
        },
    ]);
});

test('macros of rows, and a list that is included', () => {
    const table = `#define TWO_ONE(NAME, NUMBER) X(NAME##_A, "one", "r", 0, 0, 128, 0, "N=" #NUMBER)
#define ROWS(NAME, NUMBER, KIND) \\
    X(NAME, "NAME, two", "r", 0, 0, 128, 0, "N=" #NUMBER " M=1") \\
    TWO_##KIND(NAME, NUMBER)
#include "elsewhere/list.def"
#undef ROWS
X(LAST, "last", "r", 0, 0, 128, 0, "")
`;
    const list = '/* ROWS(NO, 0, ONE) */\nROWS(P, 1, ONE)\nROWS(Q, 2, ONE)\n';
    const asked = [], include = (file) => (asked.push(file), list);
    const rows = parseTable(table, 't.def', include);
    assert.deepEqual(asked, ['elsewhere/list.def']);
    assert.deepEqual(rows.map(({where, name, file, overrides}) => [where, name, file, overrides]), [
        ['t.def:5', 'P', 'NAME, two', {N: '1', M: '1'}],
        ['t.def:5', 'P_A', 'one', {N: '1'}],
        ['t.def:5', 'Q', 'NAME, two', {N: '2', M: '1'}],
        ['t.def:5', 'Q_A', 'one', {N: '2'}],
        ['t.def:7', 'LAST', 'last', {}],
    ]);
    assert.throws(() => parseTable('#define F(A) X(A\n#undef F\nF(B)', 't.def'), /t\.def:3: F: word|a row X/);
});

const bad = [
    ['X(ONE, "one")', /t\.def:1: \): , expected/],
    ['\nX(ONE, "one", "rw", 0, 0, MANY, 0, "")', /t\.def:2: .*number expected/],
    ['X(ONE, "one", "rw", 0, 0, 1, 0, "A")', /"A": KEY=VALUE expected/],
    ['X(ONE, "one", "rw", 0, 0, 1, 0, "A=1 A=2")', /A: given twice/],
    ['#define ROW X', /#define ROW X: only #define/],
    ['Y(1)', /a row X/],
    ['X(ONE, "one', /unexpected/],
];
for (const [text, message] of bad)
    test(`refused: ${JSON.stringify(text)}`, () => assert.throws(() => parseTable(text, 't.def'), message));

const row = {name: 'ONE', file: 'one', where: 't.def:1', needs: 0, overrides: {A: '7', B: 'true', F: '-1.5'}};
const text = `enable subgroups;
override A: u32 = 1; // words
override B: bool = false;
override C: i32 = -3;
  override F: f32;
@group(0) @binding(1) var<storage, read_write> out: array<u32>; // coherent where it waits
// @group(0) @binding(9) var<storage, read> commented: array<u32>;
@binding(0) @group(0) var<uniform> p: P;
@group(0) @binding(2)
var<storage> weights: array<u32>; // coherent
`;
const kernel = plainKernel('one.wgsl', text);

test('what naga refuses goes, and all lines keep their numbers', () => {
    assert.equal(withoutEnable(text), text.replace('enable subgroups;', ''));
});

test('a mark for unrolling is one at the end of the line or on the next', () => {
    for (const loop of ['for (;;) { // unroll', 'for (;;) {\n  // unroll'])
        assert.match(withUnrollMarks(`${loop}\n}`), /\{\s+tern_unroll = \d+u;\n\}/);
});

test('overrides become constants', () => {
    const lines = withConstants(row, kernel).split('\n');
    assert.deepEqual(lines.slice(1, 5), [
        'const A: u32 = 7; // words',
        'const B: bool = true;',
        'const C: i32 = -3;',
        '  const F: f32 = -1.5;',
    ]);
    assert.deepEqual(constantsFor(row, kernel), {A: 7, B: 1, F: -1.5});
    assert.deepEqual(
        overridesOf(text).map((o) => o.key),
        ['A', 'B', 'C', 'F'],
    );
    assert.throws(() => withConstants({...row, overrides: {A: '7'}}, kernel), /one\.wgsl:5: ONE: override F: no value/);
    for (const value of ['-1', '4294967296', '1.5', 'x', '1u']) {
        assert.throws(
            () => withConstants({...row, overrides: {...row.overrides, A: value}}, kernel),
            /a value of type u32/,
        );
    }
});

test('bindings in any order of attributes, not those in comments', () => {
    assert.deepEqual(
        bindingsOf(text).map((b) => [b.binding, b.space, b.name, b.line, b.coherent]),
        [
            [0, 'uniform', 'p', 8, undefined],
            [1, 'w', 'out', 6, 'waits'],
            [2, 'r', 'weights', 10, 'always'],
        ],
    );
});
