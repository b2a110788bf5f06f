import { count, t } from "./language.js";
import { showCard } from "./token-card.js";
import { Scoring } from "./token-scoring.js";
import { markChosen, tokenElements } from "./token-elements.js";

/**
 * The page of one reply's tokens. They come in windows, as the page is scrolled or the keys go there, so that a reply
 * of twenty thousand stays light; one of them is chosen at a time.
 */
class TokenView {
  #root = document.getElementById("token-view");
  #list = document.getElementById("tokens");
  #total = Number(this.#root.dataset.total);
  #size = Number(this.#root.dataset.window);
  #windows = [];
  #data = new Map();
  #chosen = -1;
  #pointed = -1;

  constructor() {
    const seen = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) if (isIntersecting) this.#load(this.#windows.indexOf(target));
    }, { rootMargin: "800px" });
    for (let from = 0; from < this.#total; from += this.#size) {
      const part = document.createElement("div");
      part.className = "token-window";
      part.setAttribute("role", "group");
      part.setAttribute("aria-label", `${count(from + 1)}–${count(Math.min(this.#total, from + this.#size))}`);
      this.#windows.push(part);
      seen.observe(part);
    }
    this.#list.append(...this.#windows);
    this.#listen();
    new Scoring(this.#root, () => this.#reload());
  }

  #listen() {
    this.#list.addEventListener("click", ({ target }) => this.#choose(placeOf(target)));
    this.#list.addEventListener("pointerover", ({ target, pointerType }) => pointerType === "mouse" && this.#point(placeOf(target)));
    this.#list.addEventListener("pointerleave", () => this.#point(-1));
    this.#list.addEventListener("focus", () => this.#chosen < 0 && this.#total && this.#choose(0));
    this.#list.addEventListener("keydown", (event) => {
      const to = this.#target(event);
      if (to === null) return;
      event.preventDefault();
      this.#choose(Math.max(0, Math.min(this.#total - 1, to)));
    });
  }

  /** Where a key leads. @param {KeyboardEvent} event */
  #target({ key, ctrlKey, metaKey, altKey }) {
    if (ctrlKey || metaKey || altKey) return null;
    const steps = { ArrowRight: 1, ArrowLeft: -1, PageDown: 50, PageUp: -50, Home: -this.#total, End: this.#total };
    const lines = { ArrowDown: 1, ArrowUp: -1 };
    if (key in steps) return this.#chosen + steps[key];
    return key in lines ? this.#lineAway(lines[key]) : null;
  }

  /** The nearest token on the line below or above. @param {1 | -1} way */
  #lineAway(way) {
    const from = this.#element(this.#chosen)?.getBoundingClientRect();
    if (!from) return this.#chosen + way;
    let best = this.#chosen + way;
    let bestGap = Infinity;
    for (let place = this.#chosen + way; Math.abs(place - this.#chosen) < 200; place += way) {
      const box = this.#element(place)?.getBoundingClientRect();
      if (!box) break;
      const lines = Math.round((way * (box.top - from.top)) / 20);
      if (lines < 1) continue;
      if (lines > 2 && bestGap < Infinity) break;
      const gap = Math.abs(box.left - from.left);
      if (gap >= bestGap) continue;
      [best, bestGap] = [place, gap];
    }
    return best;
  }

  async #choose(place) {
    if (place < 0) return;
    this.#chosen = place;
    await this.#load(Math.floor(place / this.#size));
    if (this.#chosen !== place) return;
    const element = this.#element(place);
    if (!element) return;
    markChosen(this.#list, element);
    element.scrollIntoView({ block: "nearest" });
    showCard(this.#data.get(place), place);
  }

  /** What the mouse points at is shown in passing. */
  #point(place) {
    if (this.#pointed === place) return;
    this.#pointed = place;
    const shown = place >= 0 ? place : this.#chosen;
    if (this.#data.has(shown)) showCard(this.#data.get(shown), shown);
  }

  #element(place) {
    return document.getElementById(`tok-${place}`);
  }

  async #load(index) {
    const part = this.#windows[index];
    if (!part) return;
    part.loading ??= this.#fill(part, index * this.#size);
    await part.loading;
  }

  async #fill(part, from) {
    try {
      const response = await fetch(`/api/replies/${encodeURIComponent(this.#root.dataset.replyId)}/tokens?from=${from}&count=${this.#size}`);
      if (!response.ok) throw new Error(String(response.status));
      const { tokens } = await response.json();
      tokens.forEach((token, place) => this.#data.set(from + place, token));
      part.replaceChildren(...tokenElements(tokens, from, this.#total));
    } catch {
      part.loading = null;
      part.textContent = t("These tokens could not be fetched. Is Ondol running?");
    }
  }

  /** Probabilities are there now: what is shown already is shown anew. */
  async #reload() {
    const loaded = this.#windows.filter((part) => part.loading);
    for (const part of loaded) part.loading = null;
    await Promise.all(loaded.map((part) => this.#load(this.#windows.indexOf(part))));
    if (this.#chosen >= 0) this.#choose(this.#chosen);
  }
}

/** @param {Element} target */
function placeOf(target) {
  return Number(target.closest?.(".tok")?.dataset.place ?? -1);
}

new TokenView();
