// The kernels' texts for browsers: what web/lib takes for each row is what the row's kernel says.
import assert from 'node:assert/strict';
import {test} from 'node:test';

import {constantsOf, textName} from '../../../web/lib/gpu-pipelines.js';
import {strip} from '../lib/browser.mjs';
import {kernelFor, readKernels, readTable} from '../lib/folders.mjs';
import {nativeOnly, needsSubgroups} from '../lib/pipelines.mjs';
import {constantsFor} from '../lib/specialise.mjs';
import {kernelsModule} from '../text.mjs';

const words = (text) => text.replace(/\/\/.*$/gm, '').match(/\w+|[^\w\s]/g).join(' ');

const rows = readTable().filter((row) => !nativeOnly(row)), linked = await readKernels();
const {kernels} = await import(`data:text/javascript,${encodeURIComponent(kernelsModule())}`);

test('every row has its kernel, word for word, and its constants', () => {
    assert.ok(rows.length > 100);
    for (const row of rows) {
        const kernel = kernelFor(row, linked), name = textName(kernels, row.file, needsSubgroups(row));
        assert.equal(words(kernels[name]), words(kernel.text), row.name);
        const overrides = Object.entries(row.overrides).map(([key, value]) => `${key}=${value}`).join(' ');
        assert.deepEqual(constantsOf(overrides), constantsFor(row, kernel), row.name);
    }
});

test('a file that no row for browsers names is left out', () => {
    const names = Object.keys(kernels).map((name) => name.replace(/ with subgroups$/, ''));
    assert.deepEqual([...new Set(names)].sort(), [...new Set(rows.map((row) => row.file))].sort());
});

test('comments, indentation and empty lines go', () => {
    assert.deepEqual(strip('enable subgroups;\n\n// why\n  let a = 1u; // one\n'),
        ['enable subgroups;', 'let a = 1u;']);
    assert.throws(() => strip('/* no */'), /\/\* \*\//);
});
