import { t } from "./language.js";

let parted = false;

/**
 * This device was let in, and is no more: it was disconnected, its session has expired, or the server has forgotten
 * everybody. The page stays with what was written on it, stops trying, and offers the way back.
 * @param {{socket: import("./socket.js").Socket, status: import("./status.js").ModelStatus}} parts
 * @param {import("./chat.js").Chat} chat @param {import("./reach.js").Reach} reach
 */
export function part({ socket, status }, chat, reach) {
  socket.end();
  if (parted) return;
  parted = true;
  const words = document.createElement("span");
  words.textContent = t("This device is not connected any more: the owner disconnected it, or its time was up. What you have written here is kept.");
  const again = document.createElement("a");
  Object.assign(again, { className: "button", href: "/", textContent: t("Connect again") });
  document.getElementById("connection").replaceChildren(words, again);
  status.blocked = t("Nothing can be sent until this device is connected again.");
  chat.refresh();
  // It may have been connected again in another tab.
  document.addEventListener("visibilitychange", async () => {
    if (!document.hidden && !(await reach.isOut())) location.reload();
  });
}
