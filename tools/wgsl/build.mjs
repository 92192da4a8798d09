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
import {packModules, readModules} from './lib/pack.mjs';
import {nativeOnly, needsCooperative} from './lib/pipelines.mjs';
import {KernelError} from './lib/specialise.mjs';

const HELP = `usage: build.mjs [--only PATTERN] [--check] [--tint] [--opt] [--out FOLDER] [--poison] [--list]
Compiles the WGSL kernels to SPIR-V, one module for each row of src/backend/gpu/FAMILY/pipelines*.def, and writes
src/backend/gpu/generated: kernels.spvpack and spirv.def (the SPIR-V), kernels.json (the texts for browsers), kernels.h
and kernels.c (uniforms, bindings and overrides for C). Nothing is written where there are errors.
  --only PATTERN  pipelines whose name or file matches this regular expression; the others stay as they are
  --check         write nothing; fail where a file is missing, stale or not what would be written
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
        this.errors = [];
        this.validated = true;
    }

    bytesOf(row) {
        const file = path.join(this.scratch, 'kernel.spv');
        const kernel = kernelFor(row, this.kernels), words = compile(row, kernel, this.options);
        fs.writeFileSync(file, Buffer.from(words.buffer));
        try {
            // spirv-val of Debian 12 does not know cooperative matrices
            if (!needsCooperative(row))
                this.validated = tool('spirv-val', ['--target-env', 'vulkan1.1', file]) && this.validated;
            if (this.options.opt && !tool('spirv-opt', ['-O', file, '-o', file]))
                throw new Error('spirv-opt is not installed');
        } catch (error) {
            throw new KernelError(kernel.place(1), row.name, error.message);
        }
        return fs.readFileSync(file);
    }

    // Name -> bytes, in the order of the rows: those chosen compiled, the others as they are.
    modules(rows, chosen) {
        const before = readModules(this.out), modules = new Map();
        for (const row of rows) {
            try {
                const bytes = chosen.has(row) ? this.bytesOf(row) : before.get(row.name);
                if (bytes) modules.set(row.name, bytes);
                if (this.options.check && !before.get(row.name)?.equals(bytes))
                    this.errors.push(`${row.name}: the SPIR-V is not what kernel ${row.file} gives; make shaders`);
            } catch (error) {
                this.errors.push(error instanceof KernelError ? error.message : error.stack);
            }
        }
        return modules;
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
        const pattern = new RegExp(this.options.only ?? '', 'i');
        const chosen = rows.filter((row) => pattern.test(row.name) || pattern.test(row.file));
        if (chosen.length === 0) throw new Error(`--only ${this.options.only}: no pipeline`);
        const modules = this.modules(rows, new Set(chosen));
        if (this.options.tint) await this.tint(chosen);
        const failed = this.errors.length > 0;
        const texts = this.options.out || failed ? [] : generatedTexts(rows, this.kernels);
        const files = [...packModules(modules), ...texts];
        const written = failed && !this.options.check ? 0 : this.emit(files);
        fs.rmSync(this.scratch, {recursive: true});
        for (const error of summary(this.errors)) console.error(error);
        if (!this.validated) console.error('spirv-val is not installed: nothing was validated');
        console.log(`${chosen.length} pipelines, ${written} files written, ${this.errors.length} errors`);
        return this.errors.length === 0 ? 0 : 1;
    }
}

async function main() {
    const {values: options} = parseArgs({
        options: {
            only: {type: 'string'},
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
