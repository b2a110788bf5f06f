import { count, plural } from "./words.js";

const PARTS = ["system", "pinned", "history", "draft"];
// Of the bar: an edge beside a thinner part would cover it.
const VISIBLE_SHARE = 0.01;
const FIELDS = [...PARTS, "window", "reserve", "warm", "left_out", "excess"];

/** The bar over the composer: what the model would read now, in exact tokens. */
export class ContextBar {
  /** @type {?import("./protocol.js").ContextView} */
  context = null;
  #root;

  /** @param {HTMLElement} root carries the first numbers as data attributes */
  constructor(root) {
    this.#root = root;
    if (root.dataset.window) this.show(fromAttributes(root.dataset));
  }

  /** @param {?import("./protocol.js").ContextView} context */
  show(context) {
    if (!context) return;
    this.context = context;
    this.#root.dataset.window = String(context.window);
    this.#draw(context);
    this.#say(context);
  }

  /** The draft has become a message; the exact count comes with its reply. */
  draftSent() {
    if (this.context) this.show({ ...this.context, history: this.context.history + this.context.draft, draft: 0, excess: 0 });
  }

  #draw(context) {
    const prompt = promptTokens(context);
    const warm = Math.min(context.warm, prompt);
    this.#span(".warm", 0, warm);
    this.#span(".cold", warm, prompt);
    this.#span(".reserve", prompt, prompt + context.reserve);
    let edge = 0;
    this.#root.querySelectorAll(".part-edge").forEach((line, index) => {
      const size = context[PARTS[index]];
      edge += size;
      const visible = size / context.window > VISIBLE_SHARE;
      line.setAttribute("x1", this.#share(edge));
      line.setAttribute("x2", this.#share(edge));
      line.toggleAttribute("hidden", !visible);
    });
    this.#root.classList.toggle("over", context.excess > 0);
  }

  #span(selector, from, to) {
    const bar = this.#root.querySelector(`.context-bar ${selector}`);
    bar.setAttribute("x", this.#share(from));
    bar.setAttribute("width", this.#share(Math.max(0, Math.min(to, this.context.window) - from)));
  }

  #share(tokens) {
    return `${Math.min(100, (100 * tokens) / this.context.window).toFixed(2)}%`;
  }

  #say(context) {
    const prompt = promptTokens(context);
    const share = prompt ? Math.floor((100 * Math.min(context.warm, prompt)) / prompt) : 0;
    const words = `${count(prompt)} of ${count(context.window)}`;
    this.#root.querySelector(".context-words").textContent = prompt ? `${words} · warm ${share} %` : words;
    for (const place of this.#root.querySelectorAll("[data-part]")) {
      place.textContent = count(context[place.dataset.part]);
    }
    const note = this.#root.querySelector(".context-note");
    note.textContent = noteWords(context);
    note.hidden = !note.textContent;
  }
}

/** @param {import("./protocol.js").ContextView} context */
function promptTokens(context) {
  return PARTS.reduce((sum, part) => sum + context[part], 0);
}

/** @param {import("./protocol.js").ContextView} context */
function noteWords({ excess, left_out: leftOut, pinned }) {
  if (excess > 0 && pinned) return `Shorten by ${plural(excess, "token")}, or unpin messages: ${plural(pinned, "token")} of them always stay.`;
  if (excess > 0) return `Shorten by ${plural(excess, "token")}: this does not fit into what the model can read.`;
  if (leftOut && pinned) return `${plural(leftOut, "older message")} will not be read; what is pinned stays.`;
  if (leftOut === 1) return "The oldest message will not be read.";
  return leftOut ? `The ${count(leftOut)} oldest messages will not be read.` : "";
}

function fromAttributes(data) {
  const camel = { left_out: "leftOut" };
  return Object.fromEntries(FIELDS.map((field) => [field, Number(data[camel[field] ?? field])]));
}
