import { onEnter } from "./ime.js";
import { t } from "./language.js";

/** The owner's list of people and their devices: renaming one in its place, and disconnecting one after a question. */
export class DeviceList {
  #place;

  /** @param {HTMLElement} place which holds the list */
  constructor(place) {
    this.#place = place;
    place.addEventListener("click", ({ target }) => {
      const button = target.closest("[data-action]");
      const row = button?.closest(".device");
      const person = button?.closest(".person");
      if (button?.dataset.action === "rename-device") this.#rename(row, row.querySelector(".device-title"), `/api/devices/${encodeURIComponent(row.dataset.deviceId)}/rename`);
      if (button?.dataset.action === "rename-person") this.#rename(person, person.querySelector(".person-title"), `/api/people/${encodeURIComponent(person.dataset.personId)}/rename`);
      if (button?.dataset.action === "remove-password") this.#change(person, `/api/people/${encodeURIComponent(person.dataset.personId)}/remove-password`, {});
      if (button?.dataset.action === "disconnect-device") this.#ask(row);
    });
  }

  /** What may have changed: a device was connected meanwhile. Not while something in it is under way. */
  async refresh() {
    if (!this.#place.querySelector("form, .device-question")) await this.#change(null, "/api/devices");
  }

  /** @param {HTMLElement} row a device's or a person's @param {HTMLElement} title which has the name in it */
  #rename(row, title, url) {
    const name = title.querySelector(".device-name, .person-name");
    const form = document.createElement("form");
    const field = document.createElement("input");
    Object.assign(field, { className: "rename-field", maxLength: 80, autocomplete: "off", value: name.textContent });
    field.setAttribute("aria-label", t("New name"));
    form.append(field);
    let open = true;
    const finish = async (save) => {
      if (!open) return;
      open = false;
      const given = field.value.trim();
      form.remove();
      title.hidden = false;
      if (save && given && given !== name.textContent) await this.#change(row, url, { name: given });
      this.#focus(row);
    };
    title.hidden = true;
    title.before(form);
    field.select();
    form.addEventListener("submit", (event) => event.preventDefault());
    onEnter(field, () => finish(true));
    onEscape(field, () => finish(false));
    field.addEventListener("blur", () => finish(true));
  }

  #ask(row) {
    if (row.querySelector(".device-question")) return;
    const question = document.createElement("div");
    const words = document.createElement("p");
    const [no, yes] = ["button", "button primary"].map((className) => Object.assign(document.createElement("button"), { type: "button", className }));
    const own = row.querySelector('[data-action="disconnect-device"]');
    question.className = "device-question";
    question.setAttribute("role", "group");
    words.id = `ask-${row.dataset.deviceId}`;
    question.setAttribute("aria-labelledby", words.id);
    words.textContent = t("Disconnect {name}? All its tabs close, and it needs a new code to come back.", { name: row.querySelector(".device-name").textContent });
    no.textContent = t("Cancel");
    yes.textContent = t("Disconnect");
    question.append(words, no, yes);
    const away = () => {
      question.remove();
      own.hidden = false;
      own.focus();
    };
    no.addEventListener("click", away);
    onEscape(question, away);
    yes.addEventListener("click", async () => {
      yes.disabled = true;
      if (!(await this.#change(row, `${address(row)}/disconnect`, {}))) return away();
      this.#place.querySelector("[data-action]").focus();
    });
    own.hidden = true;
    row.append(question);
    no.focus();
  }

  /** Shows the list that the server answers with. Where it fails, says so under the row. */
  async #change(row, url, body) {
    row?.querySelector(".row-failed")?.remove();
    let failed = t("The server could not be reached.");
    try {
      const answer = await fetch(url, body && { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
      if (answer.ok) {
        this.#place.innerHTML = await answer.text();
        return true;
      }
      if (body) failed = (await answer.json()).error;
    } catch {
      // Said below.
    }
    if (!row) return false;
    const words = document.createElement("p");
    words.className = "row-failed";
    words.setAttribute("role", "alert");
    words.textContent = failed;
    row.append(words);
    return false;
  }

  /** The list may be another by now. */
  #focus({ dataset: { deviceId, personId } }) {
    const row = deviceId ? `[data-device-id="${CSS.escape(deviceId)}"]` : `[data-person-id="${CSS.escape(personId)}"]`;
    this.#place.querySelector(`${row} [data-action^="rename-"]`)?.focus();
  }
}

/** Escape that is meant for a part of the sheet does not close all of it. */
function onEscape(element, act) {
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.isComposing) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  });
}

const address = (row) => `/api/devices/${encodeURIComponent(row.dataset.deviceId)}`;
