import { onEnter } from "./ime.js";

/** The box people write in, its two buttons, and the sentences beside it. */
export class Composer {
  #field;
  #send = document.getElementById("send");
  #stop = document.getElementById("stop");
  #note = document.getElementById("note");
  #hint = document.getElementById("hint");
  #touch = matchMedia("(pointer: coarse)");
  #running = false;
  #blocked = "";
  #busy = false;

  /** @param {HTMLFormElement} form @param {{send: (text: string) => void, stop: () => void, changed: () => void, editLast: () => void}} handlers */
  constructor(form, handlers) {
    this.#field = form.querySelector("textarea");
    const send = () => this.#trySend(handlers.send);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      send();
    });
    onEnter(this.#field, send, () => !this.#touch.matches);
    this.#field.addEventListener("input", () => {
      this.say("");
      this.#refresh();
      handlers.changed();
    });
    this.#field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && this.#touch.matches) send();
      if (event.key === "ArrowUp" && !this.text && !event.isComposing) {
        event.preventDefault();
        handlers.editLast();
      }
      if (event.key === "Escape" && !event.isComposing && this.#running) handlers.stop();
    });
    this.#stop.addEventListener("click", () => handlers.stop());
    if (!this.#touch.matches) this.focus();
  }

  get text() {
    return this.#field.value;
  }

  /** @param {string} text */
  set text(text) {
    this.#field.value = text;
    this.#refresh();
  }

  focus() {
    this.#field.focus({ preventScroll: true });
  }

  /** A sentence about what was just tried; it goes with the next key. @param {string} sentence */
  say(sentence) {
    this.#note.textContent = sentence;
    this.#note.hidden = !sentence;
  }

  /**
   * @param {{running: boolean, stopping: boolean, busy: boolean, blocked: string, hint: string}} state
   *   running: a reply is being written. busy: a message is on its way. blocked: why nothing can be sent now;
   *   `hint` is shown below the box.
   */
  update({ running, stopping, busy, blocked, hint }) {
    const stopHadFocus = document.activeElement === this.#stop;
    this.#running = running;
    this.#busy = busy;
    this.#blocked = blocked;
    this.#send.hidden = running;
    this.#stop.hidden = !running;
    this.#stop.disabled = stopping;
    this.#stop.querySelector(".button-word").textContent = stopping ? "Stopping" : "Stop";
    if (this.#hint.textContent !== hint) this.#hint.textContent = hint;
    if (stopHadFocus && !running) this.focus();
    this.#refresh();
  }

  #trySend(send) {
    if (!this.text.trim() || this.#busy || this.#running || this.#blocked) return;
    send(this.text);
  }

  #refresh() {
    this.#send.disabled = !this.text.trim() || this.#busy || Boolean(this.#blocked);
    if (CSS.supports("field-sizing", "content")) return;
    this.#field.style.height = "auto";
    this.#field.style.height = `${this.#field.scrollHeight}px`;
  }
}
