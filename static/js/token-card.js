import { count, t } from "./language.js";
import { percent, visible } from "./token-elements.js";

const SVG = "http://www.w3.org/2000/svg";

/** Shows all that is known of a token. @param {import("./token-elements.js").Token} token @param {number} place from 0 */
export function showCard(token, place) {
  const card = document.getElementById("token-card");
  const facts = [[t("number"), count(place + 1)], [t("id"), String(token.id)]];
  if (token.bytes !== undefined) facts.push([t("bytes"), token.bytes.toUpperCase()]);
  if (token.p !== undefined) facts.push([t("probability"), percent(token.p)], [t("rank"), count(token.rank)]);
  card.replaceChildren(piece(token), list(facts), ...(token.top?.length ? [heading(t("Likeliest here")), others(token)] : []));
}

function piece(token) {
  const line = document.createElement("p");
  line.className = "token-piece";
  line.textContent = token.text === undefined ? String(token.id)
    : token.text === "" ? t("part of a character") : visible(token.text);
  return line;
}

function list(facts) {
  const dl = document.createElement("dl");
  for (const [name, value] of facts) {
    const [row, dt, dd] = ["div", "dt", "dd"].map((tag) => document.createElement(tag));
    dt.textContent = name;
    dd.textContent = value;
    row.append(dt, dd);
    dl.append(row);
  }
  return dl;
}

function heading(text) {
  const line = document.createElement("p");
  line.className = "review-words";
  line.textContent = text;
  return line;
}

/** The likeliest tokens; the one that was taken is marked where it is among them. */
function others(token) {
  const ol = document.createElement("ol");
  ol.className = "others";
  for (const [id, text, p] of token.top) {
    const row = document.createElement("li");
    const [name, share] = ["span", "span"].map((tag) => document.createElement(tag));
    name.className = id === token.id ? "other-text taken" : "other-text";
    name.textContent = (text ? visible(text) : String(id)) + (id === token.id ? ` ${t("← taken")}` : "");
    share.className = "share";
    share.textContent = percent(p);
    row.append(name, bar(p), share);
    ol.append(row);
  }
  return ol;
}

function bar(p) {
  const svg = document.createElementNS(SVG, "svg");
  const rect = document.createElementNS(SVG, "rect");
  for (const [name, value] of Object.entries({ width: "72", height: "8", "aria-hidden": "true" })) svg.setAttribute(name, value);
  rect.setAttribute("width", `${(100 * p).toFixed(1)}%`);
  rect.setAttribute("height", "100%");
  svg.append(rect);
  return svg;
}
