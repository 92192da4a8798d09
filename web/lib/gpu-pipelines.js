/** Compute pipelines of the table that the core has (src/backend/gpu/pipelines.def), from the kernels' texts. */

const COMPUTE = 0x4;
const NEEDS_SUBGROUPS = 1;
const TYPE_OF = {r: 'read-only-storage', w: 'storage'};

/** The name of the text of a kernel; some have another with subgroups. */
export function textName(kernels, file, subgroups) {
  const other = `${file} with subgroups`;
  return subgroups && other in kernels ? other : file;
}

/** {KEY: number} of "KEY=VALUE ...". */
export function constantsOf(overrides) {
  return Object.fromEntries(overrides.split(' ').filter(Boolean).map((pair) => {
    const [key, value] = pair.split('=');
    return [key, value === 'true' ? 1 : value === 'false' ? 0 : Number(value.replace(/f$/, ''))];
  }));
}

export class GpuPipelines {
  constructor(device, kernels) {
    this.device = device;
    this.kernels = kernels;
    this.layouts = new Map();
    this.modules = new Map();
    /** {pipeline, layout, name} by the pipeline's number. */
    this.items = [];
  }

  /** Binding 0 is the uniform block, then one for each letter. */
  layout(signature) {
    if (!this.layouts.has(signature)) {
      const types = ['uniform', ...[...signature].map((letter) => TYPE_OF[letter])];
      const entries = types.map((type, binding) => ({binding, visibility: COMPUTE, buffer: {type}}));
      const group = this.device.createBindGroupLayout({label: signature, entries});
      this.layouts.set(signature, {group, pipeline: this.device.createPipelineLayout({bindGroupLayouts: [group]})});
    }
    return this.layouts.get(signature);
  }

  module(file, subgroups) {
    const name = textName(this.kernels, file, subgroups), code = this.kernels[name];
    if (!code) throw new Error(`kernels.js has no ${file}: it is older than the core, or newer`);
    if (!this.modules.has(name)) this.modules.set(name, this.device.createShaderModule({label: name, code}));
    return this.modules.get(name);
  }

  /** Once for each: another backend on the device takes what the first one made. */
  make(which, {name, file, signature, overrides, needs}) {
    if (this.items[which]) return this.items[which];
    const layout = this.layout(signature), module = this.module(file, (needs & NEEDS_SUBGROUPS) !== 0);
    const compute = {module, entryPoint: 'main', constants: constantsOf(overrides)};
    const pipeline = this.device.createComputePipeline({label: name, layout: layout.pipeline, compute});
    this.items[which] = {pipeline, layout: layout.group, name};
    return this.items[which];
  }
}
