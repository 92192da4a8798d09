/**
 * Which peers are left alone: those that give wrong bytes. WebTorrent throws a wrong piece away and asks whoever is
 * quick, again and again.
 */

/** So many wrong pieces, of which others gave a part, and none that was right between them. */
const STRIKES = 3;
const WRONG = /^Piece (\d+) failed verification/;

export class Judge {
  /** @param {any} torrent WebTorrent's */
  constructor(torrent) {
    /** Who has given parts of which piece, and how often in vain. */
    this.givers = new Map();
    this.strikes = new Map();
    this.banned = new Set();
    torrent.on('wire', (wire) => this.#meet(wire));
    torrent.on('warning', (warning) => {
      const [, index] = WRONG.exec(warning?.message ?? '') ?? [];
      if (index !== undefined) this.#wrong(Number(index));
    });
  }

  #meet(wire) {
    if (this.banned.has(wire.peerId)) return wire.destroy();
    wire.on('piece', (index) => {
      if (!this.givers.has(index)) this.givers.set(index, new Set());
      this.givers.get(index).add(wire);
    });
  }

  right(index) {
    for (const {peerId} of this.givers.get(index) ?? []) this.strikes.delete(peerId);
    this.givers.delete(index);
  }

  #wrong(index) {
    const givers = this.givers.get(index) ?? new Set();
    this.givers.delete(index);
    for (const wire of givers) {
      const strikes = givers.size === 1 ? STRIKES : (this.strikes.get(wire.peerId) ?? 0) + 1;
      this.strikes.set(wire.peerId, strikes);
      if (strikes < STRIKES) continue;
      this.banned.add(wire.peerId);
      wire.destroy();
    }
  }
}
