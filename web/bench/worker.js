/** The bench in a browser: a worker that loads the model of the server and measures it. */
import {Core} from '../lib/core.js';
import {Gpu} from '../lib/gpu.js';
import {measure} from './measure.js';

async function readerOf(url) {
  const {headers} = await fetch(url, {method: 'HEAD'});
  const read = async (offset, length) => {
    const range = `bytes=${offset}-${offset + length - 1}`;
    return new Uint8Array(await (await fetch(url, {headers: {range}})).arrayBuffer());
  };
  return {size: Number(headers.get('content-length')), read};
}

async function run({model, options}) {
  const gpu = options.backend === 'webgpu' ? await Gpu.open({powerPreference: 'high-performance'}) : null;
  const core = await Core.create({gpu, threads: options.threads});
  const {backend, contextLength, activations} = options;
  const engine = await core.load(await readerOf(model), {backend, contextLength, activations});
  const best = await measure(engine, options, (line) => postMessage({line}));
  const {description = '', vendor = '', features = []} = gpu?.info ?? {};
  postMessage({best, gpu: gpu && {device: description || vendor, features}});
}

const failed = (error) => postMessage({error: `${error.code ?? error.name}: ${error.message}`});

onmessage = ({data}) => run(data).catch(failed);
