import { t } from "./language.js";
import { DeviceList } from "./device-list.js";
import { makeSheet } from "./sheet.js";

/** The owner's sheet for connecting a device: the addresses, a code with its remaining time, and who is connected. */
class Devices {
  #dialog = makeSheet("devices", t("Connect a device"));
  #inside = this.#dialog.querySelector(".sheet-place");
  #timer = 0;
  #list = null;

  constructor() {
    this.#dialog.classList.add("devices");
    this.#inside.className = "invitation-place";
    this.#dialog.addEventListener("click", ({ target }) => target.closest('[data-action="new-code"]') && this.#renew(this.#whose()));
    this.#inside.addEventListener("change", ({ target }) => this.#changed(target));
    this.#inside.addEventListener("submit", (event) => event.preventDefault());
    this.#dialog.addEventListener("close", () => {
      clearInterval(this.#timer);
      this.#inside.replaceChildren();
      this.#list = null;
    });
    document.addEventListener("ondol-device-connected", ({ detail }) => {
      this.#over(t("Connected: {name}.", { name: detail }));
      this.#list?.refresh();
    });
  }

  open() {
    this.#dialog.showModal();
    this.#renew();
  }

  /** For whom the next code is to be. */
  #whose() {
    const who = this.#inside.querySelector("#whose")?.value;
    return { person_id: who || null, name: who ? "" : (this.#inside.querySelector("#new-name")?.value ?? "") };
  }

  /** A code is for one person's device: for another's there is another code. */
  async #changed(target) {
    if (target.id !== "whose" && target.id !== "new-name") return;
    await this.#renew(this.#whose());
    const next = target.id === "whose" && !target.value ? "new-name" : target.id;
    this.#inside.querySelector(`#${next}`)?.focus();
  }

  async #renew(whose = {}) {
    clearInterval(this.#timer);
    let html = null;
    try {
      const response = await fetch("/api/pairing-code", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(whose) });
      if (response.ok) html = await response.text();
    } catch {
      // Said below: the server could not be reached.
    }
    if (!this.#dialog.open) return;
    if (html === null) return this.#inside.replaceChildren(t("A code could not be made. Is Ondol running?"));
    this.#inside.innerHTML = html;
    this.#list = new DeviceList(this.#inside.querySelector(".device-place"));
    this.#countDown();
  }

  #countDown() {
    const invitation = this.#inside.querySelector(".invitation");
    const words = invitation.querySelector(".invitation-words");
    if (!invitation.querySelector(".invitation-code")) return;
    const end = performance.now() + 1_000 * Number(invitation.dataset.lifeS);
    const show = () => {
      const left = Math.ceil((end - performance.now()) / 1_000);
      if (left <= 0) return this.#over(t("This code has expired."));
      const time = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`;
      words.textContent = t("For one device; good for {time}.", { time });
    };
    // Read aloud once, not every second.
    words.setAttribute("aria-live", "off");
    this.#timer = setInterval(show, 1_000);
    show();
  }

  #over(text) {
    clearInterval(this.#timer);
    const invitation = this.#inside.querySelector(".invitation");
    if (!invitation) return;
    invitation.classList.add("over");
    const words = invitation.querySelector(".invitation-words");
    words.setAttribute("aria-live", "polite");
    words.textContent = text;
  }
}

let devices = null;

export function openDevices() {
  devices ??= new Devices();
  devices.open();
}
