/** How fast the device reads memory: the kernel bandwidth.wgsl over a buffer that no cache holds. */

const WORKGROUP = 128, LOADS = 16, GROUP_BYTES = WORKGROUP * LOADS * 16;
const WANTED_BYTES = 512 * 2 ** 20, LEAST_SECONDS = 0.05, MOST_RUNS = 256;
const OVERRIDES = `WORKGROUP=${WORKGROUP} LOADS=${LOADS}`;
const ROW = {name: 'READ_BANDWIDTH', file: 'bandwidth', signature: 'rw', overrides: OVERRIDES, needs: 0};
const NEVER = 0x9e3779b9; // what neither zeros nor weights give

function prepare(device, host) {
  const {limits} = device;
  const most = Math.min(limits.maxBufferSize, limits.maxStorageBufferBindingSize, WANTED_BYTES,
    limits.maxComputeWorkgroupsPerDimension * GROUP_BYTES);
  const groups = Math.floor(most / GROUP_BYTES), bytes = groups * GROUP_BYTES;
  const buffers = [device.createBuffer({size: 256, usage: 0x40 | 0x8}), device.createBuffer({size: bytes, usage: 0x80}),
    device.createBuffer({size: 256, usage: 0x80})];
  device.queue.writeBuffer(buffers[0], 0, new Uint32Array([NEVER]));
  const {pipeline, layout} = host.pipelines.make(-1, ROW);
  const entries = buffers.map((buffer, binding) => ({binding, resource: {buffer}}));
  return {bytes, groups, buffers, pipeline, group: device.createBindGroup({layout, entries})};
}

/** Seconds of so many runs. */
async function time(device, it, runs) {
  const encoder = device.createCommandEncoder(), pass = encoder.beginComputePass();
  pass.setPipeline(it.pipeline);
  pass.setBindGroup(0, it.group);
  for (let i = 0; i < runs; i++) pass.dispatchWorkgroups(it.groups);
  pass.end();
  const start = performance.now();
  device.queue.submit([encoder.finish()]);
  await device.queue.onSubmittedWorkDone();
  return (performance.now() - start) / 1000;
}

/** Bytes a second: the best of runs that take a while each. */
export async function measureRead(device, host, seconds) {
  const it = host.scoped('measuring', () => prepare(device, host)), end = performance.now() + seconds * 1000;
  let best = 0, runs = 1;
  await time(device, it, 1); // warms up
  do {
    const took = await time(device, it, runs);
    best = Math.max(best, (it.bytes * runs) / took);
    if (took < LEAST_SECONDS && runs < MOST_RUNS) runs *= 2;
  } while (performance.now() < end);
  for (const buffer of it.buffers) buffer.destroy();
  return best;
}
