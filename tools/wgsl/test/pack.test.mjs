// The pack of all SPIR-V: what goes in comes out, and the committed one has every row of the table.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import {test} from 'node:test';

import {GENERATED, readTable} from '../lib/folders.mjs';
import {packModules, readModules} from '../lib/pack.mjs';

test('modules come back, and equal ones are kept once', () => {
    const modules = new Map([
        ['A', Buffer.from('aaaabbbb')], ['B', Buffer.from('cccc')], ['C', Buffer.from('aaaabbbb')],
    ]);
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tern-pack-')), files = packModules(modules);
    for (const [name, bytes] of files) fs.writeFileSync(path.join(folder, name), bytes);
    assert.deepEqual(readModules(folder), modules);
    assert.equal(files[0][1].toString(), 'aaaabbbbcccc');
    fs.rmSync(folder, {recursive: true});
    assert.equal(readModules(folder).size, 0);
});

test('every pipeline is in the committed pack', () => {
    assert.deepEqual([...readModules(GENERATED).keys()], readTable().map((row) => row.name));
});
