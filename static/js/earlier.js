import { addCopyButtons } from "./copy.js";

/**
 * A page comes with the newest messages of a conversation. Those before them are fetched a hundred at a time while
 * nothing else is to do, so that all can be searched and printed; what is in view stays where it is.
 */
export class Earlier {
  #transcript;
  #fetching = false;

  /** @param {HTMLElement} transcript */
  constructor(transcript) {
    this.#transcript = transcript;
    new MutationObserver(() => this.#soon()).observe(transcript, { childList: true });
    transcript.addEventListener("click", ({ target }) => target.closest('[data-action="earlier"]') && this.#fetch());
    this.#soon();
  }

  /** @returns {?HTMLElement} */
  get #place() {
    const first = this.#transcript.firstElementChild;
    return first?.matches(".earlier") ? first : first?.nextElementSibling?.matches(".earlier") ? first.nextElementSibling : null;
  }

  #soon() {
    if (this.#fetching || !this.#place) return;
    if (window.requestIdleCallback) requestIdleCallback(() => this.#fetch());
    else setTimeout(() => this.#fetch(), 300);
  }

  async #fetch() {
    const place = this.#place;
    if (this.#fetching || !place) return;
    this.#fetching = true;
    try {
      const response = await fetch(place.dataset.url);
      if (response.ok) this.#insert(place, await response.text());
    } catch {
      // The button is still there.
    } finally {
      this.#fetching = false;
    }
    if (!place.isConnected) this.#soon();
  }

  #insert(place, html) {
    if (!place.isConnected) return;
    const holder = document.createElement("template");
    holder.innerHTML = html;
    addCopyButtons(holder.content);
    const scroller = this.#transcript.parentElement;
    const below = scroller.scrollHeight - scroller.scrollTop;
    scroller.style.overflowAnchor = "none"; // or the browser would correct the same distance once more
    place.replaceWith(holder.content);
    scroller.scrollTop = scroller.scrollHeight - below;
    requestAnimationFrame(() => (scroller.style.overflowAnchor = ""));
  }
}
