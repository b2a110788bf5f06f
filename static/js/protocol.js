/**
 * The frames of `/ws` as this page sees them. `web/protocol.py` is the original.
 *
 * @typedef {{window: number, system: number, pinned: number, history: number, draft: number, reserve: number,
 *   warm: number, left_out: number, excess: number}} ContextView
 * @typedef {{system_prompt: string, params: Record<string, number | string[]>, thinking: ?boolean}} Opening
 * @typedef {{type: "send", id: string, text: string, conversation_id: ?string, parent_id: ?string,
 *   opening: ?Opening}} SendFrame
 * @typedef {{type: "edit", id: string, text: string, conversation_id: string, message_id: string}} EditFrame
 * @typedef {{type: "regenerate" | "continue" | "switch" | "delete_branch" | "restore_branch", id: string,
 *   conversation_id: string, message_id: string, repeat?: boolean, params?: object}} BranchFrame
 * @typedef {SendFrame | EditFrame | BranchFrame} CommandFrame
 * @typedef {{type: "accepted", ref: string, conversation_id: string, parent_id: ?string, user_id: string,
 *   reply_id: string, user_html: ?string, reply_html: string, cut_id: ?string}} AcceptedFrame
 * @typedef {{type: "switched", ref: string, conversation_id: string, kept_id: ?string, html: string,
 *   cut_id: ?string, context: ?ContextView}} SwitchedFrame
 * @typedef {{type: "queued", message_id: string, seq: number, position: number, eta_s: ?number, loading: boolean}} QueuedFrame
 * @typedef {{type: "prefill", message_id: string, seq: number, done: number, total: number, cached: number}} PrefillFrame
 * @typedef {{type: "delta", message_id: string, seq: number, blocks?: string[], tail?: string, code?: string,
 *   reasoning?: string, thought_s?: ?number}} DeltaFrame
 * @typedef {{type: "status", phase: string, message: string, done: number, total: number, model: string,
 *   size: string, detail: string, can_send: boolean, unsaved: string}} StatusFrame
 * @typedef {{type: "error", code: string, message: string, ref: ?string, needed: ?number, limit: ?number, waiting: ?number}} ErrorFrame
 */

export const MAX_FRAME_BYTES = 65_536;
export const MAX_TEXT_BYTES = 1_048_576;

/** A fresh command id. `crypto.randomUUID` is missing over plain HTTP, which is how a house reaches its server. */
export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

const encoder = new TextEncoder();

/** How many bytes a frame has on the wire. */
export function frameBytes(frame) {
  return encoder.encode(JSON.stringify(frame)).length;
}

/** How many bytes a text has. @param {string} text */
export function textBytes(text) {
  return encoder.encode(text).length;
}

/** Half of a surrogate pair can be neither tokenized nor stored; pasted text may end in one. */
export function wholeCharacters(text) {
  return text.replace(/[\0\uD800-\uDFFF]/gu, "\uFFFD"); // the u flag spares whole pairs
}
