import { t } from "./language.js";
import { newId } from "./protocol.js";
import { post } from "./opening.js";
import { fill, judge, read, refuse } from "./settings-fields.js";
import { makeSheet } from "./sheet.js";

/** The sheet of settings: the system text and the sampling params of one chat, presets, and what is this device's. */
class Settings {
  #dialog = makeSheet("settings", t("Settings"));
  #place = this.#dialog.querySelector(".sheet-place");
  #chat = null;
  #edited = false;

  constructor() {
    this.#dialog.addEventListener("close", () => this.#place.replaceChildren());
    this.#place.addEventListener("input", ({ target }) => this.#input(target));
    this.#place.addEventListener("change", ({ target }) => this.#change(target));
    this.#place.addEventListener("click", ({ target }) => this.#click(target.closest("button")));
    this.#place.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#save(false);
    });
    document.addEventListener("ondol-settings", ({ detail }) => this.#elsewhere(detail));
  }

  /**
   * @param {{conversationId: ?string, opening: import("./opening.js").Opening,
   *   begin: (opening: import("./protocol.js").Opening) => Promise<{ok: boolean, error?: string, field?: string}>}} chat
   *   whose settings they are; `begin` takes those of a chat that has not begun
   */
  async open(chat) {
    this.#chat = chat;
    this.#dialog.showModal();
    await this.#load();
  }

  get #form() {
    return this.#place.querySelector("form");
  }

  get #address() {
    const { conversationId } = this.#chat;
    return conversationId ? `/api/conversations/${encodeURIComponent(conversationId)}/settings` : "/api/settings";
  }

  async #load() {
    let html = null;
    try {
      const response = await fetch(this.#address);
      if (response.ok) html = await response.text();
    } catch {
      // Said below: the server could not be reached.
    }
    if (!this.#dialog.open) return;
    if (html === null) return this.#place.replaceChildren(t("The settings could not be read. Is Ondol running?"));
    this.#place.innerHTML = html;
    this.#edited = false;
    if (!this.#chat.conversationId && this.#chat.opening.chosen) fill(this.#form, this.#chat.opening.chosen);
    this.#markPreset();
    this.#markSize();
  }

  #input(target) {
    this.#edited = true;
    if (target.id !== "system-prompt") return;
    this.#markPreset();
    const why = this.#form.querySelector("#prompt-why");
    if (why) why.hidden = target.value === target.defaultValue;
  }

  #change(target) {
    judge(target);
    if (target.id !== "preset") return;
    const option = target.selectedOptions[0];
    const prompt = this.#form.querySelector("#system-prompt");
    if (option.value === "own") return prompt.focus();
    prompt.value = option.dataset.text;
    this.#input(prompt);
    this.#showPreset(option);
  }

  #click(button) {
    if (!button) return;
    const { action, textSize } = button.dataset;
    if (textSize) this.#resize(textSize);
    if (action === "save-default") this.#save(true);
    if (action === "reset") this.#reset();
    if (action === "keep-preset") this.#keepPreset();
    if (action === "delete-preset") this.#deletePreset();
  }

  #reset() {
    const systemPrompt = this.#form.querySelector("#system-prompt").value;
    fill(this.#form, { system_prompt: systemPrompt, params: {}, thinking: null });
    read(this.#form);
    this.#edited = true;
    this.#say(t("These are the model’s own values. Save to keep them."));
  }

  async #save(forNewChats) {
    const chosen = read(this.#form);
    if (!chosen) return this.#say("");
    const saved = await (this.#chat.conversationId ? post(this.#address, chosen) : this.#chat.begin(chosen));
    if (!saved.ok) return this.#refused(saved);
    if (forNewChats) {
      const preset = this.#preset;
      const { params, thinking } = chosen;
      const kept = await post("/api/defaults", { params, thinking, preset_id: preset.value === "own" ? null : preset.value || null });
      if (!kept.ok) return this.#refused(kept);
      this.#edited = false;
      const own = preset.value === "own" ? t("To begin them with this text too, keep it as a preset first.") : "";
      return this.#say(`${t("New chats begin with these values.")} ${own}`);
    }
    this.#dialog.close();
  }

  #refused({ error, field }) {
    if (!field || !refuse(this.#form, field, error)) this.#say(error);
  }

  #say(sentence) {
    this.#form.querySelector(".sheet-note").textContent = sentence;
  }

  // Presets

  get #preset() {
    return this.#form.querySelector("#preset").selectedOptions[0];
  }

  /** The preset whose text stands in the field. */
  #markPreset() {
    const text = this.#form.querySelector("#system-prompt").value;
    const select = this.#form.querySelector("#preset");
    const same = (option) => option.value !== "own" && option.dataset.text === text;
    const option = same(select.selectedOptions[0]) ? select.selectedOptions[0] : [...select.options].find(same);
    select.value = option ? option.value : "own";
    this.#showPreset(select.selectedOptions[0]);
  }

  /** What can be done with it. A text that was changed may take the place of the preset that it was. */
  #showPreset(option) {
    const kept = option.value !== "own" && option.value !== "";
    const fold = this.#form.querySelector(".keep");
    if (kept) {
      fold.dataset.presetId = option.value;
      this.#form.querySelector("#preset-name").value = option.textContent;
      this.#form.querySelector("#preset-shared").checked = option.dataset.shared === "true";
    } else if (option.value === "") {
      delete fold.dataset.presetId;
      this.#form.querySelector("#preset-name").value = "";
    }
    fold.querySelector("summary").textContent = fold.dataset.presetId ? t("Change this preset") : t("Keep as a preset");
    this.#form.querySelector('[data-action="delete-preset"]').hidden = !fold.dataset.presetId;
  }

  async #keepPreset() {
    const name = this.#form.querySelector("#preset-name");
    const text = this.#form.querySelector("#system-prompt").value;
    if (!text.trim()) return this.#presetError(t("Write the system text above first."));
    if (!name.value.trim()) {
      name.focus();
      return this.#presetError(t("A preset needs a name."));
    }
    const id = this.#form.querySelector(".keep").dataset.presetId ?? newId();
    const shared = this.#form.querySelector("#preset-shared").checked;
    const kept = await post(`/api/presets/${encodeURIComponent(id)}`, { name: name.value.trim(), text, shared });
    if (!this.#form) return; // closed meanwhile
    if (!kept.ok) return this.#presetError(kept.error);
    const select = this.#form.querySelector("#preset");
    let option = [...select.options].find((each) => each.value === id);
    if (!option) {
      option = new Option("", id);
      select.options[select.options.length - 1].before(option);
    }
    option.textContent = name.value.trim();
    Object.assign(option.dataset, { text, shared: String(shared) });
    this.#settled(t("Kept. It can be chosen for any chat now."));
  }

  async #deletePreset() {
    const { presetId } = this.#form.querySelector(".keep").dataset;
    const gone = await post(`/api/presets/${encodeURIComponent(presetId)}/delete`, {});
    if (!this.#form) return; // closed meanwhile
    if (!gone.ok) return this.#presetError(gone.error);
    [...this.#form.querySelector("#preset").options].find((each) => each.value === presetId)?.remove();
    delete this.#form.querySelector(".keep").dataset.presetId;
    this.#settled(t("Deleted. Chats that began with it keep its text."));
  }

  #settled(sentence) {
    this.#presetError("");
    this.#form.querySelector(".keep").open = false;
    this.#markPreset();
    this.#say(sentence);
  }

  #presetError(sentence) {
    const place = this.#form.querySelector("#preset-error");
    place.textContent = sentence;
    place.hidden = !sentence;
  }

  // This device

  #resize(size) {
    try {
      localStorage.setItem("ondol.text-size", size);
    } catch {
      // Storage is off: the choice lasts as long as the page.
    }
    document.dispatchEvent(new CustomEvent("ondol-text-size", { detail: size }));
    this.#markSize();
  }

  #markSize() {
    for (const button of this.#form.querySelectorAll("[data-text-size]")) {
      button.setAttribute("aria-pressed", String(button.dataset.textSize === document.documentElement.dataset.textSize));
    }
  }

  /** Another device has changed this chat: shown, unless something is being written here. */
  #elsewhere(conversationId) {
    if (!this.#dialog.open || !this.#form || conversationId !== this.#chat.conversationId) return;
    if (this.#edited) this.#say(t("These settings were changed on another device; Save puts yours in their place."));
    else this.#load();
  }
}

let settings = null;

/** @param {Parameters<Settings["open"]>[0]} chat */
export function openSettings(chat) {
  settings ??= new Settings();
  return settings.open(chat);
}
