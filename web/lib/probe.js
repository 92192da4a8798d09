/** What this browser, or Node, offers. */

import {ModelStore} from './cache.js';
import {cpuInfo, defaultThreads, gpuInfo, whyNoWorker} from './platform.js';

/** @returns {Promise<any>} as Tern.probe */
export async function probe() {
  const threads = await defaultThreads();
  const storage = await ModelStore.open().then(
    () => true,
    () => false
  );
  const refused = whyNoWorker();
  const about = {supported: !refused, threads, storage};
  try {
    if (refused) throw refused;
    return {...about, webgpu: true, device: await probeAdapter()};
  } catch ({code = 'NO_ADAPTER', message}) {
    return {...about, webgpu: false, reason: code, message, device: cpuInfo(threads)};
  }
}

/** No device is asked for: an adapter says enough. */
async function probeAdapter() {
  const {findAdapter} = await import('./gpu.js');
  const adapter = await findAdapter({software: false});
  const {vendor = '', architecture = '', description = ''} = adapter.info ?? {};
  const limits = {};
  for (const name in adapter.limits) if (typeof adapter.limits[name] === 'number') limits[name] = adapter.limits[name];
  return gpuInfo({vendor, architecture, description, features: [...adapter.features], limits}, 1);
}
