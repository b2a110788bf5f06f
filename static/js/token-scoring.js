import { count, t } from "./language.js";

const LOOK_MS = 300;

/** Has the probabilities of a reply computed, and tells how far that is. */
export class Scoring {
  #address;
  #words = document.getElementById("scoring-words");
  #bar = document.getElementById("scoring-bar");
  #done;
  #start;
  #stop;

  /** @param {HTMLElement} root @param {() => void} done called once they are there */
  constructor(root, done) {
    this.#address = `/api/replies/${encodeURIComponent(root.dataset.replyId)}/scores`;
    this.#done = done;
    [this.#start, this.#stop] = ["score", "stop-scoring"].map((action) => root.querySelector(`[data-action="${action}"]`));
    if (!this.#start) return;
    this.#start.addEventListener("click", () => this.#follow("POST"));
    this.#stop.addEventListener("click", () => fetch(`${this.#address}/stop`, { method: "POST" }).catch(() => {}));
    if (root.dataset.state === "running") this.#follow("GET");
  }

  async #follow(method) {
    this.#runs(true);
    let state = await this.#ask(method);
    while (state?.state === "running") {
      this.#tell(state);
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
      state = await this.#ask("GET");
    }
    this.#runs(false);
    if (state?.state === "kept") this.#finish();
    else this.#words.textContent = state?.error || (state ? t("Stopped. Nothing was kept.") : t("Ondol does not answer. Nothing was changed."));
  }

  async #ask(method) {
    try {
      const response = await fetch(this.#address, { method });
      return await response.json();
    } catch {
      return null;
    }
  }

  #tell({ done, total }) {
    this.#words.textContent = done ? t("{done} of {total} tokens", { done: count(done), total: count(total) })
      : t("Reading what came before the reply. Replies that are being written go first.");
    this.#bar.querySelector(".warm").setAttribute("width", `${total ? (100 * done) / total : 0}%`);
  }

  #runs(running) {
    this.#start.hidden = running;
    this.#stop.hidden = !running;
    this.#bar.toggleAttribute("hidden", !running);
    if (running && document.activeElement === document.body) this.#stop.focus();
  }

  #finish() {
    this.#words.textContent = t("Computed by the model that is loaded now, and kept.");
    for (const button of [this.#start, this.#stop]) button.hidden = true;
    document.getElementById("shades").hidden = false;
    document.getElementById("tokens").focus({ preventScroll: true });
    this.#done();
  }
}
