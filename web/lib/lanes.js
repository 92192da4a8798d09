/** So many things at once and no more, begun in the order in which they were asked for. */

export class Lanes {
  /** @param {number} n */
  constructor(n) {
    this.free = n;
    this.waiting = [];
  }

  /** What `action` gives, once there is a lane for it. @template T @param {() => Promise<T>} action */
  async run(action) {
    if (this.free === 0) await new Promise((resolve) => this.waiting.push(resolve));
    else this.free--;
    try {
      return await action();
    } finally {
      const next = this.waiting.shift();
      if (next) next();
      else this.free++;
    }
  }
}

/**
 * What `action` gives of each, in their order, n at once. After a failure none is begun; it is thrown when those under
 * way have ended, the results of the others go to `undo`.
 * @template T, R
 * @param {T[]} list @param {number} n @param {(each: T, i: number) => Promise<R>} action
 * @param {(result: R) => Promise<any>} undo @returns {Promise<R[]>}
 */
export async function mapInLanes(list, n, action, undo) {
  const lanes = new Lanes(n);
  let failed = false;
  const each = (item, i) =>
    lanes.run(async () => {
      if (failed) throw null;
      return action(item, i).catch((error) => {
        failed = true;
        throw error;
      });
    });
  const results = await Promise.allSettled(list.map(each));
  if (!failed) return results.map((result) => /** @type {any} */ (result).value);
  for (const result of results) if (result.status === 'fulfilled') await undo(result.value);
  throw results.find((result) => result.status === 'rejected' && result.reason !== null)?.['reason'];
}
