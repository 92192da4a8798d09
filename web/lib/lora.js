/** Adapters of an engine. Made by Engine.loadLora. */
import {TernError} from './errors.js';

const encoder = new TextEncoder();
/** Bytes of tern_lora_file. */
const FILE_BYTES = 12;

/** Copies into the module's memory; `blocks` gets what is to be freed. */
function copy(core, bytes, blocks) {
  const at = core.memory.allocate(bytes.byteLength, 'an adapter');
  blocks.push(at);
  core.memory.write(at, bytes);
  return at;
}

/** @param {import('./engine.js').Engine} engine @param {{name: string, bytes: Uint8Array}[]} files */
export function loadLora(engine, files) {
  const {core} = engine, blocks = [];
  try {
    const words = files.flatMap(({name, bytes}) =>
      [copy(core, encoder.encode(`${name}\0`), blocks), copy(core, bytes, blocks), bytes.byteLength]);
    const list = copy(core, new Uint8Array(files.length * FILE_BYTES), blocks);
    words.forEach((word, i) => core.memory.setU32(list + 4 * i, word));
    return new Lora(engine, core.open('lora_load', engine.handle, list, files.length));
  } finally {
    for (const at of blocks) core.memory.free(at);
  }
}

export class Lora {
  constructor(engine, handle) {
    const about = engine.core.ask('lora_describe', handle);
    this.engine = engine;
    this.handle = handle;
    this.rank = about.rank;
    this.alpha = about.alpha;
    this.layers = about.layers;
    this.parameters = about.parameters;
    this.bytes = about.bytes;
    engine.loras.add(this);
  }

  close() {
    if (!this.handle || this.engine.core.stopped) return;
    this.engine.core.call('lora_close', this.handle);
    this.engine.loras.delete(this);
    this.handle = 0;
  }

  async dispose() {
    if (this.handle && this.engine.uses.some(({lora}) => lora === this)) {
      throw new TernError('INVALID_ARGUMENT', 'the adapter is in use: setLoras without it first');
    }
    this.close();
  }
}
