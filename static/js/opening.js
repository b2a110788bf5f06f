const KEY = "ondol.opening";

/**
 * How a chat that has not begun is to be, where something was chosen for it: it goes with the first message, and
 * outlives a reload of this tab.
 */
export class Opening {
  #usual;
  #chosen = null;

  /** @param {?string} usual JSON of how it is when nothing is chosen; null on the page of a chat that has begun */
  constructor(usual) {
    this.#usual = usual ? JSON.parse(usual) : null;
    if (!usual) return;
    try {
      this.#chosen = JSON.parse(sessionStorage.getItem(KEY));
    } catch {
      this.#chosen = null;
    }
  }

  /** What was chosen; null where it is as usual. @returns {?import("./protocol.js").Opening} */
  get chosen() {
    return this.#chosen;
  }

  /** How the chat would begin now. @returns {import("./protocol.js").Opening} */
  get now() {
    return this.#chosen ?? this.#usual;
  }

  /** @param {?import("./protocol.js").Opening} opening */
  choose(opening) {
    this.#chosen = opening;
    try {
      if (opening) sessionStorage.setItem(KEY, JSON.stringify(opening));
      else sessionStorage.removeItem(KEY);
    } catch {
      // Without storage it lasts as long as the page.
    }
  }
}

/**
 * What a chat with this opening begins with, as the server sees it.
 * @param {import("./protocol.js").Opening} opening
 */
export function preview(opening) {
  return post("/api/opening", opening);
}

/**
 * Posts a change. `error` is one sentence where it was refused, and `field` what it is about.
 * @param {string} address @param {object} body @returns {Promise<{ok: boolean, error?: string, field?: string}>}
 */
export async function post(address, body) {
  try {
    const response = await fetch(address, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    const answer = response.status === 204 ? {} : await response.json();
    return { ...answer, ok: response.ok };
  } catch {
    return { ok: false, error: "Ondol does not answer. Nothing was changed." };
  }
}
