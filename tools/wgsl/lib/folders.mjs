// Where things lie in src/backend/gpu: a folder for each family of ops, with its pipelines*.def and its *.wgsl.
import fs from 'node:fs';
import path from 'node:path';
import {fileURLToPath} from 'node:url';

import {parseTable} from './pipelines.mjs';

export const GPU = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../../src/backend/gpu');

// The files FAMILY/NAME whose name matches, as paths relative to `folder`, sorted.
function familyFiles(folder, pattern) {
    const families = fs.readdirSync(folder, {withFileTypes: true}).filter((entry) => entry.isDirectory());
    const files = families.flatMap(({name}) =>
        fs
            .readdirSync(path.join(folder, name))
            .filter((file) => pattern.test(file))
            .map((file) => `${name}/${file}`),
    );
    return files.sort();
}

// The rows of all tables, in the order of their paths.
export function readTables(folder = GPU) {
    const tables = familyFiles(folder, /^pipelines.*\.def$/);
    return tables.flatMap((file) => parseTable(fs.readFileSync(path.join(folder, file), 'utf8'), file));
}

// {NAME: 'FAMILY/NAME.wgsl'} of all kernels. A name is one kernel, whatever the family.
export function kernelFiles(folder = GPU) {
    const files = {};
    for (const file of familyFiles(folder, /\.wgsl$/)) {
        const name = path.basename(file, '.wgsl');
        if (name in files) throw new Error(`${file}: ${files[name]} has that name`);
        files[name] = file;
    }
    return files;
}
