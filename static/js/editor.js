import { onEnter } from "./ime.js";
import { sourceOf } from "./sources.js";

/**
 * The box that one of a person's messages becomes while it is rewritten. What was typed into it stays on this page
 * until it is sent or cancelled, also when the message itself goes out of sight.
 */
export class Editor {
  #handlers;
  #message = null;
  #form = null;
  #drafts = new Map();
  #touch = matchMedia("(pointer: coarse)");
  #blocked = false;

  /**
   * @param {{send: (message: HTMLElement, text: string) => void, changed: () => void, closed: () => void,
   *   find: (id: string) => ?HTMLElement}} handlers
   */
  constructor(handlers) {
    this.#handlers = handlers;
  }

  /** The message that is being rewritten, while it is on the page. @returns {?HTMLElement} */
  get message() {
    return this.#form?.isConnected ? this.#message : null;
  }

  get text() {
    return this.#field?.value ?? "";
  }

  get #field() {
    return this.#form?.querySelector("textarea") ?? null;
  }

  /** @param {HTMLElement} message a `.user` */
  async open(message) {
    if (this.message === message) return this.#field.focus();
    this.#putAway();
    const id = message.dataset.messageId;
    const text = this.#drafts.get(id) ?? (await sourceOf(message));
    if (!message.isConnected) message = this.#handlers.find(id); // the transcript came anew meanwhile
    if (!message || this.message) return;
    this.#message = message;
    this.#form = document.getElementById("edit-form").content.firstElementChild.cloneNode(true);
    const bubble = message.querySelector(".body").getBoundingClientRect().width;
    message.classList.add("editing");
    message.append(this.#form);
    this.#form.style.width = `max(${Math.ceil(bubble)}px, min(34ch, 100%))`;
    this.#field.value = text;
    this.#listen();
    this.#grow();
    this.#field.focus();
    this.#field.setSelectionRange(text.length, text.length);
    this.#handlers.changed();
  }

  /** The transcript came anew: the box stands in it where it stood. */
  restore() {
    if (!this.#form || this.message) return;
    const again = this.#handlers.find(this.#message.dataset.messageId);
    this.#drafts.set(this.#message.dataset.messageId, this.text);
    this.#putAway();
    if (again) this.open(again);
  }

  /** Back to the bubble; what was typed is forgotten. */
  close() {
    if (!this.#form) return;
    this.#drafts.delete(this.#message.dataset.messageId);
    this.#putAway();
    this.#handlers.closed();
  }

  #putAway() {
    this.#form?.remove();
    this.#message?.classList.remove("editing");
    this.#form = this.#message = null;
  }

  /** A sentence in the box, about what was just tried; it goes with the next key. @param {string} words */
  say(words) {
    const note = this.#form?.querySelector(".edit-note");
    if (!note) return;
    note.textContent = words;
    note.hidden = !words;
  }

  /** @param {boolean} blocked whether it cannot be sent now */
  update(blocked) {
    this.#blocked = blocked;
    if (this.#form) this.#form.querySelector('[type="submit"]').disabled = blocked || !this.text.trim();
  }

  #listen() {
    const field = this.#field;
    const send = () => !this.#blocked && this.text.trim() && this.#handlers.send(this.#message, this.text);
    onEnter(field, send, () => !this.#touch.matches);
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      send();
    });
    this.#form.querySelector('[data-action="cancel-edit"]').addEventListener("click", () => this.#cancel());
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && this.#touch.matches) send();
      if (event.key !== "Escape" || event.isComposing) return;
      event.stopPropagation();
      this.#cancel();
    });
    field.addEventListener("input", () => {
      this.#drafts.set(this.#message.dataset.messageId, this.text);
      this.say("");
      this.#grow();
      this.#handlers.changed();
    });
  }

  #cancel() {
    const message = this.#message;
    this.close();
    message.querySelector('[data-action="edit"]')?.focus({ preventScroll: true });
  }

  #grow() {
    if (CSS.supports("field-sizing", "content")) return;
    this.#field.style.height = "auto";
    this.#field.style.height = `${this.#field.scrollHeight}px`;
  }
}
