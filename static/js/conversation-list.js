import { fetchPart } from "./parts.js";

/** The list in the sidebar. Its first piece comes with the page and with every change, more as one gets near. */
export class ConversationList {
  #root;
  #held = null; // what came while a row was in somebody's hands
  #archived = false;
  #grown = false; // more than the first piece is shown
  #near = new IntersectionObserver((seen) => seen.forEach((each) => each.isIntersecting && this.#more(each.target)));

  /** @param {HTMLElement} root @param {() => ?string} currentId @param {(title: string) => void} titled */
  constructor(root, toast, currentId, titled) {
    this.#root = root;
    this.toast = toast;
    this.currentId = currentId;
    this.titled = titled;
    document.getElementById("sidebar").addEventListener("click", async ({ target }) => {
      const button = target.closest("[data-action]");
      const action = button?.dataset.action;
      if (action === "archive-view") this.#turn(!this.#archived);
      if (action === "more") this.#more(button.parentElement);
      if (action === "row-menu") (await fetchPart("./row-menu.js")).openRowMenu(button, this);
    });
    this.#watchEnd();
    this.#tellZone();
  }

  /** @param {string} html its first piece. It waits while a row is in somebody's hands. */
  replace(html) {
    this.#held = html;
    if (this.#root.querySelector("[data-held]")) return;
    this.#held = null;
    if (this.#archived || this.#grown) this.#fetch();
    else this.#show(html);
  }

  /** A row is in nobody's hands any more. */
  settle() {
    if (this.#held !== null) this.replace(this.#held);
  }

  markCurrent() {
    const id = this.currentId();
    for (const link of this.#root.querySelectorAll("[aria-current]")) link.removeAttribute("aria-current");
    const row = id && this.row(id);
    if (!row) return;
    row.querySelector("a").setAttribute("aria-current", "page");
    this.titled(row.querySelector(".row-title").textContent);
  }

  /** @returns {?HTMLElement} */
  row(id) {
    return this.#root.querySelector(`.row[data-conversation-id="${CSS.escape(id)}"]`);
  }

  get isArchive() {
    return this.#archived;
  }

  #show(html) {
    const active = document.activeElement;
    const focused = active?.closest?.("#conversations .row");
    const at = [...this.#root.querySelectorAll(".row")].indexOf(focused);
    this.#root.innerHTML = html;
    const rows = this.#root.querySelectorAll(".row"); // one of them took the place of a row that has gone
    const same = focused && this.row(focused.dataset.conversationId)?.querySelector(active.matches(".row-more") ? ".row-more" : "a");
    if (focused) (same ?? rows[Math.min(at, rows.length - 1)]?.querySelector("a"))?.focus({ preventScroll: true });
    this.markCurrent();
    this.#watchEnd();
  }

  async #turn(archived) {
    this.#archived = archived;
    this.#grown = false;
    const button = document.querySelector("#finder [data-action]");
    button.setAttribute("aria-pressed", String(archived));
    const hadFocus = this.#root.contains(document.activeElement);
    await this.#fetch();
    if (hadFocus) button.focus();
  }

  /** As much of it as is shown, as it is now. */
  async #fetch() {
    const query = new URLSearchParams(this.#archived ? { archived: "1" } : {});
    const last = [...this.#root.querySelectorAll(".row:not([data-pinned])")].at(-1);
    if (this.#grown && last) query.set("until", last.dataset.place);
    const html = await text(`/conversations?${query}`);
    if (html === null) return;
    if (this.#root.querySelector("[data-held]")) this.#held = html;
    else this.#show(html);
  }

  async #more(place) {
    if (place.dataset.fetching) return;
    place.dataset.fetching = "true";
    const html = await text(place.dataset.url);
    delete place.dataset.fetching;
    if (html === null || !place.isConnected) return; // the button is still there
    const hadFocus = place.contains(document.activeElement);
    const before = place.previousElementSibling;
    place.outerHTML = html;
    this.#grown = true;
    if (hadFocus) before?.nextElementSibling?.querySelector("a, button")?.focus();
    this.markCurrent();
    this.#watchEnd();
  }

  #watchEnd() {
    this.#near.disconnect();
    const end = this.#root.querySelector(".list-more");
    if (end) this.#near.observe(end);
  }

  /** The server lists by the day that it is here. */
  #tellZone() {
    const told = `ondol_zone=${Intl.DateTimeFormat().resolvedOptions().timeZone}`;
    if (document.cookie.split("; ").includes(told)) return;
    document.cookie = `${told}; path=/; max-age=34560000; samesite=strict`;
    if (this.#root.querySelector(".row")) this.#fetch();
  }
}

async function text(address) {
  try {
    const response = await fetch(address);
    return response.ok ? await response.text() : null;
  } catch {
    return null;
  }
}
