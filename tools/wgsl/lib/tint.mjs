// Tint, the WGSL compiler of Dawn and of Chromium, through the npm package webgpu; no GPU needed (Dawn's null backend).
import {create, globals} from 'webgpu';

import {needsSubgroups} from './pipelines.mjs';
import {bindingsOf, constantsFor, KernelError, withConstants} from './specialise.mjs';

const LAYOUT = {uniform: 'uniform', r: 'read-only-storage', w: 'storage'};

export class Tint {
    static async open() {
        Object.assign(globalThis, globals);
        const tint = new Tint();
        tint.gpu = create(['backend=null']);
        tint.devices = [await tint.device([]), await tint.device(['subgroups'])];
        return tint;
    }

    async device(requiredFeatures) {
        const adapter = await this.gpu.requestAdapter();
        if (!adapter) throw new Error('Dawn has no null backend');
        return adapter.requestDevice({requiredFeatures});
    }

    close() {
        for (const device of this.devices) device.destroy();
        this.gpu = null; // as long as it is there, Node does not end
    }

    // Dawn's null backend has the limits that every WebGPU device has, and no others.
    static fitsDefaultLimits(row) {
        return row.invocations <= 256 && row.bytes <= 16384;
    }

    async module(device, row, kernel, code) {
        device.pushErrorScope('validation');
        const module = device.createShaderModule({code});
        const {messages} = await module.getCompilationInfo();
        const other = await device.popErrorScope();
        const first = messages.find((m) => m.type === 'error');
        if (first) {
            const said = messages.map((m) => {
                const {file, line} = kernel.place(m.lineNum);
                return `${file}:${line}: ${m.type}: ${m.message}`;
            });
            throw new KernelError(kernel.place(first.lineNum), row.name,
                `Tint: ${first.message}\n  ${said.join('\n  ')}`);
        }
        if (other) throw new KernelError(kernel.place(1), row.name, `Tint: ${other.message}`);
        return module;
    }

    layout(device, text) {
        const entries = bindingsOf(text).map((b) => ({
            binding: b.binding,
            visibility: 4,
            buffer: {type: LAYOUT[b.space]},
        }));
        return device.createPipelineLayout({bindGroupLayouts: [device.createBindGroupLayout({entries})]});
    }

    // Makes the row's pipeline as a web page would. Throws a KernelError.
    async check(row, kernel) {
        const device = this.devices[needsSubgroups(row) ? 1 : 0];
        if (!Tint.fitsDefaultLimits(row)) {
            return void (await this.module(device, row, kernel, withConstants(row, kernel)));
        }
        const module = await this.module(device, row, kernel, kernel.text);
        try {
            await device.createComputePipelineAsync({
                layout: this.layout(device, kernel.text),
                compute: {module, entryPoint: 'main', constants: constantsFor(row, kernel)},
            });
        } catch (error) {
            throw new KernelError(
                kernel.place(Number(/:(\d+):\d+ error/.exec(error.message)?.[1] ?? 1)),
                row.name,
                `Tint: ${error.message}`,
            );
        }
    }
}
