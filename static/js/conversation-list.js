import { saveDraft } from "./drafts.js";
import { onEnter } from "./ime.js";
import { t } from "./language.js";

const SURE_MS = 5_000;

/** The list in the sidebar: rename in place, delete on a second press. */
export class ConversationList {
  #root;
  #waiting = null;

  /** @param {HTMLElement} root @param {() => ?string} currentId @param {(title: string) => void} titled */
  constructor(root, currentId, titled) {
    this.#root = root;
    this.currentId = currentId;
    this.titled = titled;
    root.addEventListener("click", ({ target }) => {
      const button = target.closest("[data-action]");
      if (button?.dataset.action === "rename") this.#rename(button.closest(".row"));
      if (button?.dataset.action === "delete") this.#delete(button);
    });
  }

  /** @param {string} html the whole list. It waits while a row is in somebody's hands. */
  replace(html) {
    this.#waiting = html;
    if (this.#root.querySelector(".rename, .sure")) return;
    const focused = document.activeElement?.closest?.("#conversations .row")?.dataset.conversationId;
    this.#root.innerHTML = html;
    this.#waiting = null;
    if (focused) this.#row(focused)?.querySelector("a").focus({ preventScroll: true });
    this.markCurrent();
  }

  markCurrent() {
    const id = this.currentId();
    for (const link of this.#root.querySelectorAll("[aria-current]")) link.removeAttribute("aria-current");
    const row = id && this.#row(id);
    if (!row) return;
    row.querySelector("a").setAttribute("aria-current", "page");
    this.titled(row.querySelector(".row-title").textContent);
  }

  #row(id) {
    return this.#root.querySelector(`.row[data-conversation-id="${CSS.escape(id)}"]`);
  }

  #settle() {
    if (this.#waiting !== null) this.replace(this.#waiting);
  }

  #rename(row) {
    const link = row.querySelector("a");
    const title = row.querySelector(".row-title");
    const actions = row.querySelector(".row-actions");
    const form = document.getElementById("rename-form").content.firstElementChild.cloneNode(true);
    const field = form.querySelector("input");
    let open = true;
    const close = async (save) => {
      if (!open) return;
      open = false;
      const name = field.value.trim();
      form.remove();
      link.hidden = actions.hidden = false;
      if (save && name && name !== title.textContent) {
        const old = title.textContent;
        title.textContent = name;
        if (!(await this.#post(row, "rename", { title: name }))) title.textContent = old;
        this.markCurrent();
      }
      this.#settle();
    };
    link.hidden = actions.hidden = true;
    row.prepend(form);
    field.value = title.textContent;
    field.select();
    form.addEventListener("submit", (event) => event.preventDefault());
    onEnter(field, () => close(true).then(() => this.#row(row.dataset.conversationId)?.querySelector("a").focus()));
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || event.isComposing) return;
      event.stopPropagation();
      close(false);
      link.focus();
    });
    field.addEventListener("blur", () => close(true));
  }

  async #delete(button) {
    const row = button.closest(".row");
    if (!button.classList.contains("sure")) return this.#askIfSure(button);
    const id = row.dataset.conversationId;
    button.disabled = true;
    if (!(await this.#post(row, "delete", {}))) return (button.disabled = false);
    saveDraft(id, "");
    if (id === this.currentId()) return location.assign("/");
    const next = row.nextElementSibling ?? row.previousElementSibling;
    row.remove();
    next?.querySelector("a").focus();
    this.#settle();
  }

  #askIfSure(button) {
    const icon = [...button.childNodes];
    const label = button.getAttribute("aria-label");
    button.classList.add("sure");
    button.replaceChildren(t("Delete?"));
    button.setAttribute("aria-label", t("{label}? Press again to delete", { label }));
    const calm = (event) => {
      if (event?.type === "keydown" && event.key !== "Escape") return;
      event?.stopPropagation();
      if (button.disabled) return;
      clearTimeout(timer);
      button.classList.remove("sure");
      button.replaceChildren(...icon);
      button.setAttribute("aria-label", label);
      button.removeEventListener("blur", calm);
      button.removeEventListener("keydown", calm);
      this.#settle();
    };
    const timer = setTimeout(calm, SURE_MS);
    button.addEventListener("blur", calm);
    button.addEventListener("keydown", calm);
  }

  async #post(row, action, body) {
    row.querySelector(".row-failed")?.remove();
    try {
      const response = await fetch(`/api/conversations/${encodeURIComponent(row.dataset.conversationId)}/${action}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
      });
      if (response.ok || (action === "delete" && response.status === 404)) return true;
    } catch {
      // Said below: the server could not be reached.
    }
    const failed = document.createElement("p");
    failed.className = "row-failed";
    failed.setAttribute("role", "alert");
    failed.textContent = action === "rename" ?
      t("Could not rename this. Is Ondol running?") : t("Could not delete this. Is Ondol running?");
    row.append(failed);
    return false;
  }
}
