/** The device of the WebGPU backend: opened here, handed to the core as Module.gpu, awaited between its steps. */
import {TernError} from './errors.js';
import {GpuHost} from './gpu-host.js';
import {measureRead} from './gpu-measure.js';
import {FEATURE as TIMESTAMPS} from './gpu-profile.js';
import {importUnderNode} from './platform.js';

/** What kernels are chosen by: the adapter's own values are asked for. */
const LIMITS = ['maxBufferSize', 'maxStorageBufferBindingSize', 'maxComputeWorkgroupStorageSize',
  'maxComputeInvocationsPerWorkgroup', 'maxComputeWorkgroupSizeX', 'maxComputeWorkgroupsPerDimension'];
const FEATURES = ['subgroups', TIMESTAMPS];
const LANGUAGE_FEATURE = 'packed_4x8_integer_dot_product';

/** Dawn under Node; it is loaded once. */
let dawn;
async function nodeEntry(flags) {
  if (!dawn) {
    const {create, globals} = await importUnderNode('webgpu').catch((cause) => {
      throw new TernError('NO_WEBGPU', 'WebGPU under Node needs the npm package "webgpu", which is missing', {cause});
    });
    for (const [name, value] of Object.entries(globals)) globalThis[name] ??= value;
    dawn = create(flags);
  }
  return dawn;
}

async function entryPoint(options) {
  if (options.gpu) return options.gpu;
  if (globalThis.navigator?.gpu) return navigator.gpu;
  if (globalThis.process?.versions?.node) return nodeEntry(options.dawnFlags ?? []);
  if (globalThis.isSecureContext === false) {
    const found = globalThis.location?.origin;
    throw new TernError('INSECURE_CONTEXT', `WebGPU needs a secure context, https: or localhost: found ${found}`);
  }
  throw new TernError('NO_WEBGPU', 'This browser has no WebGPU (navigator.gpu is missing)');
}

async function requestAdapter(entry, options) {
  const adapter = await entry.requestAdapter({powerPreference: options.powerPreference});
  if (!adapter) throw new TernError('NO_ADAPTER', 'The browser offers no GPU to this page: no adapter');
  const features = entry.wgslLanguageFeatures;
  if (features && !features.has(LANGUAGE_FEATURE)) {
    throw new TernError('UNSUPPORTED', `WebGPU without the WGSL feature ${LANGUAGE_FEATURE}, which the kernels need`);
  }
  if (options.software === false) refuseSoftware(adapter);
  return adapter;
}

/** GPUs that the processor plays, by what they call themselves: SwiftShader, Mesa's llvmpipe and lavapipe, WARP. */
const SOFTWARE = /swiftshader|llvmpipe|lavapipe|softpipe|basic render|\bwarp\b|software/i;

/** The name of an adapter that is no GPU; '' for one. */
export function softwareName(adapter) {
  const {vendor = '', architecture = '', device = '', description = ''} = adapter.info ?? {};
  const name = [description, device, architecture, vendor].find((each) => SOFTWARE.test(each)) ?? '';
  const fallback = adapter.info?.isFallbackAdapter ?? adapter.isFallbackAdapter;
  return name || (fallback ? description || vendor || 'a fallback adapter' : '');
}

function refuseSoftware(adapter) {
  const name = softwareName(adapter);
  if (!name) return;
  throw new TernError('NO_ADAPTER', `The only GPU here is played by the processor (${name}), which is faster itself`);
}

/** The adapter alone, to see what there is. Errors: NO_WEBGPU, INSECURE_CONTEXT, NO_ADAPTER, UNSUPPORTED. */
export async function findAdapter(options = {}) {
  return requestAdapter(await entryPoint(options), options);
}

function limitsOf(adapter, wanted = {}) {
  const limits = Object.fromEntries(LIMITS.map((name) => [name, adapter.limits[name]]));
  for (const [name, value] of Object.entries(wanted)) {
    if (!(value <= adapter.limits[name])) {
      throw new TernError('UNSUPPORTED', `limit ${name} of ${value}: the adapter has ${adapter.limits[name]}`);
    }
    limits[name] = value;
  }
  return limits;
}

/** What the core takes the device for: no more than was wanted, also where every device has more. */
function limitsForCore(device, wanted = {}) {
  return Object.fromEntries(LIMITS.map((name) => [name, Math.min(device.limits[name], wanted[name] ?? Infinity)]));
}

async function requestDevice(adapter, options) {
  const without = options.withoutFeatures ?? [];
  const requiredFeatures = FEATURES.filter((name) => adapter.features.has(name) && !without.includes(name));
  const requiredLimits = limitsOf(adapter, options.requiredLimits);
  try {
    return await adapter.requestDevice({label: 'tern', requiredFeatures, requiredLimits});
  } catch (cause) {
    throw new TernError('NO_ADAPTER', `The GPU could not be opened: ${cause.message}`, {cause});
  }
}

export class Gpu {
  /**
   * @param {{powerPreference?: string, requiredLimits?: Record<string, number>, withoutFeatures?: string[], gpu?: GPU,
   *   kernels?: object, dawnFlags?: string[], software?: boolean}} [options] `gpu` in place of navigator.gpu;
   *   `kernels` in place of kernels.js; `dawnFlags` of Node's first device; `software` false: an adapter that is no GPU
   *   is NO_ADAPTER
   */
  static async open(options = {}) {
    const entry = await entryPoint(options);
    const kernels = options.kernels ?? (await import('./kernels.js')).kernels;
    const adapter = await requestAdapter(entry, options);
    const device = await requestDevice(adapter, options);
    return new Gpu(adapter, device, kernels, limitsForCore(device, options.requiredLimits));
  }

  constructor(adapter, device, kernels, limits) {
    this.adapter = adapter;
    this.device = device;
    /** The functions that the core imports (src/backend/webgpu/host.h). */
    this.host = new GpuHost(device, adapter.info ?? {}, kernels, limits);
    /** Resolves with a message when the device is lost. */
    this.lost = device.lost.then((info) => this.host.lose(info));
  }

  /** Resolves when something that was PENDING can go on; at once when nothing is. */
  idle() {
    return this.host.idle();
  }

  /** Resolves when what was written so far has reached the device: await it now and then while much is uploaded. */
  flush() {
    return this.host.flush();
  }

  get info() {
    const {vendor = '', architecture = '', description = ''} = this.adapter.info ?? {};
    const limits = {};
    for (const name in this.device.limits) {
      if (typeof this.device.limits[name] === 'number') limits[name] = this.device.limits[name];
    }
    return {vendor, architecture, description, features: [...this.device.features], limits};
  }

  /** Bytes of memory that the device reads a second, measured as the kernels read it. @param {number} [seconds] */
  measureRead(seconds = 0.5) {
    return measureRead(this.device, this.host, seconds);
  }

  /** Times every dispatch from now on. Errors: UNSUPPORTED (the feature timestamp-query is missing). */
  startProfile() {
    this.host.startProfile();
  }

  /** Ends that; the times by kernel since it began, the longest first; none where it had not begun. */
  async stopProfile() {
    const {profile} = this.host;
    this.host.profile = null;
    await this.idle();
    return profile ? profile.rows : [];
  }

  destroy() {
    this.host.close();
    this.device.destroy();
  }
}
