import { t } from "./language.js";

/** Says over the composer when the server cannot be reached, and lets the browser keep a page that says so. */
export class Reach {
  #place;

  /** @param {HTMLElement} place @param {() => boolean} isOpen whether the socket is */
  constructor(place, isOpen) {
    this.#place = place;
    // A connection that went with the network may look open for minutes.
    addEventListener("offline", () => this.#probe());
    if (!navigator.onLine) this.#probe();
    addEventListener("online", () => isOpen() && this.opened());
    // Undefined over plain HTTP, except on this machine itself.
    const worker = new URL("../offline-worker.js", import.meta.url);
    worker.search = document.documentElement.lang; // in another language it keeps another page
    navigator.serviceWorker?.register(worker, { scope: "/" }).catch(() => {}); // without it only that page is missing
  }

  opened() {
    this.#place.hidden = true;
  }

  /** @param {number} failures how often a connection was tried in vain */
  lost(failures) {
    this.#place.textContent = words(failures);
    this.#place.hidden = false;
  }

  /** Whether the server answers, but lets this device in no more: a socket does not tell why it is refused. */
  async isOut() {
    try {
      const answer = await fetch("/pair");
      return answer.ok && !(await answer.json()).connected;
    } catch {
      return false;
    }
  }

  async #probe() {
    try {
      await fetch("/health", { cache: "no-store" });
    } catch {
      this.lost(0);
    }
  }
}

function words(failures) {
  if (!navigator.onLine) return t("This device is offline. What you send waits until it is back.");
  if (failures < 4) return t("Reconnecting…");
  return t("Reconnecting… The server does not answer. It may be off, or something on the way may not let WebSocket through.");
}
