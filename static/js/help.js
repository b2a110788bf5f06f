import { SHORTCUTS, plainKeys, setPlainKeys } from "./shortcuts.js";
import { closable } from "./sheet.js";

let filled = false;

/** The sheet that lists the keyboard shortcuts. @param {HTMLDialogElement} dialog */
export function openHelp(dialog) {
  const box = dialog.querySelector("#plain-keys");
  if (!filled) {
    filled = true;
    closable(dialog);
    dialog.querySelector(".keys").append(...SHORTCUTS.map(row));
    box.addEventListener("change", () => setPlainKeys(box.checked));
  }
  box.checked = plainKeys();
  dialog.showModal();
}

/** @param {typeof SHORTCUTS[number]} shortcut */
function row({ shown, words }) {
  const line = document.createElement("div");
  const [what, keys, key] = ["dt", "dd", "kbd"].map((name) => document.createElement(name));
  what.textContent = words;
  key.textContent = shown;
  keys.append(key);
  line.append(what, keys);
  return line;
}
