/** What the parts of the page share: the loaded model, and what is going on. Each change is an event of that name. */

class App extends EventTarget {
  /** @type {import('../lib/index.js').Tern | null} */
  tern = null;
  /** What uses the model now: '', 'chat' or 'finetune'. */
  busy = '';
  /** Counts loads that ended early, of which a part may be stored. */
  stored = 0;
  /** The last probe of this browser. @type {any} */
  probe = null;
  /** Why the last load did not take the GPU. */
  gpuReason = '';
  /** The last result of a generation. @type {any} */
  result = null;
  /** What the room for experts holds; null: there is none. @type {import('../lib/index.js').ExpertCache | null} */
  experts = null;

  set(name, value) {
    this[name] = value;
    this.dispatchEvent(new Event(name));
  }

  /** Calls fn now and at each change of one of these. */
  watch(names, fn) {
    for (const name of names) this.addEventListener(name, fn);
    fn();
  }
}

export const app = new App();
