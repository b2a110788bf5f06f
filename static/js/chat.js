import { Batch } from "./batch.js";
import { messageText } from "./copy.js";
import { Counter } from "./counter.js";
import { loadDraft, saveDraft } from "./drafts.js";
import { Outbox } from "./outbox.js";
import { MAX_FRAME_BYTES, frameBytes, newId, wholeCharacters } from "./protocol.js";
import { count } from "./words.js";

// A UTF-16 unit takes at most six bytes as JSON.
const SURELY_FITS = 10_000;

/**
 * One conversation on the page and its line to the server: what is sent, what is answered, and what each frame
 * changes. The parts that it moves are handed in by app.js.
 */
export class Chat {
  #parts;
  #outbox = new Outbox();
  #batch = new Batch((frame) => this.#replyEvent(frame));
  #counter = new Counter((id) => this.#count(id));
  #stopping = null;
  #phase = "";
  #tooLong = "";
  #unsent = false; // the outbox waits for a server that would accept it

  /**
   * @param {?string} conversationId
   * @param {{transcript: import("./transcript.js").Transcript, composer: import("./composer.js").Composer,
   *   context: import("./context-bar.js").ContextBar, status: import("./status.js").ModelStatus,
   *   list: import("./conversation-list.js").ConversationList, follow: import("./follow.js").Follow,
   *   opening: import("./opening.js").Opening, socket: import("./socket.js").Socket, announce: (text: string) => void}} parts
   */
  constructor(conversationId, parts) {
    this.conversationId = conversationId;
    this.#parts = parts;
    const draft = loadDraft(conversationId);
    const unanswered = this.#outboxIsHere() ? this.#outbox.frame : null;
    if (unanswered) parts.transcript.addPending(unanswered.id, unanswered.text);
    parts.composer.text = unanswered && draft.startsWith(unanswered.text) ? draft.slice(unanswered.text.length).trimStart() : draft;
    this.#checkLength(parts.composer.text);
    this.refresh();
  }

  /** The socket is open, for the first time or again. */
  opened() {
    this.#batch.flush();
    this.#unsent = this.#outbox.frame !== null;
    this.#watch();
    if (this.#stopping) this.#sendStop();
    this.#counter.forget();
    if (this.#parts.composer.text) this.#counter.ask();
  }

  /** @param {string} text */
  send(text) {
    const { transcript, composer, follow, socket } = this.#parts;
    this.#checkLength(text);
    if (this.#tooLong) return this.refresh();
    const frame = this.#aboutText("send", newId(), text);
    this.#outbox.put(frame);
    transcript.addPending(frame.id, frame.text);
    composer.text = "";
    this.#counter.forget();
    follow.toEnd();
    composer.say(socket.send(frame) ? "" : "Not connected just now. Your message goes out as soon as the connection is back.");
    this.refresh();
  }

  stop() {
    const reply = this.#parts.transcript.running;
    if (!reply || this.#stopping === reply.dataset.messageId) return;
    this.#stopping = reply.dataset.messageId;
    this.#sendStop();
    this.refresh();
  }

  /** The draft has changed. */
  draftChanged() {
    const { composer } = this.#parts;
    const unanswered = this.#outboxIsHere() ? this.#outbox.frame.text : "";
    saveDraft(this.conversationId, [unanswered, composer.text].filter(Boolean).join("\n\n"));
    this.#checkLength(composer.text);
    this.#counter.ask();
    this.refresh();
  }

  /** What the model would read has changed for another reason than a message. @param {?import("./protocol.js").ContextView} context */
  contextChanged(context) {
    this.#parts.context.show(context);
    if (this.#parts.composer.text) this.#counter.ask();
    this.refresh();
  }

  /** @param {{type: string}} frame from the server */
  received(frame) {
    if (["queued", "prefill", "delta", "finished"].includes(frame.type)) return this.#batch.push(frame);
    this.#batch.flush();
    const { context, list } = this.#parts;
    if (frame.type === "accepted") this.#accepted(frame);
    else if (frame.type === "snapshot") this.#snapshot(frame);
    else if (frame.type === "counted" && this.#counter.answered(frame.ref)) context.show(frame.context);
    else if (frame.type === "status") this.#status(frame);
    else if (frame.type === "conversations") list.replace(frame.html);
    else if (frame.type === "error") this.#failed(frame);
    this.refresh();
  }

  /** Brings the buttons and hints in line with everything else. */
  refresh() {
    const { transcript, composer, context, status } = this.#parts;
    const running = transcript.running;
    if (this.#stopping && this.#stopping !== running?.dataset.messageId) this.#stopping = null;
    const excess = (context.context?.excess ?? 0) > 0;
    composer.update({
      running: Boolean(running),
      stopping: Boolean(this.#stopping),
      busy: Boolean(this.#outbox.frame),
      blocked: status.blocked || this.#tooLong || (excess ? "excess" : ""),
      hint: status.blocked || this.#tooLong,
    });
  }

  #accepted(frame) {
    const { transcript, composer, context, follow, list, opening } = this.#parts;
    const sent = this.#outbox.take(frame.ref);
    if (sent) {
      saveDraft(sent.conversation_id, sent.conversation_id === this.conversationId ? composer.text : "");
      composer.say("");
    }
    const isNew = sent !== null && sent.conversation_id === null && this.conversationId === null;
    if (isNew) {
      this.conversationId = frame.conversation_id;
      opening.choose(null);
      saveDraft(null, "");
      saveDraft(this.conversationId, composer.text);
      history.replaceState(null, "", `/c/${encodeURIComponent(this.conversationId)}`);
      list.markCurrent();
    }
    if (frame.conversation_id !== this.conversationId) return;
    transcript.accept(frame);
    if (isNew) this.#watch();
    if (!sent) return;
    context.draftSent();
    follow.toEnd();
  }

  /** Every connection begins with a status; a server that has just started takes no messages yet. */
  #status(frame) {
    const { status, socket } = this.#parts;
    const changed = this.#phase !== frame.phase;
    this.#phase = frame.phase;
    status.show(frame);
    if (status.blocked) return;
    if (this.#unsent) socket.send(this.#outbox.frame);
    this.#unsent = false;
    // The tokenizer is there now, or the weights are and the system prompt is warm.
    if (changed) this.#counter.ask();
  }

  #snapshot(frame) {
    if (frame.conversation_id !== this.conversationId) return;
    this.#parts.transcript.replace(frame.html);
    this.#parts.context.show(frame.context);
    if (this.#parts.composer.text || !frame.context) this.#counter.ask();
  }

  #replyEvent(frame) {
    const { transcript, context, announce, composer } = this.#parts;
    if (!transcript.apply(frame)) return;
    if (frame.type !== "finished") return;
    context.show(frame.context);
    announce(`Reply finished. ${messageText(transcript.find(frame.message_id)).slice(0, 1_500)}`);
    if (composer.text) this.#counter.ask();
    this.refresh();
  }

  #failed(frame) {
    const { transcript, composer } = this.#parts;
    if (this.#counter.answered(frame.ref)) return;
    const sent = this.#outbox.take(frame.ref);
    const numbers = frame.needed && frame.limit && !/\d/.test(frame.message);
    composer.say(numbers ? `${frame.message} (${count(frame.needed)} of ${count(frame.limit)} tokens)` : frame.message);
    if (!sent) return void (this.#stopping = null);
    transcript.removePending(sent.id);
    if (sent.conversation_id === this.conversationId) {
      composer.text = [sent.text, composer.text].filter(Boolean).join("\n\n");
      composer.focus();
      this.#counter.ask();
      saveDraft(this.conversationId, composer.text);
    }
    if (frame.code === "conflict") this.#watch();
  }

  #watch() {
    if (!this.conversationId) return;
    this.#parts.socket.send({ type: "watch", id: newId(), conversation_id: this.conversationId, ...this.#parts.transcript.position() });
  }

  #sendStop() {
    this.#parts.socket.send({ type: "stop", id: newId(), message_id: this.#stopping });
  }

  #count(id) {
    const { socket, transcript, composer, status } = this.#parts;
    if (status.blocked || transcript.running || this.#outbox.frame || this.#tooLong) return false;
    return socket.send(this.#aboutText("count", id, composer.text));
  }

  #aboutText(type, id, text) {
    const { head_id: parentId } = this.#parts.transcript.position();
    const opening = this.conversationId === null ? this.#parts.opening.chosen : null;
    return { type, id, text: wholeCharacters(text), conversation_id: this.conversationId, parent_id: parentId, opening };
  }

  /** A frame that is too long is held back here, where the text still is. */
  #checkLength(text) {
    this.#tooLong = "";
    if (text.length <= SURELY_FITS && !this.#parts.opening.chosen) return;
    const excess = frameBytes(this.#aboutText("send", newId(), text)) - MAX_FRAME_BYTES;
    if (excess <= 0) return;
    this.#tooLong = `Too long to send at once: ${count(MAX_FRAME_BYTES + excess)} bytes, and ${count(MAX_FRAME_BYTES)} fit. Shorten it by ${count(excess)} bytes, or send it in parts.`;
  }

  #outboxIsHere() {
    return this.#outbox.frame !== null && this.#outbox.frame.conversation_id === this.conversationId;
  }
}
