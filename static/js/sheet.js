/** A modal sheet: closes by its button, by a click beside it, and by Escape. @param {HTMLDialogElement} dialog */
export function closable(dialog) {
  dialog.addEventListener("click", ({ target }) => {
    if (target === dialog || target.closest('[data-action="close-sheet"]')) dialog.close();
  });
}
