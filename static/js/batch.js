/**
 * Collects the events of running replies and hands them over once per animation frame, in order, so that a fast
 * model costs a slow phone one layout a frame. A hidden page has no animation frames: it is served by a timer.
 */
export class Batch {
  #frames = [];
  #scheduled = false;
  #apply;

  /** @param {(frame: object) => void} apply */
  constructor(apply) {
    this.#apply = apply;
    document.addEventListener("visibilitychange", () => this.flush());
  }

  push(frame) {
    this.#frames.push(frame);
    if (this.#scheduled) return;
    this.#scheduled = true;
    if (document.hidden) setTimeout(() => this.flush(), 250);
    else requestAnimationFrame(() => this.flush());
  }

  flush() {
    this.#scheduled = false;
    for (const frame of this.#frames.splice(0)) this.#apply(frame);
  }
}
