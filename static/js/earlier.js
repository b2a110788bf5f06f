import { addCopyButtons } from "./copy.js";

/**
 * A page comes with the newest messages of a conversation, and those around one that was searched for. Those before them are fetched a hundred at a time while
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
    return [...this.#transcript.querySelectorAll(":scope > .earlier")].at(-1) ?? null;
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

  #isGap(place) {
    return place.previousElementSibling?.matches(".message") ?? false;
  }

  #insert(place, html) {
    if (!place.isConnected) return;
    const holder = document.createElement("template");
    holder.innerHTML = html;
    addCopyButtons(holder.content);
    const scroller = this.#transcript.parentElement;
    const below = scroller.scrollHeight - scroller.scrollTop;
    // Messages are shown above it as well: a reader among those stays there.
    const isAhead = this.#isGap(place) && place.getBoundingClientRect().top > scroller.getBoundingClientRect().top;
    const { scrollTop } = scroller;
    scroller.style.overflowAnchor = "none"; // or the browser would correct the same distance once more
    place.replaceWith(holder.content);
    scroller.scrollTop = isAhead ? scrollTop : scroller.scrollHeight - below;
    requestAnimationFrame(() => (scroller.style.overflowAnchor = ""));
  }
}
