import { post } from "./opening.js";

/** Pins: what is pinned is always read by the model, and is marked. */

/** @param {HTMLElement} root */
export function listenForPinning(root) {
  root.addEventListener("click", async ({ target }) => {
    const button = target.closest('[data-action="pin"]');
    if (!button) return;
    const { messageId } = button.closest(".message").dataset;
    const pinned = button.getAttribute("aria-pressed") !== "true";
    const { ok, error } = await post(`/api/messages/${encodeURIComponent(messageId)}/pin`, { pinned });
    const place = button.querySelector(".button-word");
    place.textContent = ok ? "" : error;
    if (ok) showPinned(button.closest(".message"), pinned);
  });
}

/** @param {?HTMLElement} message @param {boolean} pinned */
export function showPinned(message, pinned) {
  message?.toggleAttribute("data-pinned", pinned);
  message?.querySelector('[data-action="pin"]').setAttribute("aria-pressed", String(pinned));
}
