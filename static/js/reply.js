import { prefillWords, queuedWords, thoughtWords } from "./words.js";

const PART_BLOCKS = 12;

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
function applyDelta(element, { blocks, tail, code, reasoning, thought_s: seconds }) {
  if (reasoning) showReasoning(element.querySelector(".reasoning"), reasoning);
  if (seconds !== undefined) endReasoning(element.querySelector(".reasoning"), thoughtWords(seconds));
  const rest = childOf(element, "tail");
  if (blocks?.length) {
    const body = childOf(element, "body");
    addBlocks(body, blocks);
    body.after(rest); // put there anew: a box that stayed would have moved, and what it shows does not
  }
  if (tail !== undefined) rest.innerHTML = tail;
  if (code) lastOf(rest, "code")?.append(code);
  childOf(element, "waiting").hidden = true;
}

/**
 * Finished blocks go into parts, of which the browser lays out and paints only those near the view: so the end of a
 * long reply costs no more than its beginning. @param {HTMLElement} body @param {string[]} blocks
 */
function addBlocks(body, blocks) {
  for (let start = 0; start < blocks.length; start += PART_BLOCKS) {
    let part = body.lastElementChild;
    if (!part?.matches(".part") || part.childElementCount >= PART_BLOCKS) {
      part = document.createElement("div");
      part.className = "part";
      body.append(part);
    }
    part.insertAdjacentHTML("beforeend", blocks.slice(start, start + PART_BLOCKS).join(""));
  }
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

/** A long reply has thousands of elements before its tail: they are not searched. */
function childOf(element, name) {
  return Array.prototype.find.call(element.children, (child) => child.classList.contains(name));
}

function lastOf(element, selector) {
  const all = element.querySelectorAll(selector);
  return all[all.length - 1];
}
