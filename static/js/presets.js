import { preview } from "./opening.js";

/** The presets on the page of a chat that has not begun. */
export class PresetRow {
  #root;
  #opening;
  #previewed;

  /**
   * @param {HTMLElement} root @param {import("./opening.js").Opening} opening
   * @param {(answer: {system_html: string, context: ?import("./protocol.js").ContextView}) => void} previewed
   */
  constructor(root, opening, previewed) {
    this.#root = root;
    this.#opening = opening;
    this.#previewed = previewed;
    root.addEventListener("click", ({ target }) => {
      const button = target.closest('[data-action="preset"]');
      if (button) this.apply({ ...opening.now, system_prompt: button.dataset.text });
    });
    if (opening.chosen) this.apply(opening.chosen);
  }

  /** @param {string} html all presets */
  replace(html) {
    this.#root.innerHTML = html;
    this.#mark();
  }

  /** Have the chat begin so. @param {import("./protocol.js").Opening} opening */
  async apply(opening) {
    this.#opening.choose(opening);
    this.#mark();
    const answer = await preview(opening);
    if (answer.ok && this.#opening.chosen === opening) this.#previewed(answer);
    return answer;
  }

  #mark() {
    let marked = false;
    for (const button of this.#root.querySelectorAll('[data-action="preset"]')) {
      const chosen = !marked && button.dataset.text === this.#opening.now?.system_prompt;
      marked ||= chosen;
      button.setAttribute("aria-pressed", String(chosen));
    }
  }
}
