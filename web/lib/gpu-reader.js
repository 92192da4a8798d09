/** One read at a time from a buffer of the device. */

const MAP_READ = 0x1, READ_BUFFER = MAP_READ | 0x8; // COPY_DST
const LEAST_BYTES = 65536;

export class GpuReader {
  /** @param {GPUDevice} device @param {(promise: Promise<void>, what: string) => void} track */
  constructor(device, track) {
    this.device = device;
    this.track = track;
    this.reading = null;
    this.spare = null;
  }

  /** A buffer for `bytes` bytes: the last one where it is large enough. */
  staging(bytes) {
    const last = this.spare;
    this.spare = null;
    if (last?.size >= bytes) return last;
    last?.destroy();
    return this.device.createBuffer({label: 'read', size: Math.max(bytes, LEAST_BYTES), usage: READ_BUFFER});
  }

  start(buffer, offset, bytes) {
    const staging = this.staging(bytes), encoder = this.device.createCommandEncoder();
    encoder.copyBufferToBuffer(buffer, offset, staging, 0, bytes);
    this.device.queue.submit([encoder.finish()]);
    const reading = {staging, bytes, mapped: false};
    this.reading = reading;
    const mapping = staging.mapAsync(MAP_READ, 0, bytes).then(() => {
      reading.mapped = true;
    }, (error) => {
      if (this.reading === reading) throw error;
    });
    this.track(mapping, 'reading from the device');
  }

  /** The bytes, until stop(); null: not yet. */
  finish() {
    const {reading} = this;
    return reading?.mapped ? new Uint8Array(reading.staging.getMappedRange(0, reading.bytes)) : null;
  }

  stop() {
    if (!this.reading) return;
    this.reading.staging.unmap();
    this.spare = this.reading.staging;
    this.reading = null;
  }

  close() {
    this.reading?.staging.destroy();
    this.spare?.destroy();
  }
}
