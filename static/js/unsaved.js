import { t } from "./language.js";

/**
 * Says above the messages why nothing can be saved, and what to do; it goes by itself. What changes in it later (how
 * much is free) is shown and not read out. @param {string} html made by the server; empty: everything can be saved
 */
export function showUnsaved(html) {
  const shown = document.getElementById("unsaved");
  const announcer = document.getElementById("announcer");
  if (!html) {
    if (shown) announcer.textContent = t("Everything can be saved again.");
    return shown?.remove();
  }
  const place = shown ?? document.createElement("aside");
  place.id = place.className = "unsaved";
  place.innerHTML = html;
  if (shown) return;
  document.getElementById("progress").after(place);
  announcer.textContent = place.innerText;
}
