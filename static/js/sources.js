/**
 * The text of messages as it was written, which the page does not carry: a long chat would be twice as large.
 * It is fetched when somebody reaches for it, so that it is there at the click: without the Clipboard API, a
 * browser copies only what it has at once.
 */

/** @type {Map<string, Promise<string>>} */
const sources = new Map();
const arrived = new Map();

/** A reply that went on has another text under the same id. @param {HTMLElement} message */
const keyOf = (message) => `${message.dataset.messageId} ${message.dataset.seq}`;

/** @param {HTMLElement} message @returns {Promise<string>} fails when the server cannot be reached */
export function sourceOf(message) {
  const key = keyOf(message);
  if (!sources.has(key)) {
    const source = load(message.dataset.messageId);
    source.then((text) => arrived.set(key, text), () => sources.delete(key));
    sources.set(key, source);
  }
  return sources.get(key);
}

/** What has arrived of it; null where that is nothing yet. @param {HTMLElement} message @returns {?string} */
export function sourceAtHand(message) {
  return arrived.get(keyOf(message)) ?? null;
}

/** @param {string} id */
async function load(id) {
  const response = await fetch(`/api/messages/${encodeURIComponent(id)}/text`);
  if (!response.ok) throw new Error(`the server answered ${response.status}`);
  return response.text();
}
