/** Tern: ternary language models in this browser, or under Node. The types are in index.d.ts. */

import {deleteAdapter, listAdapters} from './adapter-store.js';
import {ModelStore} from './cache.js';
import {TernError, throwIfAborted} from './errors.js';
import {openLink} from './link.js';
import {
  CHAT,
  DETOKENIZE,
  EMBED,
  FINETUNE,
  GENERATE,
  LOAD,
  LORA,
  STORE_LORA,
  TOKENIZE,
  checkIds,
  checkMessages,
  checkOptions,
  checkText
} from './options.js';
import {createCompletion, createEmbeddings} from './openai.js';
import {probe} from './probe.js';
import {addressOf} from './source.js';
import {TextStream} from './stream.js';
import {isTorrent} from './torrent/source.js';

export {TernError};
export const version = '0.1.0';

export class Tern {
  static storage = Object.freeze({
    list: async () => (await ModelStore.open()).list(),
    delete: async (id) => (await ModelStore.open()).delete(id),
    estimate: async () => (await ModelStore.open()).estimate()
  });

  static adapters = Object.freeze({
    list: () => listAdapters(),
    delete: (name) => deleteAdapter(name)
  });

  static probe() {
    return probe();
  }

  static async load(source, options = {}) {
    const checked = checkOptions(options, LOAD, 'Tern.load');
    const {onProgress, onNotice, signal, seed = false, webtorrent, worker, ...rest} = checked;
    if (rest.experts !== undefined) rest.experts = String(rest.experts);
    const notices = [];
    const notice = (each) => {
      notices.push(each);
      onNotice?.(each);
    };
    throwIfAborted(signal, 'loading');
    const torrent = isTorrent(source) ? await torrentOf(source, {seed, webtorrent, signal, onNotice: notice}) : null;
    const where = torrent?.source ?? portableModel(source);
    let tern = null;
    let lost = null;
    const link = await openLink((message) => {
      lost = message;
      tern?.lose(message);
    }, worker).catch(async (error) => {
      await torrent?.stop?.();
      throw error;
    });
    try {
      torrent?.serve?.(link.client);
      const about = await link.client.call('load', [where, rest], {
        signal,
        on: {progress: (each) => onProgress?.(each), notice}
      });
      throwIfAborted(signal, 'loading');
      tern = new Tern(link, about, notices, torrent);
      if (torrent?.seed) await settle(torrent, tern.storedAs, {seed, keep: about.elsewhere, notice});
      if (lost !== null) tern.lose(lost);
      return tern;
    } catch (error) {
      await torrent?.stop?.();
      await link.close().catch(() => {});
      throw error;
    }
  }

  /** Made by Tern.load. */
  constructor(link, {backend, model, device, memory, id, elsewhere}, notices, torrent) {
    Object.assign(this, {link, backend, model, device, memory, notices, elsewhere});
    this.swarm = torrent;
    this.storedAs = id;
    this.lost = new Promise((resolve) => {
      this.lose = resolve;
    });
    this.chat = Object.assign(
      (messages, options = {}) => this.#stream('chat', checkMessages(messages), options, CHAT),
      {
        completions: Object.freeze({create: (request, options) => createCompletion(this, request, options)})
      }
    );
    this.embeddings = Object.freeze({create: (request, options) => createEmbeddings(this, request, options)});
  }

  /** Why the CPU was taken although the GPU might have been; null: there was no such choice. */
  get notice() {
    return this.notices.find((each) => each.about === 'backend') ?? null;
  }

  /** Of a model that came by BitTorrent; null: it did not. */
  get torrent() {
    return this.swarm?.info ?? null;
  }

  /** Begins to give the stored model to others, or ends it. */
  async setSeeding(on) {
    if (!this.swarm?.seed)
      throw new TernError('INVALID_ARGUMENT', 'this model was not loaded from a torrent: load that with {seed: true}');
    if (on) await this.swarm.seed(this.storedAs);
    else if (!this.elsewhere) await this.swarm.stop();
  }

  generate(prompt, options = {}) {
    return this.#stream('generate', checkText(prompt, 'prompt'), options);
  }

  #stream(method, what, options, known = GENERATE) {
    const {signal, ...rest} = checkOptions(options, known, `tern.${method}`);
    return new TextStream((piece) => this.link.client.start(method, [what, rest], {signal, on: {piece}}));
  }

  async embed(texts, options = {}) {
    const {signal, ...rest} = checkOptions(options, EMBED, 'tern.embed');
    const list = (Array.isArray(texts) ? texts : [texts]).map((text, i) => checkText(text, `texts[${i}]`));
    return this.link.client.call('embed', [list, rest], {signal});
  }

  async tokenize(text, options = {}) {
    return this.link.client.call('tokenize', [
      checkText(text, 'text'),
      checkOptions(options, TOKENIZE, 'tern.tokenize')
    ]);
  }

  async detokenize(ids, options = {}) {
    return this.link.client.call('detokenize', [checkIds(ids), checkOptions(options, DETOKENIZE, 'tern.detokenize')]);
  }

  async loadLora(source, options = {}) {
    const {signal, ...rest} = checkOptions(options, LORA, 'tern.loadLora');
    const {what} = await adapterOf(source, {signal, ...rest});
    const {id, rank, parameters} = await this.link.client.call('loadLora', [what], {signal});
    return new Lora(this, id, rank, parameters);
  }

  async storeLora(source, options = {}) {
    const {name, signal, ...rest} = checkOptions(options, STORE_LORA, 'tern.storeLora');
    const {what, key, named} = await adapterOf(source, {signal, ...rest});
    const about = {name: name ?? named ?? nameOfAdapter(source), source: key ?? sourceOfAdapter(source)};
    return this.link.client.call('storeLora', [what, about], {signal});
  }

  async setLoras(loras) {
    if (!Array.isArray(loras))
      throw new TernError('INVALID_ARGUMENT', `loras are ${loras}, expected a list of {lora, scale}`);
    const list = loras.map(({lora, scale = 1} = {}, i) => {
      if (!(lora instanceof Lora) || lora.tern !== this)
        throw new TernError('INVALID_ARGUMENT', `loras[${i}].lora is no adapter of this Tern`);
      if (!Number.isFinite(scale))
        throw new TernError('INVALID_ARGUMENT', `loras[${i}].scale is ${scale}, expected a finite number`);
      return {id: lora.id, scale};
    });
    await this.link.client.call('setLoras', [list]);
  }

  async finetune(text, options = {}) {
    const {signal, onStep, ...rest} = checkOptions(options, FINETUNE, 'tern.finetune');
    return this.link.client.call('finetune', [checkText(text, 'text'), rest], {
      signal,
      on: {step: (each) => onStep?.(each)}
    });
  }

  async experts() {
    return this.link.client.call('experts');
  }

  async measureBandwidth() {
    this.device.bandwidth = await this.link.client.call('measureBandwidth');
    return this.device.bandwidth;
  }

  async startProfile() {
    await this.link.client.call('startProfile');
  }

  async stopProfile() {
    return this.link.client.call('stopProfile');
  }

  async dispose() {
    await this.swarm?.stop?.();
    await this.link.close();
  }
}

/**
 * What has come is given to others, or no peer is left, but where experts are still to come (`keep`); a model that
 * cannot be given is loaded all the same.
 */
async function settle(torrent, id, {seed, keep, notice}) {
  if (!seed) return keep ? undefined : torrent.stop();
  return torrent.seed(id).catch(async (error) => {
    if (!keep) await torrent.stop();
    notice({code: error.code ?? 'INTERNAL', message: `${error.message}; it is not given to others`});
  });
}

/** A copy that is stored whole needs nobody, but to give it to others. */
async function torrentOf(source, {seed, ...options}) {
  const {openTorrent, storedCopy} = await import('./torrent/torrent.js');
  const stored = await storedCopy(source);
  if (stored === null) return openTorrent(source, options);
  if (!seed) return {source: {stored}};
  return openTorrent(source, options).catch((error) => {
    if (error.code !== 'NETWORK') throw error;
    options.onNotice({code: 'NETWORK', message: `${error.message}; the stored copy is used, and not given to others`});
    return {source: {stored}};
  });
}

/** What the core's thread is given of an adapter; of a torrent its files, the link that means it, and its name. */
async function adapterOf(source, options) {
  if (!isTorrent(source)) return {what: portableAdapter(source)};
  const {openTorrent} = await import('./torrent/torrent.js');
  const torrent = await openTorrent(source, options);
  try {
    const files = await torrent.adapterFiles(options);
    return {what: {files}, key: torrent.info.magnet, named: torrent.meta.name};
  } finally {
    await torrent.stop();
  }
}

class Lora {
  constructor(tern, id, rank, parameters) {
    Object.assign(this, {tern, id, rank, parameters});
  }

  async dispose() {
    if (this.id === 0) return;
    const {id} = this;
    this.id = 0;
    await this.tern.link.client.call('disposeLora', [id]);
  }
}

/**
 * What another thread can be sent of a source: addresses are made absolute here, where the page's own address is
 * known.
 */
function portableModel(source) {
  if (isStored(source)) return storedAs(source, 'the id of a stored model');
  return source === 'bundled' ? source : portable(source);
}

const isStored = (source) => typeof source === 'object' && source !== null && Object.hasOwn(source, 'stored');

function storedAs({stored}, expected) {
  if (typeof stored === 'string' && stored !== '') return {stored};
  throw new TernError('INVALID_ARGUMENT', `source.stored is ${JSON.stringify(stored)}, expected ${expected}`);
}

function portable(source) {
  const {key} = addressOf(source);
  return typeof source === 'string' || source instanceof URL ? key.replace(/^path:/, '') : source;
}

/** The same of an adapter, which may be bytes or two files. */
function portableAdapter(source) {
  if (source instanceof Uint8Array) return source;
  if (isStored(source)) return storedAs(source, 'the name of a stored adapter');
  if (Array.isArray(source) && source.length > 0) return source.map((file) => portable(file));
  if (source !== 'bundled') return portable(source);
  throw new TernError('INVALID_ARGUMENT', 'there is no bundled adapter');
}

/** Where an adapter came from, for people who look at the list. */
function sourceOfAdapter(source) {
  if (source instanceof Uint8Array) return 'memory';
  if (isStored(source)) return `stored:${source.stored}`;
  return addressOf(Array.isArray(source) ? source[0] : source).key;
}

/** What an adapter is called that was given no name: its file's. */
function nameOfAdapter(source) {
  if (!(source instanceof Uint8Array) && !isStored(source))
    return addressOf(Array.isArray(source) ? source[0] : source).name;
  throw new TernError('INVALID_ARGUMENT', 'tern.storeLora: options.name is missing, which bytes need');
}
