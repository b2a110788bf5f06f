import { t } from "./language.js";

/**
 * A modal sheet, which closes by its button, by a click beside it, and by Escape. What is in it goes where its
 * `.sheet-place` is. @param {string} id @param {string} title @returns {HTMLDialogElement}
 */
export function makeSheet(id, title) {
  const [dialog, head, heading, place] = ["dialog", "div", "h2", "div"].map((name) => document.createElement(name));
  const button = document.querySelector('[data-action="close-sidebar"]').cloneNode(true);
  Object.assign(dialog, { id, className: "sheet" });
  dialog.setAttribute("aria-labelledby", `${id}-title`);
  Object.assign(heading, { id: `${id}-title`, textContent: title });
  button.className = "quiet-button";
  button.dataset.action = "close-sheet";
  button.setAttribute("aria-label", t("Close"));
  head.className = "sheet-head";
  place.className = "sheet-place";
  head.append(heading, button);
  dialog.append(head, place);
  dialog.addEventListener("click", ({ target }) => {
    if (target === dialog || target.closest('[data-action="close-sheet"]')) dialog.close();
  });
  document.body.append(dialog);
  return dialog;
}
