import { count, msgid, plural, t } from "./language.js";

/** The page to export and import on: sends a file, and tells how its import goes. */

const LOOK_MS = 300;
const SHOWN = 500;
const MIB = 1_048_576;
const OUTCOMES = {
  imported: msgid("imported"),
  updated: msgid("brought up to date"),
  "already here": msgid("already here"),
  refused: msgid("refused"),
};

const byId = (id) => document.getElementById(id);
const page = byId("transfer");
const maxBytes = Number(page.dataset.maxBytes);

/** @typedef {{number: number, title: string, outcome: string, why: ?string, conversation_id: ?string}} Item */
/** @typedef {{id: string, state: string, done: number, total: ?number, why: ?string, items: Item[]}} Job */

/** What is shown of one import. */
class Import {
  #id;
  #seen = 0;
  #shown = 0;
  #refusals = 0;
  #counts = {};

  constructor() {
    byId("note").hidden = true;
    byId("import").hidden = false;
    byId("import-items").replaceChildren();
    byId("import-result").textContent = "";
  }

  /** @param {File} file */
  async send(file) {
    busy(true);
    const answer = await upload(file, (sent) => this.#progress(
      t("Sending {done} of {total} MiB", { done: count(Math.round(sent / MIB)), total: count(Math.ceil(file.size / MIB)) }), sent, file.size,
    ));
    if (answer.error) return this.#refused(answer.error);
    await this.follow(answer.job.id);
  }

  /** @param {string} id */
  async follow(id) {
    this.#id = id;
    busy(true);
    byId("cancel").hidden = false;
    for (;;) {
      const job = await this.#look();
      if (job) {
        this.#take(job);
        if (job.state !== "running" && this.#seen === job.done) return this.#end(job);
        if (job.items.length) continue;
      }
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  }

  cancel() {
    fetch(`/api/import/${this.#id}/cancel`, { method: "POST" }).catch(() => {});
  }

  /** How it goes; null while the server cannot be reached. @returns {Promise<?Job>} */
  async #look() {
    try {
      const response = await fetch(`/api/import/${this.#id}?after=${this.#seen}`);
      if (response.status === 404) return { state: "failed", done: this.#seen, total: null, items: [], why: t("Ondol was started anew meanwhile; what had been taken by then is kept.") };
      return response.ok ? await response.json() : null;
    } catch {
      return null;
    }
  }

  /** @param {Job} job */
  #take(job) {
    for (const item of job.items) {
      this.#counts[item.outcome] = (this.#counts[item.outcome] ?? 0) + 1;
      this.#show(item);
    }
    this.#seen += job.items.length;
    if (job.total === null) return this.#progress(t("Looking through the file"), 0, 1);
    const done = Math.min(this.#seen, job.total);
    this.#progress(t("{done} of {total}", { done: count(done), total: count(job.total) }), done, job.total);
  }

  /** Refused ones stand first, and none of those is left out for others. @param {Item} item */
  #show(item) {
    const refused = item.outcome === "refused";
    if ((refused ? this.#refusals : this.#shown) >= SHOWN) return;
    const row = byId("item").content.firstElementChild.cloneNode(true);
    row.classList.toggle("refused", refused);
    row.querySelector(".import-outcome").textContent = t(OUTCOMES[item.outcome]);
    const title = row.querySelector(".import-title");
    const name = item.title || t("No. {n} in the file", { n: count(item.number) });
    title.title = name;
    if (item.conversation_id) title.append(Object.assign(document.createElement("a"), { href: `/c/${item.conversation_id}`, textContent: name }));
    else title.textContent = name;
    row.querySelector(".import-why").textContent = item.why ?? "";
    if (refused) byId("import-items").insertBefore(row, byId("import-items").children[this.#refusals++] ?? null);
    else {
      byId("import-items").append(row);
      this.#shown += 1;
    }
  }

  /** @param {string} words @param {number} done @param {number} total */
  #progress(words, done, total) {
    const part = total ? (100 * done) / total : 100;
    byId("import-words").textContent = words;
    byId("import-bar").querySelector(".warm").setAttribute("width", `${part.toFixed(1)}%`);
    byId("import-bar").setAttribute("aria-valuenow", String(Math.round(part)));
  }

  /** @param {Job} job */
  #end(job) {
    busy(false);
    byId("cancel").hidden = true;
    const found = Object.keys(OUTCOMES).filter((outcome) => this.#counts[outcome]);
    const counts = found.map((outcome) => `${count(this.#counts[outcome])} ${t(OUTCOMES[outcome])}`).join(" · ");
    const left = this.#seen - this.#shown - this.#refusals;
    const more = left ? plural("{n} more is not listed.", "{n} more are not listed.", left) : "";
    const how = { cancelled: t("Cancelled: what had been taken by then is kept."), failed: job.why ?? "" }[job.state] ?? "";
    byId("import-result").textContent = [how, counts, more].filter(Boolean).join(" ");
    if (job.state === "failed" && !this.#seen) byId("import-words").textContent = "";
  }

  /** @param {string} error */
  #refused(error) {
    busy(false);
    byId("import").hidden = true;
    say(error);
  }
}

let current = null;

/** @param {string} words */
function say(words) {
  byId("note").textContent = words;
  byId("note").hidden = false;
}

/** @param {boolean} is */
function busy(is) {
  byId("drop").classList.toggle("busy", is);
  byId("file").disabled = is;
}

/** @param {?File} file */
function take(file) {
  if (!file || byId("file").disabled) return;
  if (file.size > maxBytes) {
    return say(t("The file has {size} MiB; {limit} MiB are taken at once.", { size: count(Math.ceil(file.size / MIB)), limit: count(maxBytes / MIB) }));
  }
  current = new Import();
  current.send(file);
}

/**
 * With XMLHttpRequest, which tells how much was sent.
 * @param {File} file @param {(sent: number) => void} progress @returns {Promise<{job?: Job, error?: string}>}
 */
function upload(file, progress) {
  return new Promise((resolve) => {
    const request = new XMLHttpRequest();
    request.open("POST", "/api/import");
    request.responseType = "json";
    request.upload.addEventListener("progress", ({ loaded }) => progress(loaded));
    request.addEventListener("load", () => {
      if (request.status === 202) return resolve({ job: request.response });
      resolve({ error: request.response?.error ?? t("The file was not taken.") });
    });
    request.addEventListener("error", () => resolve({ error: t("Ondol could not be reached, or broke off. Nothing was imported.") }));
    request.send(file);
  });
}

byId("cancel").addEventListener("click", () => current?.cancel());
byId("file").addEventListener("change", ({ target }) => {
  take(target.files[0]);
  target.value = "";
});
for (const type of ["dragenter", "dragover", "dragleave", "drop"]) {
  addEventListener(type, (event) => {
    event.preventDefault();
    byId("drop").classList.toggle("over", type === "dragenter" || type === "dragover");
    if (type === "drop") take(event.dataTransfer.files[0]);
  });
}
if (page.dataset.jobId) {
  current = new Import();
  current.follow(page.dataset.jobId);
}
