/**
 * Tern in a worker of one's own: new Worker(new URL('./worker.js', import.meta.url), {type: 'module'}), then
 * worker.postMessage('Once upon a time'); pieces come back as texts, and null at the end.
 */
import {Tern} from '../lib/index.js';

const loading = Tern.load('bundled');

onmessage = async ({data}) => {
  const tern = await loading;
  for await (const piece of tern.generate(data, {maxTokens: 60})) postMessage(piece.text);
  postMessage(null);
};
