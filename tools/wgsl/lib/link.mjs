// From kernels in WESL (WGSL with imports and conditions) to one text of WGSL each, by the npm package wesl.
import {linkRegistry, normalizeModuleName, RecordResolver, withLoggerAsync} from 'wesl/core';

import {KernelError, plainKernel} from './specialise.mjs';

// What naga knows beyond WGSL (cooperative matrices) and the linker does not: kernels import these names from `naga`,
// and the declarations that stand for them are taken out of the linked text again.
const STAND_IN = '0x7e26a11u';
const NAGA = ['coop_mat16x16', 'A', 'B', 'C', 'coopLoad', 'coopLoadT', 'coopMultiplyAdd', 'coopStoreT'];
const naga = NAGA.map((name) => `const ${name} = ${STAND_IN};\n`).join('');
const withoutStandIns = (text) =>
    text.replace(/^const \w+ = 0x7e26a11u;$/gm, (line) => ' '.repeat(line.length));

// A name that two modules declare gets the module's name in front where it comes second.
function mangle(declaration, module, name, taken) {
    let free = name;
    const from = module.modulePath.split('::').at(-1);
    for (let i = 0; taken.has(free); i++) free = `${from}_${name}${i || ''}`;
    return free;
}

// Modules by their paths; `kernel` is the kernel that is being linked, of which what it imports may use declarations.
class Modules {
    constructor(resolver, kernel) {
        this.resolver = resolver;
        this.kernel = kernel;
    }
    resolveModule(path) {
        return this.resolver.resolveModule(path === 'kernel' ? this.kernel : path);
    }
}

const lineAt = (text, offset) => text.slice(0, offset).split('\n').length;

export class Linker {
    // sources: {path: text} of all modules, kernels and what they import; paths are package::FOLDER::NAME in imports.
    constructor(sources) {
        this.sources = sources;
        const records = Object.entries(sources).map(([path, text]) => [`./${path}`, text]);
        this.resolver = new RecordResolver({naga, ...Object.fromEntries(records)});
    }

    // The source's path of what wesl calls ./FOLDER/NAME.wesl.
    pathOf(debugPath) {
        const path = debugPath.replace(/^\.\//, '');
        return path in this.sources ? path : path.replace(/\.wesl$/, '.wgsl');
    }

    // Where line `line` of the linked text comes from.
    place(map, line) {
        const lines = map.dest.text.split('\n'), before = lines.slice(0, line - 1);
        const offset = before.reduce((n, l) => n + l.length + 1, 0) + (lines[line - 1] ?? '').search(/\S|$/);
        const {src, position} = map.destToSrc(offset);
        return {file: this.pathOf(src.path ?? ''), line: lineAt(src.text, position)};
    }

    // Where an error of wesl is: it says so itself, or, of the syntax, in its first line.
    placeOf(error, path) {
        if (error.weslLocation) return {...error.weslLocation, file: this.pathOf(error.weslLocation.file)};
        const [, file, line] = /^(\S+):(\d+):\d+ /.exec(error.message) ?? [];
        return file ? {file: this.pathOf(file), line: Number(line)} : {file: path, line: 1};
    }

    // The kernel at `path` with the conditions `subgroups` and `waits` true or false. Files that end in .wgsl are taken
    // as they are.
    async link(path, subgroups, waits = false) {
        if (path.endsWith('.wgsl')) return plainKernel(path, this.sources[path]);
        const rootModuleName = normalizeModuleName(`./${path}`), resolver = new Modules(this.resolver, rootModuleName);
        const options = {resolver, rootModuleName, conditions: {subgroups, waits}, mangler: mangle};
        try {
            const map = await withLoggerAsync(() => {}, async () => linkRegistry(options));
            return {
                text: withoutStandIns(map.dest.text),
                source: this.sources[path],
                place: (line) => this.place(map, line),
            };
        } catch (error) {
            throw new KernelError(this.placeOf(error, path), 'wesl', error.message);
        }
    }
}
