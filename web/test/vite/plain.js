/** What the package's README shows, as a program that a bundler makes one file of. */
import {Tern} from '@tern/web';

const lib = new URLSearchParams(location.search).get('lib');

globalThis.done = (async () => {
  const worker = lib ? {worker: `${lib}/worker.js`} : {};
  const tern = await Tern.load('bundled', {backend: 'cpu', ...worker});
  const text = await tern.generate('Once upon a time', {temperature: 0, maxTokens: 8}).text();
  const {data} = await tern.embeddings.create({input: ['a cat', 'the sea']});
  const {threads} = tern.device;
  await tern.dispose();
  return {text, threads, vectors: data.map(({embedding}) => embedding.length)};
})();
