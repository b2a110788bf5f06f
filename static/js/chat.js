import { sayBelow } from "./actions.js";
import { Batch } from "./batch.js";
import { messageText } from "./copy.js";
import { Delivery } from "./delivery.js";
import { loadDraft, saveDraft } from "./drafts.js";
import { t } from "./language.js";
import { Outbox } from "./outbox.js";
import { newId, wholeCharacters } from "./protocol.js";
import { Writing } from "./writing.js";

/**
 * One conversation on the page and its line to the server: what is sent, what is answered, and what each frame
 * changes. The parts that it moves are handed in by app.js.
 */
export class Chat {
  #parts;
  #outbox = new Outbox();
  #delivery = new Delivery(() => this.#parts.socket, (frame) => this.received(frame));
  #batch = new Batch((frame) => this.#replyEvent(frame));
  #writing;
  #stopping = null;
  #phase = "";
  #unsent = false; // the outbox waits for a server that would accept it

  /**
   * @param {?string} conversationId
   * @param {{transcript: import("./transcript.js").Transcript, composer: import("./composer.js").Composer,
   *   editor: import("./editing.js").Editing, toast: import("./toast.js").Toast,
   *   context: import("./context-bar.js").ContextBar, status: import("./status.js").ModelStatus,
   *   list: import("./conversation-list.js").ConversationList, follow: import("./follow.js").Follow,
   *   opening: import("./opening.js").Opening, socket: import("./socket.js").Socket, announce: (text: string) => void}} parts
   */
  constructor(conversationId, parts) {
    this.conversationId = conversationId;
    this.#parts = parts;
    this.#writing = new Writing(parts, (text, parentId, id) => this.#count(text, parentId, id));
    const draft = loadDraft(conversationId);
    const unanswered = this.#unansweredHere();
    if (unanswered) parts.transcript.addPending(unanswered.id, unanswered.text);
    const typed = parts.composer.text; // before this script was there
    parts.composer.text = typed || (unanswered && draft.startsWith(unanswered.text) ? draft.slice(unanswered.text.length).trimStart() : draft);
    this.#writing.checkLength();
    this.refresh();
  }

  /** The socket is open, for the first time or again. */
  opened() {
    this.#batch.flush();
    this.#unsent = this.#outbox.frame !== null;
    this.#watch();
    if (this.#stopping) this.#sendStop();
    this.#writing.forgetCount();
    this.#writing.countAgain();
  }

  /** @param {string} text */
  send(text) {
    const { transcript, composer, follow } = this.#parts;
    this.#writing.checkLength();
    if (this.#writing.tooLong) return this.refresh();
    const frame = { type: "send", id: newId(), ...this.#placed(text, transcript.position().head_id) };
    transcript.addPending(frame.id, frame.text);
    composer.text = "";
    this.#writing.forgetCount();
    follow.toEnd();
    composer.say(this.#give(frame) ? "" : t("Not connected just now. Your message goes out as soon as the connection is back."));
    this.refresh();
  }

  /** @param {HTMLElement} message one of the person's own @param {string} text what it is to say instead */
  sendEdit(message, text) {
    if (this.#outbox.frame) return;
    const place = { conversation_id: this.conversationId, message_id: message.dataset.messageId };
    const given = this.#give({ type: "edit", id: newId(), text: wholeCharacters(text), ...place });
    this.#parts.editor.say(given ? "" : t("Not connected just now. It goes out as soon as the connection is back."));
    this.refresh();
  }

  /** @param {string} type of the command @param {?HTMLElement} message where it was given @param {string} id what it is about @param {object} rest */
  act(type, message, id, rest) {
    if (this.#outbox.frame || !this.conversationId) return;
    if (message) sayBelow(message, "");
    const given = this.#give({ type, id: newId(), conversation_id: this.conversationId, message_id: id, ...rest });
    if (!given) this.#parts.composer.say(t("Not connected just now. It is done as soon as the connection is back."));
    this.refresh();
  }

  stop() {
    const reply = this.#parts.transcript.running;
    if (!reply || this.#stopping === reply.dataset.messageId) return;
    this.#stopping = reply.dataset.messageId;
    this.#sendStop();
    this.refresh();
  }

  /** The draft has changed, or the box of a message that is rewritten. */
  draftChanged() {
    const unanswered = this.#unansweredHere()?.text ?? "";
    saveDraft(this.conversationId, [unanswered, this.#parts.composer.text].filter(Boolean).join("\n\n"));
    this.#writing.changed();
    this.refresh();
  }

  /** What the model would read has changed for another reason than a message. @param {?import("./protocol.js").ContextView} context */
  contextChanged(context) {
    this.#parts.context.show(context);
    this.#writing.countAgain();
    this.refresh();
  }

  /** @param {{type: string}} frame from the server */
  received(frame) {
    if (["queued", "prefill", "delta", "finished"].includes(frame.type)) return this.#batch.push(frame);
    this.#batch.flush();
    const { context, list } = this.#parts;
    if (frame.type === "accepted") this.#accepted(frame);
    else if (frame.type === "switched") this.#switched(frame);
    else if (frame.type === "snapshot") this.#snapshot(frame);
    else if (frame.type === "counted" && this.#writing.counted(frame.ref)) context.show(frame.context);
    else if (frame.type === "status") this.#status(frame);
    else if (frame.type === "conversations") list.replace(frame.html);
    else if (frame.type === "error") this.#failed(frame);
    this.refresh();
  }

  /** Brings the buttons and hints in line with everything else. */
  refresh() {
    const { transcript, composer, editor, context, status } = this.#parts;
    const running = transcript.running;
    transcript.root.classList.toggle("running", running !== null);
    if (this.#stopping && this.#stopping !== running?.dataset.messageId) this.#stopping = null;
    const excess = (context.context?.excess ?? 0) > 0 ? "excess" : "";
    const busy = Boolean(this.#outbox.frame);
    const inEditor = editor.message !== null; // what is counted then is the text in its box
    editor.update(busy || Boolean(running || status.blocked || this.#writing.tooLong || excess));
    composer.update({
      running: Boolean(running),
      stopping: Boolean(this.#stopping),
      busy,
      blocked: status.blocked || (inEditor ? "" : this.#writing.tooLong || excess),
      hint: status.blocked || this.#writing.tooLong,
    });
  }

  #accepted(frame) {
    const { transcript, composer, editor, context, follow, list, opening } = this.#parts;
    const sent = this.#outbox.take(frame.ref);
    if (sent?.type === "send") {
      saveDraft(sent.conversation_id, sent.conversation_id === this.conversationId ? composer.text : "");
      composer.say("");
    }
    const isNew = sent?.conversation_id === null && this.conversationId === null;
    if (isNew) {
      this.conversationId = frame.conversation_id;
      opening.choose(null);
      saveDraft(null, "");
      saveDraft(this.conversationId, composer.text);
      history.replaceState(null, "", `/c/${encodeURIComponent(this.conversationId)}`);
      list.markCurrent();
    }
    if (frame.conversation_id !== this.conversationId) return;
    if (sent?.type === "edit") editor.close();
    const hadFocus = this.#focusIsInTranscript();
    if (!transcript.accept(frame) || isNew) this.#watch();
    if (!sent) return;
    if (sent.type === "send") context.draftSent();
    else if (hadFocus && !this.#focusIsInTranscript()) composer.focus();
    follow.toEnd();
  }

  #switched(frame) {
    const { transcript, toast, context, composer } = this.#parts;
    const asked = this.#outbox.take(frame.ref);
    if (frame.conversation_id !== this.conversationId) return;
    const focused = document.activeElement;
    const way = focused?.dataset?.way;
    const hadFocus = this.#focusIsInTranscript();
    if (!transcript.switchTo(frame)) return this.#watch();
    context.show(frame.context);
    this.#writing.countAgain(Boolean(frame.context));
    if (asked?.type === "delete_branch") {
      toast.show(t("Deleted, with all that followed."), () => this.act("restore_branch", null, asked.message_id));
    }
    if (!hadFocus || this.#focusIsInTranscript()) return;
    const place = asked?.type === "switch" ? transcript.find(asked.message_id) : null;
    const next = place?.querySelector(`[data-way="${way}"]:enabled`) ?? place?.querySelector("[data-way]:enabled");
    if (next) next.focus({ preventScroll: true });
    else composer.focus();
  }

  /** Every connection begins with a status; a server that has just started takes no messages yet. */
  #status(frame) {
    const { status } = this.#parts;
    const changed = this.#phase !== frame.phase;
    this.#phase = frame.phase;
    status.show(frame);
    if (status.blocked) return;
    if (this.#unsent) this.#delivery.send(this.#outbox.frame);
    this.#unsent = false;
    // The tokenizer is there now, or the weights are and the system prompt is warm.
    if (changed) this.#writing.changed();
  }

  #snapshot(frame) {
    if (frame.conversation_id !== this.conversationId) return;
    this.#parts.transcript.replace(frame.html);
    this.#parts.editor.restore();
    this.#parts.context.show(frame.context);
    this.#writing.countAgain(Boolean(frame.context));
  }

  #replyEvent(frame) {
    const { transcript, context, announce } = this.#parts;
    if (!transcript.apply(frame)) return;
    if (frame.type !== "finished") return;
    context.show(frame.context);
    announce(`${t("Reply finished.")} ${messageText(transcript.find(frame.message_id)).slice(0, 1_500)}`);
    this.#writing.countAgain();
    this.refresh();
  }

  #failed(frame) {
    const { composer } = this.#parts;
    if (this.#writing.counted(frame.ref)) return;
    const given = this.#outbox.take(frame.ref);
    const words = frame.message;
    if (!given) {
      composer.say(words);
      return void (this.#stopping = null);
    }
    if (given.type === "send") this.#giveBack(given, words);
    else this.#sayWhere(given, words);
    if (frame.code === "conflict" || frame.code === "not_found") this.#watch(false);
  }

  /** A message that was not taken is a draft again. */
  #giveBack(sent, words) {
    const { transcript, composer } = this.#parts;
    composer.say(words);
    transcript.removePending(sent.id);
    if (sent.conversation_id !== this.conversationId) return;
    composer.text = [sent.text, composer.text].filter(Boolean).join("\n\n");
    composer.focus();
    this.#writing.changed();
    saveDraft(this.conversationId, composer.text);
  }

  #sayWhere(given, words) {
    const { transcript, composer, editor } = this.#parts;
    const message = transcript.find(given.message_id);
    if (given.type === "edit" && editor.message === message) editor.say(words);
    else if (message) sayBelow(message, words);
    else composer.say(words);
  }

  /** Keeps the command until it is answered. False when it has to wait for a connection. */
  #give(frame) {
    this.#outbox.put(frame);
    return this.#delivery.send(frame);
  }

  /** @param {boolean} whereItIs false: have everything sent anew */
  #watch(whereItIs = true) {
    if (!this.conversationId) return;
    const position = whereItIs ? this.#parts.transcript.position() : {};
    this.#parts.socket.send({ type: "watch", id: newId(), conversation_id: this.conversationId, ...position });
  }

  #sendStop() {
    this.#parts.socket.send({ type: "stop", id: newId(), message_id: this.#stopping });
  }

  #count(text, parentId, id) {
    const { transcript, status } = this.#parts;
    if (status.blocked || transcript.running || this.#outbox.frame) return false;
    return this.#delivery.send({ type: "count", id, ...this.#placed(text, parentId) });
  }

  /** A text after a message, as frames have it. */
  #placed(text, parentId) {
    const opening = this.conversationId === null ? this.#parts.opening.chosen : null;
    return { text: wholeCharacters(text), conversation_id: this.conversationId, parent_id: parentId, opening };
  }

  /** @returns {?import("./protocol.js").SendFrame} */
  #unansweredHere() {
    const { frame } = this.#outbox;
    return frame?.type === "send" && frame.conversation_id === this.conversationId ? frame : null;
  }

  #focusIsInTranscript() {
    return this.#parts.transcript.root.contains(document.activeElement);
  }
}
