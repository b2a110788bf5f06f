import { listenForActions, sayBelow } from "./actions.js";
import { Chat } from "./chat.js";
import { startChrome } from "./chrome.js";
import { Composer } from "./composer.js";
import { ContextBar } from "./context-bar.js";
import { ConversationList } from "./conversation-list.js";
import { listenForCopying } from "./copy.js";
import { Editing } from "./editing.js";
import { Follow } from "./follow.js";
import { startLanguages, t } from "./language.js";
import { Opening } from "./opening.js";
import { listenForPinning, showPinned } from "./pins.js";
import { PresetRow } from "./presets.js";
import { fetchPart } from "./parts.js";
import { newId } from "./protocol.js";
import { Reach } from "./reach.js";
import { takeSecret } from "./secret.js";
import { startShortcuts } from "./shortcuts.js";
import { Socket } from "./socket.js";
import { ModelStatus } from "./status.js";
import { Toast } from "./toast.js";
import { Transcript } from "./transcript.js";

/** The only place that constructs things. */

const byId = (id) => document.getElementById(id);

const toast = new Toast(byId("toast"));
const { at } = byId("app").dataset; // a search has led to it
let elsewhere = "elsewhere" in byId("app").dataset; // in another branch
let deleted = false; // the conversation, as was told last

const parts = {
  transcript: new Transcript(byId("transcript")),
  context: new ContextBar(byId("context")),
  status: new ModelStatus(byId("progress"), () => parts.socket.send({ type: "retry_model", id: newId() })),
  composer: new Composer(byId("composer"), {
    send: (text) => chat.send(text),
    stop: () => chat.stop(),
    changed: () => chat.draftChanged(),
    editLast,
  }),
  editor: new Editing({
    send: (message, text) => chat.sendEdit(message, text),
    changed: () => chat.draftChanged(),
    closed: () => chat.draftChanged(),
    find: (id) => parts.transcript.find(id),
  }),
  toast,
  list: new ConversationList(byId("conversations"), toast, () => chat.conversationId, showTitle),
  follow: new Follow(byId("scroller"), byId("transcript"), byId("jump")),
  opening: new Opening(byId("app").dataset.opening ?? null),
  announce: (text) => (byId("announcer").textContent = text),
  socket: null,
};

const reach = new Reach(byId("connection"), () => parts.socket.isOpen);
const chat = new Chat(byId("app").dataset.conversationId || null, parts);

parts.socket = new Socket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`, {
  opened() {
    reach.opened();
    if (elsewhere) parts.socket.send({ type: "switch", id: newId(), conversation_id: chat.conversationId, message_id: at });
    elsewhere = false;
    if (deleted) parts.composer.say(""); // unless it still is, which is told anew
    chat.opened();
  },
  received(frame) {
    if (frame.unsaved || (frame.type === "status" && byId("unsaved")))
      fetchPart("./unsaved.js", "unsaved").then(({ showUnsaved }) => showUnsaved(frame.unsaved));
    if (frame.type === "presets") return presets.replace(frame.html);
    if (frame.type === "settings") return settingsChanged(frame);
    if (frame.type === "pinned") {
      showPinned(parts.transcript.find(frame.message_id), frame.pinned);
      return chat.contextChanged(frame.context);
    }
    if (frame.type === "right") return fetchPart("./right.js", "right").then(({ rightChanged }) => rightChanged(frame, chat, parts.transcript));
    if (frame.type === "conversation_deleted") {
      deleted = frame.deleted;
      return fetchPart("./row-menu.js").then(({ wasDeleted }) => wasDeleted(frame, parts));
    }
    if (frame.type !== "device_connected") return chat.received(frame);
    document.dispatchEvent(new CustomEvent("ondol-device-connected", { detail: frame.name }));
  },
  async lost(failures) {
    reach.lost(failures);
    if (await reach.isOut()) (await fetchPart("./parted.js")).part(parts, chat, reach);
  },
});

const presets = new PresetRow(byId("presets"), parts.opening, (answer) => {
  parts.transcript.showSystem(answer.system_html);
  chat.contextChanged(answer.context);
});

/** @param {{conversation_id: string, system_html: string, context: ?object}} frame */
function settingsChanged(frame) {
  if (frame.conversation_id !== chat.conversationId) return;
  parts.transcript.showSystem(frame.system_html);
  chat.contextChanged(frame.context);
  document.dispatchEvent(new CustomEvent("ondol-settings", { detail: frame.conversation_id }));
}

async function openSettings() {
  const sheet = await fetchPart("./settings.js", "sheet", "settings");
  sheet.openSettings({
    conversationId: chat.conversationId,
    opening: parts.opening,
    begin: (opening) => presets.apply(opening),
  });
}

async function openHelp() {
  const sheet = await fetchPart("./help.js", "sheet", "settings");
  sheet.openHelp();
}

/** @param {HTMLElement} reply */
async function openRecord(reply) {
  const sheet = await fetchPart("./record.js", "sheet", "settings", "record");
  sheet.openRecord(reply, (message, how) => chat.act("regenerate", message, message.dataset.messageId, how));
}

addEventListener("click", ({ target }) => {
  const asked = target.closest('[data-action="record"]');
  if (asked) openRecord(asked.closest(".message"));
  if (target.closest('[data-action="open-settings"]')) openSettings();
  if (target.closest('[data-action="open-help"]')) openHelp();
});

document.querySelector('[data-action="connect-device"]')?.addEventListener("click", async () => {
  const { openDevices } = await fetchPart("./devices.js", "sheet", "devices");
  openDevices();
});

/** A link for connecting was opened in a browser that is let in: only the owner's makes a difference. */
async function enter() {
  const secret = takeSecret();
  if (!secret?.owner || !("guest" in byId("app").dataset)) return;
  const { join } = await fetchPart("./joining.js");
  if (!(await join(secret))) location.replace("/");
}
addEventListener("hashchange", enter);
enter();

listenForCopying(byId("transcript"));
once(".reply", async () => (await fetchPart("./scrollable.js")).watchScrollable(byId("transcript")));
once(".earlier", async () => new (await fetchPart("./earlier.js")).Earlier(byId("transcript"))); // in long conversations
listenForActions(byId("transcript"), { edit, act: (type, message, id) => chat.act(type, message, id) });
listenForPinning(byId("transcript"));
const chrome = startChrome();
startLanguages();
const pressLast = (selector) => [...document.querySelectorAll(`#transcript ${selector}`)].at(-1)?.click();
startShortcuts({
  newChat: () => location.assign("/"),
  write: () => parts.composer.focus(),
  stop: () => chat.stop(),
  copyLast: () => pressLast('.reply:not([aria-busy]) [data-action="copy-message"]'),
  editLast,
  list: () => chrome.focusList(),
  sidebar: () => chrome.toggleSidebar(),
  settings: openSettings,
  help: openHelp,
});

for (const example of document.querySelectorAll('[data-action="example"]')) {
  example.addEventListener("click", () => {
    parts.composer.text = [parts.composer.text, example.textContent.trim()].filter(Boolean).join("\n");
    parts.composer.focus();
    chat.draftChanged();
  });
}

function editLast() {
  const last = parts.transcript.lastOwn;
  if (last && !parts.transcript.running) edit(last);
}

/** @param {HTMLElement} message */
function edit(message) {
  parts.editor.open(message).catch(() => sayBelow(message, t("The server could not be reached: what this says could not be fetched.")));
}

if (at) fetchPart("./jump.js").then(({ jump }) => jump(at));
const startFinder = async () => (await fetchPart("./finder.js")).startFinder(byId("finder"), byId("conversations"), parts.announce);
byId("finder").addEventListener("focusin", startFinder, { once: true });
if (history.state?.deleted) fetchPart("./row-menu.js").then(({ offerUndo }) => offerUndo(toast));

/**
 * As soon as the transcript has one, with the page or later. @param {string} selector of its children
 * @param {() => void} begin
 */
function once(selector, begin) {
  const transcript = byId("transcript");
  const isThere = () => transcript.querySelector(`:scope > ${selector}`) !== null;
  if (isThere()) return begin();
  new MutationObserver((_, observer) => {
    if (!isThere()) return;
    observer.disconnect();
    begin();
  }).observe(transcript, { childList: true });
}

/** @param {string} title */
function showTitle(title) {
  byId("title").textContent = title;
  document.title = `${title} · Ondol`;
}
