// A program that uses all of index.d.ts, for the type checker alone (types.test.mjs); it is never run.
import {Tern, TernError, version} from '../lib/index.js';
import type {
  DeviceInfo,
  ErrorCode,
  GenerateOptions,
  ExpertCache,
  KernelTime,
  Lora,
  Message,
  ModelInfo,
  Notice,
  Piece,
  Progress,
  Result,
  StoredAdapter,
  StoredModel,
  TorrentInfo
} from '../lib/index.js';

const options: GenerateOptions = {
  maxTokens: 10,
  temperature: 0,
  topK: 1,
  stop: ['x'],
  signal: new AbortController().signal
};
const seen: Progress[] = [];
const said: Notice[] = [];
const tern: Tern = await Tern.load('bundled', {
  backend: 'auto',
  threads: 2,
  contextLength: 64,
  kv: 'q8_0',
  store: false,
  onProgress: (progress) => seen.push(progress),
  onNotice: (notice) => said.push(notice)
});
await Tern.load(new URL('https://x.example/a.gguf'));
const shared: Tern = await Tern.load('magnet:?xt=urn:btih:x', {seed: true, webtorrent: '/webtorrent.min.js'});
const swarm: TorrentInfo | null = shared.torrent;
await shared.setSeeding((swarm?.peers ?? 0) + (swarm?.fromPeers ?? 0) > 0);
await Tern.load([new File([], 'a')]);
await Tern.load(
  {stored: 'id'},
  {device: {powerPreference: 'low-power', requiredLimits: {maxBufferSize: 1}, withoutFeatures: ['subgroups']}}
);
const stream = tern.generate('Once', options);
for await (const piece of stream) ((each: Piece) => each.text.length + each.id)(piece);
const result: Result = await stream.result;
const share: number | null = result.bandwidthShare;
const messages: Message[] = [{role: 'user', content: 'x'}];
const text: string = await tern.chat(messages).text();
const answer = await tern.chat.completions.create({
  messages: [...messages, {role: 'tool', content: '1', tool_call_id: 'x'}],
  tools: [{type: 'function', function: {name: 'f'}}],
  response_format: {type: 'json_object'},
  logprobs: true
});
declare const asked: boolean;
const either = await tern.chat.completions.create({messages, stream: asked});
if ('choices' in either) ((said: string | null) => said)(either.choices[0].message.content);
else for await (const chunk of either) ((id: string) => id)(chunk.id);
await tern.chat.completions.create({messages, stop: null, temperature: null, max_tokens: null, stream: null, n: null});
await tern.chat.completions.create({
  messages: [
    {role: 'user', content: [{type: 'text', text: 'x'}]},
    {role: 'assistant', content: 'y'},
    {role: 'developer', content: 'z'}
  ]
});
tern.generate('x', {grammar: {kind: 'schema', source: {type: 'object'}}});
await Tern.load('bundled', {worker: new URL('https://x.example/lib/worker.js')});
const said2: string | null = answer.choices[0].message.content;
for await (const chunk of await tern.chat.completions.create({messages, stream: true}))
  ((part: string | undefined) => part)(chunk.choices[0].delta.content);
const numbers: number[] = (await tern.embeddings.create({input: 'x'})).data[0].embedding;
const vector: Float32Array = (await tern.embed('x', {pooling: 'mean'}))[0].vector;
const called: string | undefined = result.toolCalls?.[0].arguments;
const ids: number[] = await tern.tokenize(text, {bos: true});
await tern.detokenize(ids, {special: true});
const lora: Lora = await tern.loadLora(new Uint8Array());
await tern.setLoras([{lora, scale: 0.5}]);
await lora.dispose();
const kept: StoredAdapter = await tern.storeLora(new Uint8Array(), {name: 'x'});
await tern.loadLora({stored: kept.name});
const adapters: StoredAdapter[] = await Tern.adapters.list();
await Tern.adapters.delete(adapters[0].name);
const adapter: Uint8Array = await tern.finetune('text', {rank: 4, onStep: ({loss}) => loss.toFixed(1)});
const bandwidth: number | null = await tern.measureBandwidth();
await tern.startProfile();
const times: KernelTime[] = await tern.stopProfile();
const cache: ExpertCache | null = await tern.experts();
const model: ModelInfo = tern.model;
const device: DeviceInfo = tern.device;
const why: string | undefined = tern.notice?.message;
const stored: StoredModel[] = await Tern.storage.list();
await Tern.storage.delete(stored[0].id);
const {usage, quota}: {usage: number; quota: number} = await Tern.storage.estimate();
const {webgpu, reason, supported} = await Tern.probe();
const code: ErrorCode = new TernError('NETWORK', 'no').code;
tern.lost.then((message: string) => message);
await tern.dispose();
export const all = [
  said2,
  numbers,
  vector,
  called,
  times,
  version,
  share,
  adapter,
  bandwidth,
  model,
  device,
  why,
  usage,
  quota,
  webgpu,
  supported,
  reason,
  code,
  tern.storedAs,
  tern.notices
];

// @ts-expect-error no such backend
await Tern.load('bundled', {backend: 'cuda'});
// @ts-expect-error no such option
tern.generate('x', {temprature: 1});
// @ts-expect-error no such role
tern.chat([{role: 'robot', content: 'x'}]);
// @ts-expect-error a source is needed
await Tern.load();
