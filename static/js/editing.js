import { fetchPart } from "./parts.js";

/** The box in which a message is rewritten, as the page knows it: `Editor` itself comes with its first use. */
export class Editing {
  #handlers;
  #editor = null;
  #blocked = false;

  /** @param {ConstructorParameters<typeof import("./editor.js").Editor>[0]} handlers */
  constructor(handlers) {
    this.#handlers = handlers;
  }

  /** The message that is being rewritten, while it is on the page. @returns {?HTMLElement} */
  get message() {
    return this.#editor?.message ?? null;
  }

  get text() {
    return this.#editor?.text ?? "";
  }

  /** @param {HTMLElement} message a `.user` */
  async open(message) {
    const { Editor } = await fetchPart("./editor.js", "editor");
    this.#editor ??= new Editor(this.#handlers);
    await this.#editor.open(message);
    this.#editor.update(this.#blocked);
  }

  /** The transcript came anew: the box stands in it where it stood. */
  restore() {
    this.#editor?.restore();
  }

  /** Back to the bubble; what was typed is forgotten. */
  close() {
    this.#editor?.close();
  }

  /** A sentence in the box, about what was just tried. @param {string} words */
  say(words) {
    this.#editor?.say(words);
  }

  /** @param {boolean} blocked whether it cannot be sent now */
  update(blocked) {
    this.#blocked = blocked;
    this.#editor?.update(blocked);
  }
}
