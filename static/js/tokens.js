/** The token page, live: what is written is cut anew once typing pauses, never twice at a time. */

const PAUSE_MS = 250;
const form = document.getElementById("tokens-form");
const result = document.getElementById("result");
const said = document.getElementById("said");
let timer = 0;
let busy = false;
let again = false;

function soon() {
  clearTimeout(timer);
  timer = setTimeout(cut, PAUSE_MS);
}

async function cut() {
  again = busy;
  if (busy) return;
  busy = true;
  try {
    const response = await fetch("/tokens/rows", { method: "POST", body: new URLSearchParams(new FormData(form)) });
    if (response.ok) show(await response.text());
  } catch {
    // The server cannot be reached: what is shown stays, and the button still tells what is wrong.
  }
  busy = false;
  if (again) soon();
}

/** @param {string} html */
function show(html) {
  result.innerHTML = html;
  const first = result.querySelector(".totals tbody tr");
  if (first) said.textContent = [...first.querySelectorAll("th, td")].map((cell) => cell.textContent).join(" ");
}

form.addEventListener("input", soon);
const field = form.querySelector("textarea");
if (field.value !== field.defaultValue) soon(); // somebody wrote before this script was there
