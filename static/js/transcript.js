import { addCopyButtons } from "./copy.js";
import { readingPlace } from "./reading-place.js";
import { applyToReply } from "./reply.js";

/** The messages on the page. Inserts server-made HTML and makes none of its own. */
export class Transcript {
  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    addCopyButtons(root);
  }

  /** What a `watch` says about this page: its last stored message and the last event of it that was seen. */
  position() {
    const head = this.head;
    return { head_id: head?.dataset.messageId ?? null, after_seq: Number(head?.dataset.seq ?? 0), running: Boolean(this.running) };
  }

  /** The last message that the server has. @returns {?HTMLElement} */
  get head() {
    let last = this.root.lastElementChild;
    while (last && !last.matches('.message:not([data-status="sending"])')) last = last.previousElementSibling;
    return last;
  }

  /** The reply that is being written at the end, if one is. @returns {?HTMLElement} */
  get running() {
    const { head } = this;
    return isRunning(head) ? head : null;
  }

  /** @param {string} id @returns {?HTMLElement} */
  find(id) {
    // From the end, and not into the messages: what is looked for is nearly always among the last.
    let message = this.root.lastElementChild;
    while (message && message.dataset.messageId !== id) message = message.previousElementSibling;
    return message;
  }

  /** The person's bubble, before the server has answered. @param {string} id the `send`'s @param {string} text */
  addPending(id, text) {
    const bubble = document.getElementById("pending-message").content.firstElementChild.cloneNode(true);
    bubble.dataset.messageId = id;
    const paragraph = document.createElement("p");
    paragraph.textContent = text;
    bubble.querySelector(".body").replaceChildren(paragraph);
    this.root.append(bubble);
  }

  /** @param {string} id */
  removePending(id) {
    const bubble = this.find(id);
    if (bubble?.dataset.status === "sending") bubble.remove();
  }

  /**
   * A reply begins, and what it answers may be new. False when this page does not show where it belongs.
   * @param {import("./protocol.js").AcceptedFrame} frame
   */
  accept(frame) {
    const reply = fragment(frame.reply_html);
    const known = this.find(frame.reply_id);
    const bubble = this.find(frame.ref);
    if (known && Number(known.dataset.seq) >= Number(reply.firstElementChild.dataset.seq)) {
      bubble?.remove();
      return true;
    }
    if (frame.parent_id !== null && !this.find(frame.parent_id)) return false;
    bubble?.remove();
    this.#putAfter(frame.parent_id, ...(frame.user_html ? [fragment(frame.user_html)] : []), reply);
    this.#moveCut(frame.cut_id);
    return true;
  }

  /**
   * Another branch. False when this page does not show where it begins.
   * @param {import("./protocol.js").SwitchedFrame} frame
   */
  switchTo(frame) {
    if (frame.kept_id !== null && !this.find(frame.kept_id)) return false;
    this.#putAfter(frame.kept_id, fragment(frame.html));
    this.#moveCut(frame.cut_id);
    addCopyButtons(this.root);
    return true;
  }

  /** In the place of everything after a message (null: of all messages); what is being sent stays at the end. */
  #putAfter(id, ...parts) {
    const unsent = this.root.querySelectorAll('.message[data-status="sending"]');
    for (const bubble of unsent) bubble.remove();
    const first = id === null ? this.root.querySelector(".earlier, .message, .cut") : this.find(id).nextElementSibling;
    const old = [];
    for (let each = first; each; each = each.nextElementSibling) old.push(each);
    for (const each of old) each.remove();
    this.root.append(...parts, ...unsent);
  }

  /** The last of the person's own messages. @returns {?HTMLElement} */
  get lastOwn() {
    const own = this.root.querySelectorAll('.user:not([data-status="sending"])');
    return own[own.length - 1] ?? null;
  }

  /** The id of the message that comes before one. @param {HTMLElement} message @returns {?string} */
  before(message) {
    let each = message.previousElementSibling;
    while (each && !each.matches(".message, .earlier")) each = each.previousElementSibling;
    return each?.dataset.messageId ?? each?.dataset.lastId ?? null;
  }

  /** An event of a running reply. False when no such reply is running here. */
  apply(frame) {
    const element = this.find(frame.message_id);
    if (!isRunning(element)) return false;
    if (frame.type !== "finished") {
      applyToReply(element, frame);
      return true;
    }
    const hadFocus = element.contains(document.activeElement);
    const wasOpen = element.querySelector(".reasoning")?.open;
    const restore = readingPlace(element);
    element.replaceWith(fragment(frame.html));
    const finished = this.find(frame.message_id);
    restore(finished);
    finished.querySelector(".reasoning")?.toggleAttribute("open", wasOpen);
    if (hadFocus) finished.querySelector("summary, button").focus({ preventScroll: true });
    addCopyButtons(finished);
    return true;
  }

  /** @param {string} html the whole transcript */
  replace(html) {
    const unanswered = this.root.querySelectorAll('.message[data-status="sending"]');
    this.root.innerHTML = html;
    this.root.append(...unanswered);
    addCopyButtons(this.root);
  }

  /** @param {string} html the system text; empty where there is none */
  showSystem(html) {
    const shown = this.root.querySelector(":scope > .system");
    const wasOpen = shown?.open ?? false;
    shown?.remove();
    this.root.insertAdjacentHTML("afterbegin", html);
    this.root.querySelector(":scope > .system")?.toggleAttribute("open", wasOpen);
  }

  #moveCut(cutId) {
    this.root.querySelector(".cut")?.remove();
    const first = cutId && this.find(cutId);
    if (first) first.before(document.getElementById("cut-line").content.cloneNode(true));
  }
}

/** @param {?HTMLElement} element */
function isRunning(element) {
  return element?.matches('.reply:is([data-status="pending"], [data-status="running"])') ?? false;
}

function fragment(html) {
  const holder = document.createElement("template");
  holder.innerHTML = html;
  return holder.content;
}
