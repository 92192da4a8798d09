/** The functions of src/backend/webgpu/host.h on one device. None waits; what fails later is kept for `failure`. */
import {GpuPipelines} from './gpu-pipelines.js';
import {GpuProfile} from './gpu-profile.js';
import {GpuReader} from './gpu-reader.js';

const STORAGE_BUFFER = 0x80 | 0x4 | 0x8; // STORAGE, COPY_SRC, COPY_DST
const UNIFORM_BUFFER = 0x40 | 0x8;
const MOST_BYTES = 2 ** 32 - 256;
const SLOT = 256; // what uniform offsets are multiples of
const MAX_BINDINGS = 8, UNIFORM_WORDS = 32, DISPATCH_WORDS = 5 + 3 * MAX_BINDINGS + UNIFORM_WORDS;
// tern_status
const OUT_OF_MEMORY = 2, INTERNAL = 10;
const LOST_MS = 500;
const SCOPES = ['validation', 'out-of-memory', 'internal'];
const STATUS_OF = {validation: INTERNAL, 'out-of-memory': OUT_OF_MEMORY, internal: INTERNAL};

/** Things by number, from 1 on. */
class Numbered {
  constructor() {
    this.items = [null];
    this.free = [];
  }
  add(item) {
    const number = this.free.pop() ?? this.items.length;
    this.items[number] = item;
    return number;
  }
  take(number) {
    const item = this.items[number];
    this.items[number] = null;
    this.free.push(number);
    return item;
  }
}

export class GpuHost {
  constructor(device, adapterInfo, kernels, limits) {
    this.device = device;
    this.adapterInfo = adapterInfo;
    this.limits = limits;
    this.buffers = new Numbered();
    this.programs = new Numbered();
    this.outstanding = new Set();
    this.failed = null;
    this.lostMessage = null;
    this.closed = false;
    /** While kernels are timed. @type {GpuProfile | null} */
    this.profile = null;
    this.submitted = this.finished = 0;
    this.pipelines = new GpuPipelines(device, kernels);
    this.reader = new GpuReader(device, (promise, what) => this.track(promise, what));
    device.addEventListener?.('uncapturederror', (event) => {
      event.preventDefault?.();
      this.fail(event.error.constructor.name === 'GPUOutOfMemoryError' ? OUT_OF_MEMORY : INTERNAL, event.error.message);
    });
  }

  /** Keeps the first failure. */
  fail(status, message) {
    this.failed ??= {status, message: `webgpu: ${message}`};
  }

  /** @param {GPUDeviceLostInfo} info */
  lose(info) {
    const message = `device lost: ${info.message || 'its driver has reset it or it was removed'}`;
    if (!this.closed) this.lostMessage = message;
    return message;
  }

  /** idle() waits for the promise. Its failure is kept, unless the device was lost, which is known a little later. */
  track(promise, what) {
    const done = promise.catch(async (error) => {
      await Promise.race([this.device.lost, new Promise((resolve) => setTimeout(resolve, LOST_MS))]);
      if (!this.closed && !this.lostMessage) this.fail(INTERNAL, `${what}: ${error?.message}`);
    }).finally(() => this.outstanding.delete(done));
    this.outstanding.add(done);
    return done;
  }

  async idle() {
    await Promise.all([...this.outstanding]);
  }

  async flush() {
    this.device.queue.submit([]);
    await this.device.queue.onSubmittedWorkDone();
  }

  /** What `make` gives; errors of the device meanwhile become failures that name `what`. */
  scoped(what, make) {
    for (const scope of SCOPES) this.device.pushErrorScope(scope);
    try {
      return make();
    } finally {
      for (const scope of [...SCOPES].reverse()) {
        this.track(this.device.popErrorScope().then((error) => {
          if (error) this.fail(STATUS_OF[scope], `${what}: ${error.message}`);
        }), what);
      }
    }
  }

  /** Bytes of the module's memory: its buffer is another one after it has grown. */
  bytes(at, n) {
    return new Uint8Array(this.memory.buffer, at, n);
  }

  text(at) {
    const bytes = this.bytes(at, Math.min(4096, this.memory.buffer.byteLength - at));
    return new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0)));
  }

  putText(text, at, cap) {
    const bytes = new TextEncoder().encode(text).subarray(0, cap - 1);
    this.bytes(at, cap).fill(0).set(bytes);
  }

  /** Fills tern_webgpu_host_device. */
  open(memory, at) {
    const {limits} = this, info = this.adapterInfo, subgroups = this.device.features.has('subgroups');
    this.memory = memory;
    new Uint32Array(memory.buffer, at, 7).set([
      subgroups ? (info.subgroupMinSize ?? 0) : 0,
      subgroups ? (info.subgroupMaxSize ?? 0) : 0,
      limits.maxComputeWorkgroupStorageSize,
      Math.min(limits.maxComputeInvocationsPerWorkgroup, limits.maxComputeWorkgroupSizeX),
      limits.maxComputeWorkgroupsPerDimension,
      Math.min(limits.maxStorageBufferBindingSize, limits.maxBufferSize, MOST_BYTES),
      Math.min(limits.maxBufferSize, MOST_BYTES),
    ]);
    const name = info.description || [info.vendor, info.architecture].filter(Boolean).join(' ');
    this.putText(name || 'the GPU', at + 28, 128);
    return 1;
  }

  failure(at, cap) {
    const found = this.lostMessage ? {status: INTERNAL, message: this.lostMessage} : this.failed;
    this.failed = null;
    if (!found) return 0;
    this.putText(found.message, at, cap);
    return found.status;
  }

  createBuffer(bytes) {
    const make = () => this.device.createBuffer({size: bytes, usage: STORAGE_BUFFER});
    return this.buffers.add(this.scoped(`a buffer of ${bytes} bytes`, make));
  }

  freeBuffer(number) {
    this.buffers.take(number).destroy();
  }

  write(number, offset, data, bytes) {
    const {buffer} = this.memory, shared = !(buffer instanceof ArrayBuffer);
    const from = shared ? this.bytes(data, bytes).slice() : buffer;
    this.device.queue.writeBuffer(this.buffers.items[number], offset, from, shared ? 0 : data, bytes);
  }

  startRead(number, offset, bytes) {
    this.scoped(`reading ${bytes} bytes`, () => this.reader.start(this.buffers.items[number], offset, bytes));
  }

  finishRead(into, skip, bytes) {
    const from = this.failed || this.lostMessage ? null : this.reader.finish();
    if (!from) return 0;
    this.bytes(into, bytes).set(from.subarray(skip, skip + bytes));
    this.reader.stop();
    return 1;
  }

  stopRead() {
    this.reader.stop();
  }

  done() {
    if (this.outstanding.size === 0 && this.finished === this.submitted) return 1;
    if (this.waiting !== this.submitted) {
      const now = (this.waiting = this.submitted);
      this.track(this.device.queue.onSubmittedWorkDone().then(() => (this.finished = now)), 'waiting for the device');
    }
    return 0;
  }

  makePipeline(which, name, file, signature, overrides, needs) {
    const [n, f, s, o] = [name, file, signature, overrides].map((at) => this.text(at));
    const row = {name: n, file: f, signature: s, overrides: o, needs};
    this.scoped(`kernel ${row.name}`, () => this.pipelines.make(which, row));
  }

  createProgram(at, n) {
    const words = new Uint32Array(this.memory.buffer, at, n * DISPATCH_WORDS);
    return this.programs.add(this.scoped('a graph', () => this.makeProgram(words, n)));
  }

  makeProgram(words, n) {
    const uniforms = this.device.createBuffer({size: n * SLOT, usage: UNIFORM_BUFFER});
    const slots = new Uint32Array(n * (SLOT / 4));
    const steps = [];
    for (let k = 0; k < n; k++) {
      const d = words.subarray(k * DISPATCH_WORDS, (k + 1) * DISPATCH_WORDS), [which, x, y, z, count] = d;
      slots.set(d.subarray(5 + 3 * MAX_BINDINGS), k * (SLOT / 4));
      const entries = [{binding: 0, resource: {buffer: uniforms, offset: k * SLOT, size: 4 * UNIFORM_WORDS}}];
      for (let i = 0; i < count; i++) {
        const [buffer, offset, size] = d.subarray(5 + 3 * i, 8 + 3 * i);
        entries.push({binding: 1 + i, resource: {buffer: this.buffers.items[buffer], offset, size}});
      }
      const {pipeline, layout, name} = this.pipelines.items[which];
      steps.push({name, pipeline, group: this.device.createBindGroup({label: name, layout, entries}), x, y, z});
    }
    this.device.queue.writeBuffer(uniforms, 0, slots);
    return {uniforms, steps};
  }

  freeProgram(number) {
    this.programs.take(number).uniforms.destroy();
  }

  /** Submits one step, then two, four, ...: the device works while more is encoded. How many submits. */
  run(number, nSteps) {
    const {steps} = this.programs.items[number];
    let submits = 0;
    this.scoped('running a graph', () => {
      for (let done = 0, n; done < nSteps; done += n) {
        n = Math.min(done + 1, nSteps - done);
        (this.profile ?? this).submit(steps, n);
        submits++;
      }
    });
    this.submitted++;
    return submits;
  }

  /** The dispatches n times, in one submit. */
  submit(steps, n) {
    const encoder = this.device.createCommandEncoder(), pass = encoder.beginComputePass();
    let bound = null;
    for (let i = 0; i < n; i++) {
      for (const step of steps) {
        if (bound !== step.pipeline) pass.setPipeline((bound = step.pipeline));
        pass.setBindGroup(0, step.group);
        pass.dispatchWorkgroups(step.x, step.y, step.z);
      }
    }
    pass.end();
    this.device.queue.submit([encoder.finish()]);
  }

  /** From now on every dispatch is timed. Errors: UNSUPPORTED. */
  startProfile() {
    this.profile = new GpuProfile(this.device, (promise, what) => this.track(promise, what));
  }

  close() {
    this.closed = true;
    this.reader.close();
  }
}
