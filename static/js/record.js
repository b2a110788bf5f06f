import { t } from "./language.js";
import { judge, readParams } from "./settings-fields.js";
import { makeSheet } from "./sheet.js";

/** The sheet that tells how a reply came about, and has it written again. */
class Record {
  #dialog = makeSheet("record", t("How this reply came about"));
  #place = this.#dialog.querySelector(".sheet-place");
  #reply = null;
  #act = null;

  constructor() {
    this.#dialog.addEventListener("close", () => this.#place.replaceChildren());
    this.#place.addEventListener("click", ({ target }) => this.#click(target.closest("[data-action]")));
    this.#place.addEventListener("change", ({ target }) => judge(target));
    this.#place.addEventListener("submit", (event) => {
      event.preventDefault();
      const params = readParams(event.target);
      if (params) this.#again({ params });
    });
  }

  /** @param {HTMLElement} reply @param {(message: HTMLElement, rest: object) => void} act has it written again */
  async open(reply, act) {
    this.#reply = reply;
    this.#act = act;
    this.#dialog.showModal();
    let html = null;
    try {
      const response = await fetch(`/api/messages/${encodeURIComponent(reply.dataset.messageId)}/record`);
      if (response.ok) html = await response.text();
    } catch {
      // Said below: the server could not be reached.
    }
    if (!this.#dialog.open || this.#reply !== reply) return;
    if (html === null) this.#place.replaceChildren(t("The record could not be read. Is Ondol running?"));
    else this.#place.innerHTML = html;
  }

  #click(button) {
    if (button?.dataset.action === "repeat") this.#again({ repeat: true });
    if (button?.dataset.action !== "vary") return;
    const form = this.#place.querySelector("#vary-form");
    form.hidden = !form.hidden;
    button.setAttribute("aria-expanded", String(!form.hidden));
    if (!form.hidden) form.querySelector("input").focus();
  }

  #again(how) {
    this.#dialog.close();
    this.#act(this.#reply, how);
  }
}

let record = null;

/** @param {HTMLElement} reply @param {(message: HTMLElement, rest: object) => void} act */
export function openRecord(reply, act) {
  record ??= new Record();
  return record.open(reply, act);
}
