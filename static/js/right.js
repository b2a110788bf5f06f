/**
 * What this person may do with the conversation changed while it is shown.
 * @param {{conversation_id: string, right: string, html: string}} frame
 * @param {import("./chat.js").Chat} chat
 * @param {import("./transcript.js").Transcript} transcript
 */
export function rightChanged({ conversation_id, right, html }, chat, transcript) {
  if (conversation_id !== chat.conversationId) return;
  const app = document.getElementById("app");
  document.querySelector(".right-line")?.remove();
  document.querySelector(".chat-head").insertAdjacentHTML("afterend", html);
  if (right === "own") delete app.dataset.right;
  else app.dataset.right = right;
  if (right === "none") transcript.root.replaceChildren();
}
