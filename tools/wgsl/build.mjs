#!/usr/bin/env node
// Makes src/backend/gpu/generated from the kernels in src/backend/gpu/FAMILY and the pipeline table: the SPIR-V of
// every row, the kernels' texts for browsers, and what C must know of them.
import {spawnSync} from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import {fileURLToPath} from 'node:url';
import {parseArgs} from 'node:util';

import {browserTexts} from './lib/browser.mjs';
import {compile} from './lib/compile.mjs';
import {GENERATED, kernelFor, readKernels, readTable} from './lib/folders.mjs';
import {headerOf, sourceOf} from './lib/header.mjs';
import {digestOf, keyOf, KEYS, keysFile, readKeys} from './lib/keys.mjs';
import {packFiles, packKernel, readPack, unpack} from './lib/pack.mjs';
import {nativeOnly, needsCooperative} from './lib/pipelines.mjs';
import {KernelError} from './lib/specialise.mjs';

const HELP = `usage: build.mjs [--only PATTERN] [--check] [--tint] [--opt] [--out FOLDER] [--poison] [--list]
Compiles the WGSL kernels to SPIR-V, one module for each row of src/backend/gpu/FAMILY/pipelines*.def, and writes
src/backend/gpu/generated: kernels.spvpack and spirv.def (the SPIR-V), kernels.keys (what it was made from),
kernels.json (the texts for browsers), kernels.h and kernels.c (uniforms, bindings and overrides for C). Nothing is
written where there are errors. Kernels whose text, rows and tools are as before stay as they are.
  --only PATTERN  only kernels of which a pipeline's name or the file matches this regular expression
  --all           all kernels, changed or not
  --check         write nothing; compile all and fail where a file is missing, stale or not what would be written
  --tint          compile them by Dawn's Tint as well, as browsers do (npm test does this for all)
  --opt           run spirv-opt -O over the result (to compare)
  --out FOLDER    write the SPIR-V there (cmake -DTERN_SPIRV_FOLDER=FOLDER builds with it)
  --poison        workgroup memory starts with rubbish: tests of a build with it find kernels that read what they
                  have not written
  --list          print the pipelines
`;

// [[file name, Buffer]] of what is generated from the texts alone.
export function generatedTexts(rows, kernels) {
    const texts = [
        ['kernels.h', headerOf(kernels)],
        ['kernels.c', sourceOf(kernels, rows)],
        ['kernels.json', `${JSON.stringify(browserTexts(kernels, rows), null, 1)}\n`],
    ];
    return texts.map(([name, text]) => [name, Buffer.from(text)]);
}

// A tool on a file: false when it is not installed; an error with what it said when it fails.
function tool(name, args) {
    const run = spawnSync(name, args, {encoding: 'utf8'});
    if (run.error?.code === 'ENOENT') return false;
    if (run.status !== 0) throw new Error(`${name}: ${run.stdout}${run.stderr}`);
    return true;
}

// Errors that are the same but for the pipeline's name are said once.
function summary(errors) {
    const same = new Map();
    for (const error of errors) {
        const key = error.replace(/^(\S+:\d+): \w+:/, '$1:');
        same.set(key, [...(same.get(key) ?? []), error]);
    }
    return [...same.values()].map(([first, ...rest]) => (rest.length ? `${first}\n  and ${rest.length} more` : first));
}

class Build {
    constructor(options, kernels) {
        this.kernels = kernels;
        this.options = options;
        this.out = path.resolve(options.out ?? GENERATED);
        this.scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'tern-wgsl-'));
        this.file = path.join(this.scratch, 'kernel.spv');
        this.errors = [];
        this.validated = true;
    }

    // The words of a row, by way of spirv-opt where that is asked for.
    wordsOf(row) {
        const words = compile(row, kernelFor(row, this.kernels), this.options);
        return this.options.opt ? this.through(words, 'spirv-opt', ['-O', '-o', this.file, this.file]) : words;
    }

    // Runs a tool on words in a file, and reads what the file has then.
    through(words, name, args) {
        fs.writeFileSync(this.file, Buffer.from(words.buffer));
        if (!tool(name, args)) throw new Error(`${name} is not installed`);
        return Uint32Array.from(new Uint32Array(Uint8Array.from(fs.readFileSync(this.file)).buffer));
    }

    // spirv-val of Debian 12 does not know cooperative matrices.
    validate(row, words) {
        if (needsCooperative(row) || !this.validated) return;
        fs.writeFileSync(this.file, Buffer.from(words.buffer));
        this.validated = tool('spirv-val', ['--target-env', 'vulkan1.1', this.file]);
    }

    // What `make` gives; undefined where that fails, which becomes an error of the row.
    attempt(row, make) {
        try {
            return make();
        } catch (error) {
            const known = error instanceof KernelError;
            this.errors.push(known ? error.message : `${row.file}: ${row.name}: ${error.message}`);
            return undefined;
        }
    }

    // [[name, packed module]] of a kernel's rows.
    packed(rows) {
        const modules = rows.map((row) => [row.name, this.attempt(row, () => this.wordsOf(row))]);
        if (modules.some(([, words]) => !words)) return [];
        const entries = this.attempt(rows[0], () => packKernel(modules)) ?? [], all = new Map(entries);
        for (const row of rows.filter(({name}) => all.has(name)))
            this.attempt(row, () => this.validate(row, unpack(all, row.name)));
        return entries;
    }

    compare(row, before, now) {
        if (now && before?.reference === now.reference && before.packed.equals(now.packed)) return;
        this.errors.push(`${row.name}: the SPIR-V is not what kernel ${row.file} gives; make shaders`);
    }

    // Name -> packed module, in the order of the rows: those of the kernels in `chosen` made, the others as they are.
    modules(rows, chosen) {
        const before = readPack(this.out), made = new Map(before);
        for (const file of chosen)
            for (const [name, entry] of this.packed(rows.filter((row) => row.file === file))) made.set(name, entry);
        if (this.options.check)
            for (const row of rows) this.compare(row, before.get(row.name), made.get(row.name));
        return new Map(rows.filter((row) => made.has(row.name)).map((row) => [row.name, made.get(row.name)]));
    }

    // Kernels that must be made: named by --only, and, unless all are wanted, made from something else before.
    chosen(rows, keys) {
        const {only, check, all, out} = this.options, pattern = new RegExp(only ?? '', 'i');
        const named = rows.filter((row) => pattern.test(row.name) || pattern.test(row.file)).map((row) => row.file);
        if (named.length === 0) throw new Error(`--only ${only}: no pipeline`);
        const before = readKeys(this.out), pack = readPack(this.out);
        const stale = (file) => before.get(file) !== `${keys.get(file)} ${digestOf(file, rows, pack)}`;
        return [...new Set(named)].filter((file) => check || all || out || stale(file));
    }

    // Writes the files that are others now, and says how many; with --check they are errors.
    emit(files) {
        let written = 0;
        for (const [name, bytes] of files) {
            const file = path.join(this.out, name);
            if (fs.existsSync(file) && fs.readFileSync(file).equals(bytes)) continue;
            if (this.options.check) this.errors.push(`generated/${name}: not what the kernels give; make shaders`);
            else {
                fs.mkdirSync(this.out, {recursive: true});
                fs.writeFileSync(file, bytes);
                written++;
            }
        }
        return written;
    }

    async tint(rows) {
        const {Tint} = await import('./lib/tint.mjs'),
            tint = await Tint.open();
        for (const row of rows.filter((r) => !nativeOnly(r))) {
            try {
                await tint.check(row, kernelFor(row, this.kernels));
            } catch (error) {
                this.errors.push(error.message);
            }
        }
        tint.close();
    }

    async run(rows) {
        const files = [...new Set(rows.map((row) => row.file))];
        const keys = new Map(files.map((file) => [file, keyOf(file, rows, this.kernels)]));
        const chosen = this.chosen(rows, keys), modules = this.modules(rows, chosen);
        const compiled = rows.filter((row) => chosen.includes(row.file));
        if (this.options.tint) await this.tint(compiled);
        const failed = this.errors.length > 0, out = packFiles(modules);
        if (!this.options.out && !failed) {
            const before = readKeys(this.out);
            const now = [...keys].map(([file, key]) =>
                [file, chosen.includes(file) ? `${key} ${digestOf(file, rows, modules)}` : before.get(file)]);
            out.push([KEYS, keysFile(now.filter(([, key]) => key))], ...generatedTexts(rows, this.kernels));
        }
        const written = failed && !this.options.check ? 0 : this.emit(out);
        fs.rmSync(this.scratch, {recursive: true});
        for (const error of summary(this.errors)) console.error(error);
        if (!this.validated) console.error('spirv-val is not installed: nothing was validated');
        const said = [`${compiled.length} of ${rows.length} pipelines compiled`, `${written} files written`];
        console.log([...said, `${this.errors.length} errors`].join(', '));
        return this.errors.length === 0 ? 0 : 1;
    }
}

async function main() {
    const {values: options} = parseArgs({
        options: {
            only: {type: 'string'},
            all: {type: 'boolean'},
            check: {type: 'boolean'},
            tint: {type: 'boolean'},
            opt: {type: 'boolean'},
            out: {type: 'string'},
            poison: {type: 'boolean'},
            list: {type: 'boolean'},
            help: {type: 'boolean', short: 'h'},
        },
    });
    if (options.help) return (process.stdout.write(HELP), 0);
    if ((options.poison || options.opt) && !options.out) throw new Error('--poison and --opt want --out FOLDER');
    const rows = readTable();
    if (options.list) {
        for (const row of rows)
            console.log(`${row.name}\t${row.file}\t${row.signature}\t${JSON.stringify(row.overrides)}`);
        return 0;
    }
    return new Build(options, await readKernels()).run(rows);
}

if (process.argv[1] && fs.realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
    try {
        process.exitCode = await main();
    } catch (error) {
        console.error(error.message);
        process.exitCode = 2;
    }
}
