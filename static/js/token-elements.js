import { count, t } from "./language.js";

// From here on a token is as surprising as can be shown: one in 400.
const DARKEST = 6;

/**
 * @typedef {{id: number, text?: string, bytes?: string, group?: number, special?: boolean, p?: number, rank?: number,
 *   top?: [number, string, number][]}} Token
 */

/** Tokens as elements; those that only together are characters stand in one frame. @param {Token[]} tokens @param {number} from @param {number} total */
export function tokenElements(tokens, from, total) {
  const elements = [];
  for (let start = 0; start < tokens.length; ) {
    let end = start + 1;
    while (end < tokens.length && tokens[end].group !== undefined && tokens[end].group === tokens[start].group) end += 1;
    const run = tokens.slice(start, end).map((token, place) => element(token, from + start + place, total, end - start > 1 || token.text === ""));
    elements.push(...(run.length > 1 ? [joined(tokens[start].text, run)] : run));
    start = end;
  }
  return elements;
}

/** How dark a probability is shown, from 0 to 1. @param {number} p */
export const shadeOf = (p) => Math.min(1, -Math.log(Math.max(p, 1e-30)) / DARKEST);

/** @param {number} p */
export function percent(p) {
  if (p >= 0.9995) return t("{share} %", { share: "100" });
  if (p < 0.0001) return t("{share} %", { share: "<0.01" });
  return t("{share} %", { share: (100 * p).toFixed(p < 0.01 ? 2 : 1) });
}

/** A piece with its spaces and breaks made visible. @param {string} text */
export const visible = (text) => text.replace(/ /g, "␣").replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/\r/g, "␍");

/** @param {HTMLElement} list @param {HTMLElement} element */
export function markChosen(list, element) {
  list.querySelector('[aria-selected="true"]')?.setAttribute("aria-selected", "false");
  element.setAttribute("aria-selected", "true");
  list.setAttribute("aria-activedescendant", element.id);
}

function element(token, place, total, asBytes) {
  const span = document.createElement("span");
  span.className = "tok";
  span.id = `tok-${place}`;
  span.dataset.place = String(place);
  span.setAttribute("role", "option");
  span.setAttribute("aria-selected", "false");
  span.setAttribute("aria-posinset", String(place + 1));
  span.setAttribute("aria-setsize", String(total));
  span.setAttribute("aria-label", label(token, asBytes));
  if (token.p !== undefined) span.style.setProperty("--shade", shadeOf(token.p).toFixed(3));
  fill(span, token, asBytes);
  return span;
}

function fill(span, token, asBytes) {
  if (token.text === undefined) {
    span.classList.add("only-id");
    span.textContent = String(token.id);
  } else if (asBytes || token.special) {
    span.classList.add(token.special ? "special" : "byte");
    span.textContent = token.special ? token.text : token.bytes.toUpperCase();
  } else {
    for (const part of token.text.split(/(\n)/)) {
      if (part !== "\n") span.append(part);
      else span.append(sign("⏎"), "\n");
    }
  }
}

function sign(text) {
  const small = document.createElement("span");
  small.className = "sign";
  small.textContent = text;
  return small;
}

function joined(text, run) {
  const frame = document.createElement("span");
  const said = document.createElement("span");
  frame.className = "joined";
  frame.setAttribute("role", "presentation");
  said.className = "joined-text";
  said.setAttribute("aria-hidden", "true");
  said.textContent = text;
  frame.append(said, ...run);
  return frame;
}

function label(token, asBytes) {
  const what = token.text === undefined ? t("id {id}", { id: count(token.id) })
    : asBytes ? t("bytes {bytes}", { bytes: token.bytes }) : visible(token.text);
  return token.p === undefined ? what : `${what}, ${percent(token.p)}`;
}
