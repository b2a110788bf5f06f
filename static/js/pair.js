import { isConnected, join } from "./joining.js";
import { startLanguages, t } from "./language.js";
import { takeSecret } from "./secret.js";

/** The page of a device that was not let in: takes the code from the link that was scanned, or from the field. */

const DIGITS = 8;
const form = document.getElementById("pair-form");
const field = document.getElementById("code");
const button = document.getElementById("connect");
const words = document.getElementById("pair-words");

/** @param {?({code: string} | {owner: string})} secret */
async function enter(secret) {
  // A code is not used up for a browser that is let in already.
  if (!secret?.owner && (await isConnected())) return location.replace(secret ? "/" : location.pathname + location.search);
  if (secret) return connect(secret);
  field.focus();
}

/** @param {import("./joining.js").Secret} secret @param {HTMLInputElement} from where it was written */
async function connect(secret, from = field) {
  if (button.disabled) return;
  button.disabled = true;
  words.textContent = t("Connecting…");
  const refusal = await join(secret);
  if (!refusal) return location.replace("/");
  words.textContent = refusal;
  button.disabled = false;
  from.focus();
  from.select();
}

document.getElementById("password-form")?.addEventListener("submit", (event) => {
  event.preventDefault();
  const [name, password] = ["name", "password"].map((id) => document.getElementById(id));
  connect({ name: name.value, password: password.value }, password);
});

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const code = field.value.normalize("NFKC").replace(/[\s-]/g, "");
  if (/^\d+$/.test(code) && code.length === DIGITS) return connect({ code });
  words.textContent = /^\d*$/.test(code) ?
    t("A code has eight digits; this has {n}.", { n: code.length }) :
    t("A code has digits only, eight of them.");
});

// A link that is opened in this tab while the page is here only changes what follows #.
addEventListener("hashchange", () => enter(takeSecret()));
enter(takeSecret());
startLanguages();
