/**
 * A package by BitTorrent, on the page's side, where WebRTC is: the core's thread asks for bytes of its shards, which
 * come from peers and web seeds (files.js). Seeding gives what is stored.
 */

import {adapterFiles} from '../adapter.js';
import {ModelStore, idOf} from '../cache.js';
import {TernError, errorToWire, throwIfAborted} from '../errors.js';
import {readManifest} from '../manifest.js';
import {answerNow} from '../remote.js';
import {openFile} from '../source.js';
import {TorrentFiles} from './files.js';
import {folderOn, magnetOf, readMagnet, readMetainfo} from './metainfo.js';
import {isFile, isMagnet} from './source.js';
import {Swarm, findWebTorrent} from './swarm.js';

const MANIFEST = 'manifest.json';
const TORRENT = 'package.torrent';
const MOST_BYTES = 64 << 20;
const METADATA_MS = 30000;

/** What a stored copy is found by, whatever link it was. */
const identityOf = (infoHash) => `magnet:?xt=urn:btih:${infoHash}`;

/**
 * @param {any} source a magnet link, or a .torrent as a URL or a File
 * @param {{webtorrent?: any, http?: object, signal?: AbortSignal, onNotice?: (notice: any) => void, stallMs?: number,
 *   giveUpMs?: number}} options
 * @returns {Promise<Torrent>}
 */
export async function openTorrent(source, options = {}) {
  const opening = new Opening(options);
  try {
    return await opening.open(source);
  } catch (error) {
    await opening.swarm?.close();
    throw error;
  }
}

class Opening {
  constructor(options) {
    Object.assign(this, {options, swarm: null});
  }

  async open(source) {
    const {signal} = this.options;
    const found = isMagnet(source) ? await this.#ofMagnet(source) : await this.#ofFile(source);
    throwIfAborted(signal, 'loading');
    const {bytes, meta} = found;
    this.swarm ??= await this.#swarm(bytes, meta.trackers, meta.webSeeds);
    const files = new TorrentFiles(meta, {...this.options, swarm: this.swarm});
    const manifest = new TextDecoder().decode(await files.whole(MANIFEST, {signal}));
    return new Torrent({bytes, meta, files, manifest, swarm: this.swarm, options: this.options});
  }

  async #ofFile(source) {
    const bytes = await this.#fetched(source);
    return {bytes, meta: await readMetainfo(bytes, isFile(source) ? source.name : String(source))};
  }

  async #fetched(source) {
    const file = await openFile(source, this.options);
    try {
      if (file.size > MOST_BYTES)
        throw new TernError('MALFORMED', `${file.name} has ${file.size} bytes, a torrent has at most ${MOST_BYTES}`);
      const bytes = new Uint8Array(file.size);
      await file.read(0, bytes, this.options);
      return bytes;
    } finally {
      await file.close();
    }
  }

  /** The torrent lies beside the package, where there is a web seed; else peers have it. */
  async #ofMagnet(link) {
    const magnet = readMagnet(link);
    const faults = [];
    for (const seed of magnet.name ? magnet.webSeeds : []) {
      const url = new URL(TORRENT, folderOn(seed, magnet.name)).href;
      const found = await this.#ofFile(url).catch((error) => void faults.push(error.message));
      if (found?.meta.infoHash === magnet.infoHash) return joined(found, magnet);
      if (found) faults.push(`${url} is another torrent, ${found.meta.infoHash}`);
      throwIfAborted(this.options.signal, 'loading');
    }
    this.swarm = await this.#swarm(link, magnet.trackers, magnet.webSeeds);
    const bytes = await this.swarm?.metadata(METADATA_MS);
    if (bytes) return joined({bytes, meta: await readMetainfo(bytes, magnet.infoHash)}, magnet);
    const asked = faults.length ? `; ${faults.join('; ')}` : '';
    throw new TernError('NETWORK', `nobody gives the torrent of ${magnet.name ?? magnet.infoHash}${asked}`);
  }

  /** Without a way to peers there is none; then it takes a web seed. */
  async #swarm(torrent, trackers, webSeeds) {
    if (trackers.length > 0) {
      const there = await findWebTorrent(this.options.webtorrent).catch((error) => {
        if (webSeeds.length === 0) throw error;
        this.options.onNotice?.({code: error.code, message: `${error.message}; the web seed alone is asked`});
      });
      return there ? new Swarm(there, torrent, {trackers}) : null;
    }
    if (webSeeds.length > 0) return null;
    throw new TernError('UNSUPPORTED', 'the torrent has neither a web seed nor a tracker that pages reach (wss://)');
  }
}

/** With what the magnet link says besides. */
function joined({bytes, meta}, magnet) {
  const trackers = [...new Set([...magnet.trackers, ...meta.trackers])];
  const webSeeds = [...new Set([...magnet.webSeeds, ...meta.webSeeds])];
  return {bytes, meta: {...meta, trackers, webSeeds}};
}

export class Torrent {
  constructor(parts) {
    Object.assign(this, parts, {reads: new Map(), seeding: null});
  }

  /** What the core's thread is told. */
  get source() {
    const {meta, manifest} = this;
    const files = [...meta.files.values()].map(({name, bytes}) => ({name, bytes}));
    return {torrent: {key: magnetOf(meta), identity: identityOf(meta.infoHash), name: meta.name, files, manifest}};
  }

  /** The files of an adapter. @param {{signal?: AbortSignal}} [options] */
  adapterFiles(options) {
    return adapterFiles(this.manifest, this.meta.name, (file) => this.files.whole(file, options));
  }

  /** Answers what the core's thread asks for. @param {import('../rpc.js').Client} client */
  serve(client) {
    const want = ({read, file, offset, bytes, memory}) =>
      memory ? this.#answer(file, memory) : this.#send(client, read, file, offset, bytes);
    const unwant = ({read}) => this.reads.get(read)?.abort();
    client.start('reads', [], {on: {want, unwant}}).done.catch(() => {});
  }

  async #send(client, read, file, offset, bytes) {
    const control = new AbortController();
    this.reads.set(read, control);
    const supply = (...args) => client.call('supply', [read, ...args]).catch(() => {});
    try {
      for await (const run of this.files.read(file, offset, bytes, {signal: control.signal})) await supply(run, null);
    } catch (error) {
      await supply(null, errorToWire(error));
    } finally {
      this.reads.delete(read);
    }
  }

  /** To the core's thread, which waits. */
  async #answer(file, memory) {
    try {
      answerNow(memory, await this.files.whole(file), null);
    } catch (error) {
      answerNow(memory, null, errorToWire(error));
    }
  }

  /** @returns {import('../index.js').TorrentInfo} */
  get info() {
    const {meta, files, swarm, seeding} = this;
    const of = seeding ?? swarm;
    return {
      infoHash: meta.infoHash,
      name: meta.name,
      magnet: magnetOf(meta),
      peers: of?.peers ?? 0,
      fromPeers: files.from.peers,
      fromWebSeeds: files.from.webSeeds,
      uploaded: of?.torrent.uploaded ?? 0,
      seeding: seeding !== null
    };
  }

  /**
   * Gives what is stored to whoever asks. Errors: NO_STORAGE (it is not stored whole), UNSUPPORTED.
   * @param {string | null} id of the stored model
   */
  async seed(id) {
    const stored = id && (await (await ModelStore.open()).find(id));
    if (!stored?.complete)
      throw new TernError('NO_STORAGE', `${this.meta.name} is not stored whole, so that it cannot be seeded`);
    if (this.meta.trackers.length === 0)
      throw new TernError('UNSUPPORTED', `${this.meta.name} has no tracker that pages reach (wss://)`);
    const WebTorrent = await findWebTorrent(this.options.webtorrent);
    await this.stop();
    const {trackers} = this.meta;
    const read = await storedPieces(this.meta, this.manifest, stored);
    this.seeding = new Swarm(WebTorrent, this.bytes, {trackers, read});
  }

  /** Ends all that has to do with peers. */
  async stop() {
    const those = [this.swarm, this.seeding];
    this.swarm = this.seeding = this.files.swarm = null;
    for (const each of those) await each?.close();
  }
}

/** Pieces out of the stored shards; the last one read is kept. */
async function storedPieces(meta, manifest, stored) {
  const files = [...meta.files.values()];
  const {shards} = await readManifest(manifest, meta.name);
  const chunks = new Map(shards.map(({file}, index) => [file, index]));
  let last = {name: '', bytes: new Uint8Array(0)};
  const bytesOf = async ({name, bytes}) => {
    if (name === MANIFEST) return new TextEncoder().encode(manifest);
    if (last.name === name) return last.bytes;
    const into = new Uint8Array(bytes);
    await stored.read(chunks.get(name), into);
    last = {name, bytes: into};
    return into;
  };
  return async (index) => {
    const file = files.findLast(({first}) => first <= index);
    const whole = await bytesOf(file);
    const piece = new Uint8Array(meta.pieceBytes);
    piece.set(whole.subarray((index - file.first) * meta.pieceBytes, (index - file.first + 1) * meta.pieceBytes));
    return piece;
  };
}

/**
 * The id of a stored copy that is whole, of a link that says what it means; null: there is none.
 * @param {any} source
 */
export async function storedCopy(source) {
  if (!isMagnet(source)) return null;
  const {infoHash, name} = readMagnet(source);
  const store = name === null ? null : await ModelStore.open().catch(() => null);
  const id = name === null ? '' : await idOf(name, identityOf(infoHash));
  return (await store?.find(id))?.complete ? id : null;
}
