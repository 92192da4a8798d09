#!/usr/bin/env node
// Makes src/backend/gpu/spirv/NAME.spv, one for each row of the pipeline table, from src/backend/gpu/FAMILY/*.wgsl.
import {spawnSync} from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import {fileURLToPath} from 'node:url';
import {parseArgs} from 'node:util';

import {compile} from './lib/compile.mjs';
import {GPU, kernelFiles, readTables} from './lib/folders.mjs';
import {headerOf, sourceOf} from './lib/header.mjs';
import {nativeOnly} from './lib/pipelines.mjs';
import {KernelError} from './lib/specialise.mjs';

const HELP = `usage: build.mjs [--only PATTERN] [--check] [--tint] [--opt] [--out FOLDER] [--poison] [--list]
Compiles the WGSL kernels to SPIR-V, one file for each row of src/backend/gpu/FAMILY/pipelines*.def, and writes what C must
know of them to src/backend/gpu/generated.
  --only PATTERN  pipelines whose name or file matches this regular expression (no file is removed then)
  --check         write nothing; fail where a file is missing, stale or not what would be written
  --tint          compile them by Dawn's Tint as well, as browsers do (npm test does this for all)
  --opt           run spirv-opt -O over the result (to compare)
  --out FOLDER    write there (cmake -DTERN_SPIRV_DIR=FOLDER builds with it), not src/backend/gpu/spirv
  --poison        workgroup memory starts with rubbish: tests of a build with it find kernels that read what they
                  have not written
  --list          print the pipelines
`;

export const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');

// The rows of all tables, in the order of their paths.
export function readTable(folder = GPU) {
    const rows = readTables(folder);
    const seen = new Map();
    for (const row of rows) {
        if (seen.has(row.name)) throw new Error(`${row.where}: ${row.name} is also at ${seen.get(row.name)}`);
        seen.set(row.name, row.where);
    }
    return rows;
}

export function readKernel(row, folder = GPU) {
    const file = kernelFiles(folder)[row.file];
    if (!file) throw new KernelError(`${row.file}.wgsl`, 1, row.name, `no such file; ${row.where} names it`);
    return fs.readFileSync(path.join(folder, file), 'utf8');
}

// {NAME: {file, text}} of all kernels, by name.
export function readKernels(folder = GPU) {
    const files = Object.entries(kernelFiles(folder)).sort(([a], [b]) => (a < b ? -1 : 1));
    return Object.fromEntries(
        files.map(([name, file]) => [name, {file, text: fs.readFileSync(path.join(folder, file), 'utf8')}]),
    );
}

// [path below src/backend/gpu, text] of what is generated for C.
export function generatedForC(rows) {
    const kernels = readKernels();
    return [
        ['generated/kernels.h', headerOf(kernels)],
        ['generated/kernels.c', sourceOf(kernels, rows)],
    ];
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
    constructor(options) {
        this.options = options;
        this.out = path.resolve(options.out ?? path.join(GPU, 'spirv'));
        this.scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'tern-wgsl-'));
        this.errors = [];
        this.written = this.bytes = 0;
        this.validated = true;
    }

    bytesOf(row) {
        const file = path.join(this.scratch, 'kernel.spv');
        const words = compile(row, readKernel(row), this.options);
        fs.writeFileSync(file, Buffer.from(words.buffer));
        try {
            // spirv-val of Debian 12 does not know cooperative matrices
            if (!nativeOnly(row))
                this.validated = tool('spirv-val', ['--target-env', 'vulkan1.1', file]) && this.validated;
            if (this.options.opt && !tool('spirv-opt', ['-O', file, '-o', file]))
                throw new Error('spirv-opt is not installed');
        } catch (error) {
            throw new KernelError(`${row.file}.wgsl`, 1, row.name, error.message);
        }
        return fs.readFileSync(file);
    }

    emit(row) {
        const bytes = this.bytesOf(row),
            name = `${row.name}.spv`,
            file = path.join(this.out, name);
        this.bytes += bytes.length;
        if (fs.existsSync(file) && fs.readFileSync(file).equals(bytes)) return;
        if (this.options.check) throw new Error(`spirv/${name}: not what ${row.file}.wgsl gives; make shaders`);
        fs.mkdirSync(this.out, {recursive: true});
        fs.writeFileSync(file, bytes);
        this.written++;
    }

    // Writes the text where it is another one; with --check that is an error.
    emitText(name, text) {
        const file = path.join(GPU, name);
        if (fs.existsSync(file) && fs.readFileSync(file, 'utf8') === text) return;
        if (this.options.check) throw new Error(`${name}: not what the kernels give; make shaders`);
        fs.mkdirSync(path.dirname(file), {recursive: true});
        fs.writeFileSync(file, text);
        this.written++;
    }

    emitForC(rows) {
        try {
            for (const [name, text] of generatedForC(rows)) this.emitText(name, text);
        } catch (error) {
            this.errors.push(error.message);
        }
    }

    removeStale(rows) {
        if (this.options.only || !fs.existsSync(this.out)) return;
        const names = new Set(rows.map((row) => `${row.name}.spv`));
        for (const file of fs.readdirSync(this.out).filter((f) => f.endsWith('.spv') && !names.has(f))) {
            if (this.options.check) this.errors.push(`spirv/${file}: no pipeline has this name; make shaders`);
            else fs.rmSync(path.join(this.out, file));
        }
    }

    async tint(rows) {
        const {Tint} = await import('./lib/tint.mjs'),
            tint = await Tint.open();
        for (const row of rows.filter((r) => !nativeOnly(r))) {
            try {
                await tint.check(row, readKernel(row));
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
        for (const row of chosen) {
            try {
                this.emit(row);
            } catch (error) {
                this.errors.push(error instanceof KernelError || this.options.check ? error.message : error.stack);
            }
        }
        if (this.options.tint) await this.tint(chosen);
        this.removeStale(rows);
        if (!this.options.out) this.emitForC(rows);
        fs.rmSync(this.scratch, {recursive: true});
        for (const error of summary(this.errors)) console.error(error);
        if (!this.validated) console.error('spirv-val is not installed: nothing was validated');
        console.log(
            `${chosen.length} pipelines, ${this.bytes} bytes, ${this.written} files written, ${this.errors.length} errors`,
        );
        return this.errors.length === 0 ? 0 : 1;
    }
}

function main() {
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
    return new Build(options).run(rows);
}

if (process.argv[1] && fs.realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
    try {
        process.exitCode = await main();
    } catch (error) {
        console.error(error.message);
        process.exitCode = 2;
    }
}
