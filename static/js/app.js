import { Chat } from "./chat.js";
import { startChrome } from "./chrome.js";
import { Composer } from "./composer.js";
import { ContextBar } from "./context-bar.js";
import { ConversationList } from "./conversation-list.js";
import { listenForCopying } from "./copy.js";
import { Follow } from "./follow.js";
import { join, takeSecret } from "./joining.js";
import { newId } from "./protocol.js";
import { Reach } from "./reach.js";
import { watchScrollable } from "./scrollable.js";
import { Socket } from "./socket.js";
import { ModelStatus } from "./status.js";
import { Transcript } from "./transcript.js";

/** The only place that constructs things. */

const byId = (id) => document.getElementById(id);

const parts = {
  transcript: new Transcript(byId("transcript")),
  context: new ContextBar(byId("context")),
  status: new ModelStatus(byId("progress"), () => parts.socket.send({ type: "retry_model", id: newId() })),
  composer: new Composer(byId("composer"), {
    send: (text) => chat.send(text),
    stop: () => chat.stop(),
    changed: () => chat.draftChanged(),
  }),
  list: new ConversationList(byId("conversations"), () => chat.conversationId, showTitle),
  follow: new Follow(byId("scroller"), byId("transcript"), byId("jump")),
  announce: (text) => (byId("announcer").textContent = text),
  socket: null,
};

const reach = new Reach(byId("connection"), () => parts.socket.isOpen);
const chat = new Chat(byId("app").dataset.conversationId || null, parts);

parts.socket = new Socket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`, {
  opened() {
    reach.opened();
    chat.opened();
  },
  received(frame) {
    if (frame.type !== "device_connected") return chat.received(frame);
    document.dispatchEvent(new CustomEvent("ondol-device-connected", { detail: frame.name }));
  },
  lost: (failures) => reach.lost(failures),
});

document.querySelector('[data-action="connect-device"]')?.addEventListener("click", async () => {
  const { openDevices } = await import("./devices.js");
  openDevices(byId("devices"));
});

/** A link for connecting was opened in a browser that is let in: only the owner's makes a difference. */
async function enter() {
  const secret = takeSecret();
  if (secret?.owner && "guest" in byId("app").dataset && !(await join(secret))) location.replace("/");
}
addEventListener("hashchange", enter);
enter();

listenForCopying(byId("transcript"));
watchScrollable(byId("transcript"));
startChrome();

for (const example of document.querySelectorAll('[data-action="example"]')) {
  example.addEventListener("click", () => {
    parts.composer.text = [parts.composer.text, example.textContent.trim()].filter(Boolean).join("\n");
    parts.composer.focus();
    chat.draftChanged();
  });
}

/** @param {string} title */
function showTitle(title) {
  byId("title").textContent = title;
  document.title = `${title} · Ondol`;
}
