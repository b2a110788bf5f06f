/** Numbers and short sentences, worded once. */

const number = new Intl.NumberFormat("en");

/** @param {number} value */
export const count = (value) => number.format(value);

/** "1 token", "312 tokens". @param {number} value @param {string} noun */
export const plural = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

/** "2nd". @param {number} n */
function ordinal(n) {
  const ending = { one: "st", two: "nd", few: "rd", other: "th" };
  return `${n}${ending[new Intl.PluralRules("en", { type: "ordinal" }).select(n)]}`;
}

/** @param {number} s */
function about(s) {
  if (s < 90) return `about ${Math.max(1, Math.round(s))} s`;
  return `about ${Math.round(s / 60)} min`;
}

/** @param {import("./protocol.js").QueuedFrame} frame */
export function queuedWords({ position, eta_s: eta, loading }) {
  const place = position <= 1 ? "next in line" : `${ordinal(position)} in line`;
  if (loading) return position <= 1 ? "the model is still loading" : `the model is still loading, ${place}`;
  return eta === null ? place : `${place}, ${about(eta)}`;
}

/** @param {import("./protocol.js").PrefillFrame} frame */
export function prefillWords({ done, total, cached }) {
  return `reading ${count(done)} of ${plural(total, "token")}, ${count(cached)} warm`;
}

/** @param {import("./protocol.js").StatusFrame} status */
export function progressWords({ message, done, total }) {
  if (!total) return message || "Starting";
  const megabytes = (bytes) => count(Math.round(bytes / 1e6));
  return `${message.replace(/[.…\s]+$/, "") || "Fetching the model"}: ${megabytes(done)} of ${megabytes(total)} MB`;
}
