import { newId } from "./protocol.js";

const PAUSE_MS = 250;

/** Asks how many tokens the draft has, once typing pauses, and never twice at a time. */
export class Counter {
  #timer = 0;
  #outstanding = null;
  #again = false;
  #send;

  /** @param {(id: string) => boolean} send sends `count` for the text as it is now; false when it was not sent */
  constructor(send) {
    this.#send = send;
  }

  ask() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#fire(), PAUSE_MS);
  }

  /** Whether `ref` is the answer that is waited for. @param {?string} ref */
  answered(ref) {
    if (ref === null || ref !== this.#outstanding) return false;
    this.#outstanding = null;
    if (this.#again) this.ask();
    return true;
  }

  /** An answer on its way is about a text that is no longer there. */
  forget() {
    clearTimeout(this.#timer);
    this.#outstanding = null;
    this.#again = false;
  }

  #fire() {
    this.#again = this.#outstanding !== null;
    if (this.#again) return;
    const id = newId();
    if (this.#send(id)) this.#outstanding = id;
  }
}
