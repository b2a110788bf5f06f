const KEY = "ondol.outbox";

/**
 * The one command that was given and is not yet acknowledged. It outlives a reload of this tab and is given again
 * under the same id, which the server answers without doing anything twice.
 */
export class Outbox {
  /** @type {?import("./protocol.js").CommandFrame} */
  frame = null;

  constructor() {
    try {
      this.frame = JSON.parse(sessionStorage.getItem(KEY));
    } catch {
      this.frame = null;
    }
  }

  /** @param {import("./protocol.js").CommandFrame} frame */
  put(frame) {
    this.frame = frame;
    this.#save(JSON.stringify(frame));
  }

  /** The frame that `ref` answers, taken out; null when it is not ours. @param {?string} ref */
  take(ref) {
    if (!this.frame || this.frame.id !== ref) return null;
    const frame = this.frame;
    this.frame = null;
    this.#save(null);
    return frame;
  }

  #save(text) {
    try {
      if (text === null) sessionStorage.removeItem(KEY);
      else sessionStorage.setItem(KEY, text);
    } catch {
      // Without storage a reload forgets it; the draft is kept apart.
    }
  }
}
