const SHOWN_MS = 10_000;

/** What was just done, with the way back. It stays while somebody points at it. */
export class Toast {
  #root;
  #undo = null;
  #timer = 0;

  /** @param {HTMLElement} root */
  constructor(root) {
    this.#root = root;
    this.#button.addEventListener("click", () => {
      const undo = this.#undo;
      this.hide();
      undo?.();
    });
    root.addEventListener("keydown", (event) => event.key === "Escape" && this.hide());
    for (const staying of ["pointerenter", "focusin"]) root.addEventListener(staying, () => clearTimeout(this.#timer));
    for (const leaving of ["pointerleave", "focusout"]) root.addEventListener(leaving, () => this.#hideLater());
  }

  get #button() {
    return this.#root.querySelector("button");
  }

  /** @param {string} words @param {?() => void} undo */
  show(words, undo = null) {
    this.#button.hidden = !undo;
    this.#root.hidden = false;
    this.#root.querySelector(".toast-words").textContent = words;
    this.#undo = undo;
    this.#hideLater();
  }

  hide() {
    clearTimeout(this.#timer);
    this.#root.hidden = true;
    this.#undo = null;
  }

  #hideLater() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.hide(), SHOWN_MS);
  }
}
