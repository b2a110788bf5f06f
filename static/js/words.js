import { count, decimal, ordinal, plural, t } from "./language.js";

/** Short sentences, worded once. */

/** @param {number} s */
function about(s) {
  if (s < 90) return t("about {n} s", { n: Math.max(1, Math.round(s)) });
  return t("about {n} min", { n: Math.round(s / 60) });
}

/** @param {import("./protocol.js").QueuedFrame} frame */
export function queuedWords({ position, eta_s: eta, loading }) {
  if (loading && position <= 1) return t("the model is still loading");
  const place = position <= 1 ? t("next in line") : t("{ordinal} in line", { ordinal: ordinal(position) });
  if (loading) return t("the model is still loading, {place}", { place });
  return eta === null ? place : t("{place}, {duration}", { place, duration: about(eta) });
}

/** @param {import("./protocol.js").PrefillFrame} frame */
export function prefillWords({ done, total, cached }) {
  const values = { done: count(done), cached: count(cached) };
  return plural("reading {done} of {n} token, {cached} warm", "reading {done} of {n} tokens, {cached} warm", total, values);
}

/** What the reasoning of a reply is folded under. @param {?number} s */
export function thoughtWords(s) {
  if (s === null) return t("Thought");
  if (s < 60) return t("Thought for {seconds} s", { seconds: decimal(s) });
  const whole = Math.round(s);
  return t("Thought for {minutes} min {seconds} s", { minutes: Math.floor(whole / 60), seconds: whole % 60 });
}

/** @param {import("./protocol.js").StatusFrame} status */
export function progressWords({ message, done, total }) {
  if (!total) return message || t("Starting");
  const megabytes = (bytes) => count(Math.round(bytes / 1e6));
  const doing = message.replace(/[.…\s]+$/, "") || t("Fetching the model");
  return t("{doing}: {done} of {total} MB", { doing, done: megabytes(done), total: megabytes(total) });
}
