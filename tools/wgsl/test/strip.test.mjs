// The kernels' texts for browsers: what web/lib makes of them for each row is what specialise.mjs makes of the file.
import assert from 'node:assert/strict';
import {test} from 'node:test';

import {constantsOf, textFor as browserTextFor} from '../../../web/lib/gpu-pipelines.js';
import {readKernel, readKernels, readTable} from '../build.mjs';
import {kernelsModule} from '../lib/browser.mjs';
import {nativeOnly, needsSubgroups} from '../lib/pipelines.mjs';
import {constantsFor, textFor} from '../lib/specialise.mjs';
import {strip, SUBGROUPS_MARK} from '../lib/strip.mjs';

const words = (text) => text.replace(/\/\/.*$/gm, '').split(/\s+/).filter(Boolean).join(' ');

const rows = readTable().filter((row) => !nativeOnly(row));
const module = kernelsModule(readKernels(), readTable());
const {kernels} = await import(`data:text/javascript,${encodeURIComponent(module)}`);

test('every row has its kernel, word for word, and its constants', () => {
    assert.ok(rows.length > 100);
    for (const row of rows) {
        const source = readKernel(row), text = browserTextFor(kernels[row.file], needsSubgroups(row));
        assert.equal(words(text), words(textFor(row, source)), row.name);
        const overrides = Object.entries(row.overrides).map(([key, value]) => `${key}=${value}`).join(' ');
        assert.deepEqual(constantsOf(overrides), constantsFor(row, textFor(row, source)), row.name);
    }
});

test('a file that no row for browsers names is left out', () => {
    assert.deepEqual(Object.keys(kernels).sort(), [...new Set(rows.map((row) => row.file))].sort());
});

test('comments, indentation and empty lines go; lines for subgroups are marked', () => {
    assert.equal(SUBGROUPS_MARK, '~');
    const source = 'enable subgroups; // subgroups only\n\n// why\n  let a = 1u; // one\n';
    assert.equal(strip(source), '~enable subgroups;\nlet a = 1u;');
    assert.throws(() => strip('/* no */'), /\/\* \*\//);
});
