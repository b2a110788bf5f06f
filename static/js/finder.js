import { onEnter } from "./ime.js";
import { plural, t } from "./language.js";
import { stylesheet } from "./parts.js";

/**
 * The search field of the sidebar: results take the list's place while something stands in it. Enter goes to the
 * page of all results.
 */

const PAUSE_MS = 180;
const COMPOSING_PAUSE_MS = 450; // a syllable in the making is looked for only when one stops at it
const UNFINISHED = /[\u3131-\u318e]$/; // a lone letter at the end: the syllable is still being written

/** @param {HTMLFormElement} form @param {HTMLElement} list @param {(text: string) => void} announce */
export function startFinder(form, list, announce) {
  const field = form.querySelector("input");
  const place = document.createElement("div");
  place.className = "found-place";
  place.setAttribute("role", "region");
  place.setAttribute("aria-label", t("Results"));
  place.hidden = true;
  form.after(place);
  let timer = 0;
  let newest = 0;
  const show = (html) => {
    place.innerHTML = html;
    place.hidden = html === "";
    list.hidden = html !== "";
  };
  const look = async () => {
    const words = field.value.replace(UNFINISHED, "").trim();
    const number = ++newest;
    if (!words) return show("");
    let html = null;
    try {
      const [response] = await Promise.all([fetch(`/search/quick?${new URLSearchParams({ q: words })}`), stylesheet("found")]);
      if (response.ok) html = await response.text();
    } catch {
      // Said below: the server could not be reached.
    }
    if (number !== newest) return;
    if (html === null) {
      show(" ");
      return place.replaceChildren(t("The search did not work. Is Ondol running?"));
    }
    show(html);
    announce(plural("{n} result", "{n} results", place.querySelectorAll(".found-message").length));
  };
  const soon = (event) => {
    clearTimeout(timer);
    timer = setTimeout(look, event?.isComposing ? COMPOSING_PAUSE_MS : PAUSE_MS);
  };
  const clear = () => {
    clearTimeout(timer);
    newest += 1;
    field.value = "";
    show("");
  };
  field.addEventListener("input", soon);
  field.addEventListener("compositionend", soon);
  onEnter(field, () => field.value.trim() && form.requestSubmit());
  form.parentElement.addEventListener("keydown", (event) => {
    const inside = event.target === field || place.contains(event.target);
    if (!inside || event.isComposing) return;
    if (event.key === "Escape" && !place.hidden) {
      event.stopPropagation();
      clear();
      field.focus();
    }
    if (event.key === "ArrowDown" || event.key === "ArrowUp") walk(event, field, place.hidden ? list : place);
  });
  addEventListener("pageshow", soon); // the browser may have put back what stood there
  soon();
}

function walk(event, field, place) {
  const stops = [field, ...place.querySelectorAll("a")];
  const to = stops[stops.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1)];
  if (!to) return;
  event.preventDefault();
  to.focus();
}
