import { t } from "./language.js";
import { SHORTCUTS, plainKeys, setPlainKeys } from "./shortcuts.js";
import { makeSheet } from "./sheet.js";

let dialog = null;

/** The sheet that lists the keyboard shortcuts. */
export function openHelp() {
  dialog ??= build();
  dialog.querySelector("input").checked = plainKeys();
  dialog.showModal();
}

function build() {
  const made = makeSheet("help", t("Keyboard shortcuts"));
  made.classList.add("help");
  const keys = document.createElement("dl");
  keys.className = "keys";
  keys.append(...SHORTCUTS.map(row));
  made.querySelector(".sheet-place").replaceWith(keys, plainKeysBox());
  return made;
}

function plainKeysBox() {
  const [label, words, box] = ["label", "span", "input"].map((name) => document.createElement(name));
  label.className = "check";
  words.textContent = t("Single keys, while nothing is being written");
  Object.assign(box, { type: "checkbox", id: "plain-keys" });
  box.addEventListener("change", () => setPlainKeys(box.checked));
  label.append(box, words);
  return label;
}

/** @param {typeof SHORTCUTS[number]} shortcut */
function row({ shown, words }) {
  const line = document.createElement("div");
  const [what, keys, key] = ["dt", "dd", "kbd"].map((name) => document.createElement(name));
  what.textContent = t(words);
  key.textContent = shown;
  keys.append(key);
  line.append(what, keys);
  return line;
}
