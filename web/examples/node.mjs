/** Under Node 20: node examples/node.mjs "Tell me a story about a fox." */
import {Tern} from '@tern/web';

const tern = await Tern.load('bundled', {backend: 'cpu'});
const messages = [{role: 'user', content: process.argv[2] ?? 'Tell me a story about a fox.'}];
for await (const chunk of await tern.chat.completions.create({messages, max_tokens: 120, stream: true}))
  process.stdout.write(chunk.choices[0].delta.content ?? '');
process.stdout.write('\n');
