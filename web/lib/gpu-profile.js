/**
 * How long each kernel takes on the device, by timestamps before and after each dispatch: a pass of its own for each,
 * which is slower than one pass for all. Browsers may round timestamps (Chromium: to 0.1 ms), so sums over many
 * dispatches say more than one.
 */
import {TernError} from './errors.js';

export const FEATURE = 'timestamp-query';
const QUERY_RESOLVE = 0x200, COPY_SRC = 0x4, COPY_DST = 0x8, MAP_READ = 0x1;
/** Of one query set, as WebGPU has it. */
const MOST_QUERIES = 4096;

export class GpuProfile {
  /**
   * Errors: UNSUPPORTED (the device has no timestamps).
   * @param {GPUDevice} device @param {(promise: Promise<any>, what: string) => void} track waits for what is read back
   */
  constructor(device, track) {
    if (!device.features.has(FEATURE))
      throw new TernError('UNSUPPORTED', `this device has no timestamps (WebGPU feature ${FEATURE}): no profile`);
    this.device = device;
    this.track = track;
    /** @type {Map<string, {kernel: string, n: number, ms: number}>} */
    this.kernels = new Map();
  }

  /** Submits the dispatches n times, timed; at most half of MOST_QUERIES at once. */
  submit(steps, n) {
    const most = MOST_QUERIES / 2;
    for (let i = 0; i < n; i++) {
      for (let at = 0; at < steps.length; at += most) this.#submitSome(steps.slice(at, at + most));
    }
  }

  #submitSome(steps) {
    const {device} = this, count = 2 * steps.length, size = 8 * count;
    const queries = device.createQuerySet({type: 'timestamp', count});
    const resolved = device.createBuffer({size, usage: QUERY_RESOLVE | COPY_SRC});
    const readable = device.createBuffer({size, usage: COPY_DST | MAP_READ});
    const encoder = device.createCommandEncoder();
    steps.forEach((step, k) => encode(encoder, step, queries, 2 * k));
    encoder.resolveQuerySet(queries, 0, count, resolved, 0);
    encoder.copyBufferToBuffer(resolved, 0, readable, 0, size);
    device.queue.submit([encoder.finish()]);
    const read = readable.mapAsync(1).then(() => {
      this.#add(steps, new BigUint64Array(readable.getMappedRange()));
      for (const each of [queries, resolved, readable]) each.destroy();
    });
    this.track(read, 'reading timestamps');
  }

  /** Nanoseconds. An end before its beginning, which devices may give when their clock is set, counts as 0. */
  #add(steps, times) {
    steps.forEach(({name}, k) => {
      const row = this.kernels.get(name) ?? {kernel: name, n: 0, ms: 0};
      row.n++;
      row.ms += Math.max(0, Number(times[2 * k + 1] - times[2 * k])) / 1e6;
      this.kernels.set(name, row);
    });
  }

  /** What took longest first. */
  get rows() {
    return [...this.kernels.values()].sort((a, b) => b.ms - a.ms);
  }
}

function encode(encoder, step, querySet, first) {
  const timestampWrites = {querySet, beginningOfPassWriteIndex: first, endOfPassWriteIndex: first + 1};
  const pass = encoder.beginComputePass({timestampWrites});
  pass.setPipeline(step.pipeline);
  pass.setBindGroup(0, step.group);
  pass.dispatchWorkgroups(step.x, step.y, step.z);
  pass.end();
}
