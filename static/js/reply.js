import { prefillWords, queuedWords } from "./words.js";

/**
 * Puts one event of a running reply into its element.
 *
 * @param {HTMLElement} element a `.reply`
 * @param {import("./protocol.js").QueuedFrame | import("./protocol.js").PrefillFrame | import("./protocol.js").DeltaFrame} frame
 */
export function applyToReply(element, frame) {
  if (frame.seq <= Number(element.dataset.seq)) return;
  element.dataset.seq = String(frame.seq);
  element.dataset.status = frame.type === "queued" ? "pending" : "running";
  if (frame.type === "delta") applyDelta(element, frame);
  else if (frame.type === "queued") showWaiting(element, queuedWords(frame), null);
  else showWaiting(element, prefillWords(frame), frame.total ? frame.done / frame.total : 0);
}

/** @param {HTMLElement} element @param {import("./protocol.js").DeltaFrame} delta */
function applyDelta(element, { blocks, tail, code, reasoning, thought }) {
  if (reasoning) showReasoning(element.querySelector(".reasoning"), reasoning);
  if (thought) endReasoning(element.querySelector(".reasoning"), thought);
  const rest = element.querySelector(".tail");
  if (blocks?.length) element.querySelector(".body").insertAdjacentHTML("beforeend", blocks.join(""));
  if (tail !== undefined) rest.innerHTML = tail;
  if (code) lastOf(rest, "code")?.append(code);
  element.querySelector(".waiting").hidden = true;
}

/** @param {HTMLElement} fold @param {string} text what is to be appended */
function showReasoning(fold, text) {
  fold.hidden = false;
  fold.querySelector(".reasoning-text").append(text);
}

/** @param {HTMLElement} fold @param {string} words */
function endReasoning(fold, words) {
  delete fold.dataset.running;
  fold.querySelector(".reasoning-words").textContent = words;
}

/** @param {HTMLElement} element @param {string} words @param {?number} warm the share already computed */
function showWaiting(element, words, warm) {
  const bar = element.querySelector(".waiting .warmth");
  element.querySelector(".waiting").hidden = false; // a reply that goes on was not waiting before
  bar.toggleAttribute("hidden", warm === null);
  if (warm !== null) bar.querySelector(".warm").setAttribute("width", `${(100 * warm).toFixed(1)}%`);
  element.querySelector(".waiting-words").textContent = words;
}

function lastOf(element, selector) {
  const all = element.querySelectorAll(selector);
  return all[all.length - 1];
}
