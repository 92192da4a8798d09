/**
 * A private file system in memory, with what web/lib/cache.js uses of the real one, a quota, and locks over all "tabs"
 * that share it.
 */

class FileHandle {
  kind = 'file';
  constructor(folder, name) {
    Object.assign(this, {folder, name, bytes: new Uint8Array(0), open: false});
  }

  async getFile() {
    return new File([this.bytes.slice()], this.name);
  }

  async createSyncAccessHandle() {
    if (this.open) throw new DOMException('a handle is open already', 'NoModificationAllowedError');
    this.open = true;
    return {
      getSize: () => this.bytes.length,
      read: (into, {at}) => this.read(into, at),
      truncate: (n) => {
        this.bytes = this.bytes.slice(0, n);
      },
      write: (bytes, {at}) => this.write(bytes, at),
      flush: () => {},
      close: () => {
        this.open = false;
      }
    };
  }

  async createWritable() {
    let next = new Uint8Array(0);
    return {
      write: async (bytes) => {
        next = bytes.slice();
      },
      close: async () => {
        this.bytes = new Uint8Array(0);
        this.write(next, 0);
      },
      abort: async () => {}
    };
  }

  read(into, at) {
    const piece = this.bytes.subarray(at, at + into.length);
    into.set(piece);
    return piece.length;
  }

  write(bytes, at) {
    const grown = Math.max(0, at + bytes.length - this.bytes.length);
    const {disk} = this.folder;
    if (disk.usage() + grown > disk.quota) throw new DOMException('no room', 'QuotaExceededError');
    const next = new Uint8Array(this.bytes.length + grown);
    next.set(this.bytes);
    next.set(bytes, at);
    this.bytes = next;
    return bytes.length;
  }

  async move(name) {
    this.folder.items.delete(this.name);
    this.name = name;
    this.folder.items.set(name, this);
  }
}

class FolderHandle {
  kind = 'directory';
  constructor(disk) {
    this.disk = disk;
    this.items = new Map();
  }

  async #get(name, kind, create, make) {
    const found = this.items.get(name);
    if (found && found.kind !== kind) throw new DOMException(name, 'TypeMismatchError');
    if (!found && !create) throw new DOMException(name, 'NotFoundError');
    if (!found) this.items.set(name, make());
    return this.items.get(name);
  }

  getDirectoryHandle(name, {create = false} = {}) {
    return this.#get(name, 'directory', create, () => new FolderHandle(this.disk));
  }

  getFileHandle(name, {create = false} = {}) {
    return this.#get(name, 'file', create, () => new FileHandle(this, name));
  }

  async removeEntry(name) {
    if (!this.items.delete(name)) throw new DOMException(name, 'NotFoundError');
  }

  async *entries() {
    yield* this.items.entries();
  }

  usage() {
    return [...this.items.values()].reduce(
      (sum, item) => sum + (item.kind === 'file' ? item.bytes.length : item.usage()),
      0
    );
  }
}

/** @returns {{storage: any, locks: any, root: FolderHandle, disk: any}} */
export function opfs({quota = 1e9} = {}) {
  const disk = {quota, usage: () => root.usage()};
  const root = new FolderHandle(disk);
  const storage = {getDirectory: async () => root, estimate: async () => ({usage: root.usage(), quota: disk.quota})};
  return {storage, locks: locks(), root, disk};
}

/** navigator.locks: exclusive and shared, in order, ifAvailable and signal. */
export function locks() {
  const held = [];
  const queue = [];
  const free = ({name, mode}) =>
    !held.some((each) => each.name === name && (mode === 'exclusive' || each.mode === 'exclusive'));
  const drain = () => {
    for (const entry of [...queue]) {
      if (!free(entry)) continue;
      queue.splice(queue.indexOf(entry), 1);
      entry.grant();
    }
  };
  return {
    request(name, {mode = 'exclusive', ifAvailable = false, signal}, callback) {
      return new Promise((resolve, reject) => {
        if (signal?.aborted) return void reject(signal.reason);
        const entry = {
          name,
          mode,
          grant: async () => {
            held.push(entry);
            await Promise.resolve(callback(entry)).then(resolve, reject);
            held.splice(held.indexOf(entry), 1);
            drain();
          }
        };
        if (free(entry)) return void entry.grant();
        if (ifAvailable) return void Promise.resolve(callback(null)).then(resolve, reject);
        queue.push(entry);
        signal?.addEventListener('abort', () => {
          queue.splice(queue.indexOf(entry), 1);
          reject(signal.reason);
        });
      });
    }
  };
}
