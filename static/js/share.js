import { t } from "./language.js";
import { post } from "./opening.js";
import { makeSheet } from "./sheet.js";

/** The sheet that says who else in the house sees a conversation, and may write in it. Each choice holds at once. */

let sheet = null;

/** @param {{id: string, title: string, shared: string}} conversation */
export function openShare({ id, title, shared }) {
  sheet ??= makeSheet("share", t("Share with the house"));
  const place = sheet.querySelector(".sheet-place");
  const form = document.createElement("form");
  const [about, note] = ["p", "p"].map((name) => document.createElement(name));
  form.className = "share-form";
  about.className = "share-title";
  about.textContent = title;
  note.className = "share-note";
  note.setAttribute("role", "status");
  form.append(
    about,
    choice("", t("Only me"), t("Nobody else sees it.")),
    choice("read", t("Everybody can read it"), t("It is in everybody’s list, with your name. Nobody else changes it.")),
    choice("write", t("Everybody can write in it"), t("They also ask, edit, and have replies written and stopped.")),
    note,
  );
  // Not by the list's own value: Chromium finds no choice there whose value is empty.
  const show = () => form.elements.shared.forEach((box) => (box.checked = box.value === shared));
  show();
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", async ({ target }) => {
    note.textContent = "";
    const done = await post(`/api/conversations/${encodeURIComponent(id)}/share`, { shared: target.value || null });
    if (done.ok) shared = target.value;
    else show();
    note.textContent = done.ok ? t("Saved.") : done.error;
  });
  place.replaceChildren(form);
  sheet.showModal();
}

function choice(value, words, why) {
  const [label, box, text, about] = ["label", "input", "span", "span"].map((name) => document.createElement(name));
  Object.assign(box, { type: "radio", name: "shared", value });
  text.textContent = words;
  about.textContent = why;
  about.className = "share-why";
  text.append(about);
  label.className = "share-choice";
  label.append(box, text);
  return label;
}
