import { t } from "./language.js";
import { post } from "./opening.js";

/** The page about oneself: one's name, one's devices, a password. */

const byId = (id) => document.getElementById(id);
const fields = { current: byId("current"), password: byId("password") };

byId("name-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const kept = await post("/api/you/rename", { name: byId("name").value });
  say(event.target, kept.ok ? t("Saved.") : kept.error);
});

byId("password-form").addEventListener("submit", (event) => {
  event.preventDefault();
  change(fields.password.value);
});

addEventListener("click", ({ target }) => {
  const { action } = target.closest("[data-action]")?.dataset ?? {};
  if (action === "remove-password") change(null);
  if (action === "disconnect") disconnect(target.closest(".you-device"));
});

/** @param {?string} password */
async function change(password) {
  const had = "hasPassword" in byId("password-form").dataset;
  const kept = await post("/api/you/password", { password, current: fields.current?.value ?? "" });
  if (!kept.ok) return say(byId("password-form"), kept.error);
  sessionStorage.setItem("ondol-said", password === null ? t("The password is removed.") : had ? t("The password is changed.") : t("The password is set."));
  location.reload(); // the fields are others now
}

async function disconnect(row) {
  const done = await post(`/api/you/devices/${encodeURIComponent(row.dataset.deviceId)}/disconnect`, {});
  if (done.ok) return location.reload(); // this browser finds the page to connect then
  say(row.parentElement, done.error);
}

function say(before, words) {
  before.nextElementSibling.textContent = words;
}

const said = sessionStorage.getItem("ondol-said");
sessionStorage.removeItem("ondol-said");
if (said) say(byId("password-form"), said);
