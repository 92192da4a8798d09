// Where things lie in src/backend/gpu: a folder for each family of ops, with its pipelines*.def and its kernels, and
// folders of what kernels import.
import fs from 'node:fs';
import path from 'node:path';
import {fileURLToPath} from 'node:url';

import {Linker} from './link.mjs';
import {needsSubgroups, needsWaits, parseTable} from './pipelines.mjs';
import {KernelError} from './specialise.mjs';

export const GPU = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../../src/backend/gpu');
export const GENERATED = path.join(GPU, 'generated');

// The files FOLDER/NAME whose name matches, as paths relative to `folder`, sorted.
function filesBelow(folder, pattern) {
    const folders = fs.readdirSync(folder, {withFileTypes: true}).filter((entry) => entry.isDirectory());
    const files = folders.flatMap(({name}) =>
        fs
            .readdirSync(path.join(folder, name))
            .filter((file) => pattern.test(file))
            .map((file) => `${name}/${file}`),
    );
    return files.sort();
}

const read = (folder, file) => fs.readFileSync(path.join(folder, file), 'utf8');

// The rows of all tables, in the order of their paths.
export function readTable(folder = GPU) {
    const include = (file) => (file.endsWith('/formats.def') ? read(folder, path.basename(file)) : undefined);
    const tables = filesBelow(folder, /^pipelines.*\.def$/);
    const rows = tables.flatMap((file) => parseTable(read(folder, file), file, include));
    const seen = new Map();
    for (const row of rows) {
        if (seen.has(row.name)) throw new Error(`${row.where}: ${row.name} is also at ${seen.get(row.name)}`);
        seen.set(row.name, row.where);
    }
    return rows;
}

// A kernel without and with subgroups.
const linked = async (linker, file, waits) => ({
    plain: await linker.link(file, false, waits),
    subgroups: await linker.link(file, true, waits),
});

// All kernels, linked: a Map from names to {file, plain, subgroups, waiting: {plain, subgroups}}, the kernel without
// and with subgroups, and where it waits (which few do), sorted by name. A kernel is a file with an entry point; its
// name is one kernel, whatever the folder.
export async function readKernels(folder = GPU) {
    const sources = Object.fromEntries(filesBelow(folder, /\.w[eg]sl$/).map((file) => [file, read(folder, file)]));
    const linker = new Linker(sources), kernels = new Map();
    for (const file of Object.keys(sources).filter((f) => /^@compute\b/m.test(sources[f]))) {
        const name = path.parse(file).name;
        if (kernels.has(name)) throw new Error(`${file}: ${kernels.get(name).file} has that name`);
        const waiting = sources[file].includes('@if(waits)') ? await linked(linker, file, true) : undefined;
        kernels.set(name, {file, ...(await linked(linker, file, false)), waiting});
    }
    return new Map([...kernels].sort(([a], [b]) => (a < b ? -1 : 1)));
}

// The kernel of a row.
export function kernelFor(row, kernels) {
    const kernel = kernels.get(row.file), place = {file: row.file, line: 1};
    if (!kernel) throw new KernelError(place, row.name, `no kernel has this name; ${row.where} names it`);
    const texts = needsWaits(row) ? kernel.waiting : kernel;
    if (!texts) throw new KernelError(place, row.name, `the kernel has no @if(waits); ${row.where} says that it waits`);
    return needsSubgroups(row) ? texts.subgroups : texts.plain;
}
