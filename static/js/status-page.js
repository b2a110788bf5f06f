/** The status page, kept fresh while somebody looks at it; a button holds it still. */

const EVERY_MS = 2_000;
const now = document.getElementById("now");
const pause = document.getElementById("pause");
const lost = document.getElementById("lost-touch");

async function refresh() {
  if (document.visibilityState !== "visible" || pause.getAttribute("aria-pressed") === "true") return;
  let html = null;
  try {
    const response = await fetch("/status/now");
    if (response.ok && !response.redirected) html = await response.text();
  } catch {
    // Said below.
  }
  const words = html === null ? lost.dataset.words : "";
  if (lost.textContent !== words) lost.textContent = words;
  // What somebody has marked or is about to press is not pulled away.
  if (html !== null && getSelection().isCollapsed) replace(html);
}

/** @param {string} html */
function replace(html) {
  const focused = now.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  now.innerHTML = html;
  if (focused) now.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

async function keepFresh() {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
    await refresh();
  }
}

pause.hidden = false;
document.querySelector(".unless-live").hidden = true;
pause.addEventListener("click", () => {
  pause.setAttribute("aria-pressed", String(pause.getAttribute("aria-pressed") !== "true"));
  refresh();
});
document.addEventListener("visibilitychange", refresh);
keepFresh();
