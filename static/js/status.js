import { t } from "./language.js";
import { progressWords } from "./words.js";

/** Why Send is off; the line under the header says what is happening. @param {import("./protocol.js").StatusFrame} status */
function blockedWords({ phase, message }) {
  if (phase === "failed") return t("Nothing can be sent until the model is here.");
  if (phase === "ready") return message || t("The model takes no messages now.");
  return t("You can write already. Sending begins when the model is here.");
}

/** The model's name at the top right, and the line under the header while it is not ready. */
export class ModelStatus {
  #progress;

  /** @param {HTMLElement} progress carries the first status as data attributes @param {() => void} retry */
  constructor(progress, retry) {
    this.#progress = progress;
    this.#button.addEventListener("click", () => {
      this.#button.disabled = true;
      retry();
    });
    const { phase, message, done, total, model, size, detail, canSend } = progress.dataset;
    this.show({ phase, message, done: Number(done), total: Number(total), model, size, detail, can_send: canSend === "true" });
  }

  get #button() {
    return this.#progress.querySelector('[data-action="retry-model"]');
  }

  /** @param {import("./protocol.js").StatusFrame} status */
  show(status) {
    const progress = this.#progress;
    this.blocked = status.can_send ? "" : blockedWords(status);
    progress.dataset.phase = status.phase;
    progress.hidden = status.phase === "ready";
    progress.querySelector(".progress-words").textContent = progressWords(status);
    const share = status.total ? (100 * status.done) / status.total : 0;
    progress.querySelector(".warm").setAttribute("width", `${share.toFixed(1)}%`);
    this.#button.hidden = status.phase !== "failed";
    this.#button.disabled = false;
    for (const place of document.querySelectorAll(".model-name")) place.textContent = status.model;
    for (const place of document.querySelectorAll(".model-size")) place.textContent = status.size;
    for (const place of document.querySelectorAll(".model-detail")) place.textContent = status.detail;
    document.querySelector("#model > summary").setAttribute("aria-label", t("The model: {name}", { name: status.model }));
  }
}
