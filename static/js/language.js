/**
 * The page's language. The texts of the scripts that a page begins with come in it, under the English ones that stand in
 * these files; those of all others are fetched with the first of them.
 */

const locale = document.documentElement.lang;
const inPage = document.getElementById("texts");
const texts = JSON.parse(inPage.textContent);
let others = null;
const AGE_S = 400 * 24 * 3_600; // as long as browsers keep a cookie

/** Before a script is shown whose texts did not come with the page. Without them it speaks English. */
export function fetchTexts() {
  const { others: address } = inPage.dataset;
  if (!address) return Promise.resolve();
  others ??= fetch(address).then((response) => response.json()).then((more) => void Object.assign(texts, more))
    .catch(() => void (others = null));
  return others;
}

/** A text in the page's language. @param {string} text @param {Record<string, string | number>} values */
export function t(text, values = {}) {
  return fill(texts[text]?.[0] ?? text, values);
}

/** A text that goes with a number, which it calls {n}. @param {string} one @param {string} many @param {number} n */
export function plural(one, many, n, values = {}) {
  const forms = texts[one] ?? [one, many];
  // Right for languages with one form, and for those that count as English does.
  return fill(n === 1 ? forms[0] : forms.at(-1), { n: count(n), ...values });
}

const whole = new Intl.NumberFormat(locale);
const tenths = new Intl.NumberFormat(locale, { minimumFractionDigits: 1, maximumFractionDigits: 1 });

/** @param {number} value */
export const count = (value) => whole.format(value);

/** With one digit after the point. @param {number} value */
export const decimal = (value) => tenths.format(value);

/** Marks a text that `t` is given somewhere else. @param {string} text */
export const msgid = (text) => text;
const ordinals = { one: msgid("{n}st"), two: msgid("{n}nd"), few: msgid("{n}rd"), other: msgid("{n}th") };

/** "2nd". @param {number} n */
export const ordinal = (n) => t(ordinals[new Intl.PluralRules(locale, { type: "ordinal" }).select(n)], { n });

/** "29 November 2026". @param {Date} date */
export const longDate = (date) => date.toLocaleDateString(locale, { dateStyle: "long" });

/** The switch. A new page loses nothing: drafts are kept, and the server goes on with replies. */
export function startLanguages() {
  for (const button of document.querySelectorAll("[data-language]")) {
    button.addEventListener("click", () => {
      document.cookie = `ondol_language=${button.dataset.language}; path=/; max-age=${AGE_S}; samesite=strict`;
      location.reload();
    });
  }
}

function fill(text, values) {
  return text.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}
