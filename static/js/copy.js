import { t } from "./language.js";
import { sourceAtHand, sourceOf } from "./sources.js";

/** Copy buttons of messages and code. The Clipboard API is missing over plain HTTP, so there is a second way. */

/** Adds the button to finished code blocks that have none. @param {ParentNode} root */
export function addCopyButtons(root) {
  for (const head of root.querySelectorAll(".body .code-head:not(:has(button))")) {
    head.append(document.getElementById("copy-code").content.cloneNode(true));
  }
}

/** @param {HTMLElement} root */
export function listenForCopying(root) {
  for (const reaching of ["pointerover", "pointerdown", "focusin"]) {
    root.addEventListener(reaching, ({ target }) => {
      const button = target.closest?.('[data-action="copy-message"]');
      if (button) sourceOf(button.closest(".message")).catch(() => {}); // the click tells
    });
  }
  root.addEventListener("click", async (event) => {
    const button = event.target.closest('[data-action="copy-message"], [data-action="copy-code"]');
    if (!button) return;
    say(button, (await copyFor(button)) ? t("Copied") : t("Could not copy"));
  });
}

/** @param {HTMLElement} button */
async function copyFor(button) {
  if (button.dataset.action === "copy-code") return copy(codeText(button));
  const message = button.closest(".message");
  const atHand = sourceAtHand(message);
  if (atHand !== null) return copy(atHand);
  try {
    return await copy(await sourceOf(message));
  } catch {
    return false;
  }
}

/** @param {HTMLElement} button */
function codeText(button) {
  return button.closest(".code").querySelector("pre").textContent.replace(/\n$/, "");
}

/** What a message says, without the chrome in it. @param {HTMLElement} message */
export function messageText(message) {
  const heads = message.querySelectorAll(".code-head");
  const wasWhole = message.classList.contains("whole");
  message.classList.add("whole"); // what is not laid out has no text
  for (const head of heads) head.hidden = true;
  const text = message.querySelector(".body").innerText.trim();
  for (const head of heads) head.hidden = false;
  message.classList.toggle("whole", wasWhole);
  return text;
}

async function copy(text) {
  if (!navigator.clipboard) return copyBySelection(text); // over plain HTTP; at once, while the click counts
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

function copyBySelection(text) {
  const focused = document.activeElement;
  const area = document.createElement("textarea");
  area.className = "visually-hidden";
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  focused?.focus({ preventScroll: true });
  return done;
}

function say(button, word) {
  const place = button.querySelector(".button-word");
  place.textContent = word;
  setTimeout(() => (place.textContent = ""), 1_600);
}
