import { msgid } from "./language.js";

/**
 * The one table of keyboard shortcuts: the page listens by it, and the help sheet lists it.
 *
 * `key` is what the key says, in small letters; `ctrl` asks for Ctrl or ⌘, and works while writing too. Letters are
 * also known by their place on the keyboard, since with Hangul switched on the key N says ㅜ.
 *
 * @type {{key: string, ctrl?: boolean, shown: string, words: string, action: string}[]}
 */
export const SHORTCUTS = [
  { key: "n", shown: "N", words: msgid("New chat"), action: "newChat" },
  { key: "m", shown: "M", words: msgid("Write a message"), action: "write" },
  { key: ".", shown: ".", words: msgid("Stop the reply"), action: "stop" },
  { key: "c", shown: "C", words: msgid("Copy the last reply"), action: "copyLast" },
  { key: "e", shown: "E", words: msgid("Edit your last message"), action: "editLast" },
  { key: "/", shown: "/", words: msgid("Search the conversations"), action: "list" },
  { key: "k", ctrl: true, shown: "Ctrl + K", words: msgid("Search, also while writing"), action: "list" },
  { key: "b", shown: "B", words: msgid("Show or hide the conversations"), action: "sidebar" },
  { key: ",", shown: ",", words: msgid("Settings of this chat"), action: "settings" },
  { key: "?", shown: "?", words: msgid("These shortcuts"), action: "help" },
  { key: "/", ctrl: true, shown: "Ctrl + /", words: msgid("These shortcuts, also while writing"), action: "help" },
];

const PLAIN_KEY = "ondol.plain-keys";

/** Whether single keys do anything: who dictates or hits keys by accident can switch them off. */
export function plainKeys() {
  try {
    return localStorage.getItem(PLAIN_KEY) !== "off";
  } catch {
    return true;
  }
}

/** @param {boolean} on */
export function setPlainKeys(on) {
  try {
    localStorage.setItem(PLAIN_KEY, on ? "on" : "off");
  } catch {
    // Storage is off: they stay as they are.
  }
}

/** @param {Record<string, () => void>} actions by the names in the table */
export function startShortcuts(actions) {
  addEventListener("keydown", (event) => {
    const shortcut = meant(event);
    if (!shortcut || (!shortcut.ctrl && !plainKeys())) return;
    event.preventDefault();
    actions[shortcut.action]();
  });
}

/** The shortcut that a key press means, if any. @param {KeyboardEvent} event */
function meant(event) {
  if (event.defaultPrevented || event.repeat || event.isComposing || event.keyCode === 229 || event.altKey) return null;
  const ctrl = event.ctrlKey || event.metaKey;
  if ((!ctrl && isWriting(event.target)) || document.querySelector("dialog[open]")) return null;
  const key = letter(event) ?? event.key;
  return SHORTCUTS.find((each) => each.key === key && Boolean(each.ctrl) === ctrl && !(event.shiftKey && /^[a-z]$/.test(key))) ?? null;
}

/** @param {KeyboardEvent} event */
function letter({ key, code }) {
  if (/^[a-z]$/i.test(key)) return key.toLowerCase();
  const isOtherScript = key.length === 1 && /\p{Letter}/u.test(key);
  return isOtherScript && /^Key[A-Z]$/.test(code) ? code.slice(3).toLowerCase() : null;
}

/** @param {EventTarget} target */
function isWriting(target) {
  return target instanceof Element && target.closest("input, textarea, select, [contenteditable]") !== null;
}
