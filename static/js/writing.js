import { Counter } from "./counter.js";
import { count, t } from "./language.js";
import { MAX_TEXT_BYTES, textBytes } from "./protocol.js";

/** What a person is writing now, in the composer or in the box of a message that is rewritten: its size and its cost. */
export class Writing {
  #parts;
  #counter;

  /** Why the text cannot be sent whatever the model; "" where it can. */
  tooLong = "";

  /**
   * @param {{composer: import("./composer.js").Composer, editor: import("./editing.js").Editing,
   *   transcript: import("./transcript.js").Transcript}} parts
   * @param {(text: string, parentId: ?string, id: string) => boolean} sendCount false when it was not sent
   */
  constructor(parts, sendCount) {
    this.#parts = parts;
    this.#counter = new Counter((id) => !this.tooLong && sendCount(this.text, this.#parentId, id));
  }

  get text() {
    const { editor, composer } = this.#parts;
    return editor.message ? editor.text : composer.text;
  }

  get #parentId() {
    const { editor, transcript } = this.#parts;
    return editor.message ? transcript.before(editor.message) : transcript.position().head_id;
  }

  /** The text may have changed. */
  changed() {
    this.checkLength();
    this.#counter.ask();
  }

  /** What it is counted against may have changed; `known` when the count without it came along. */
  countAgain(known = true) {
    if (this.text || !known) this.#counter.ask();
  }

  /** An answer on its way is about a text that is no longer there. */
  forgetCount() {
    this.#counter.forget();
  }

  /** Whether `ref` is the answer to a count. @param {?string} ref */
  counted(ref) {
    return this.#counter.answered(ref);
  }

  /** A text that is too long is held back here, where it still is. */
  checkLength() {
    const bytes = this.text.length * 3 <= MAX_TEXT_BYTES ? 0 : textBytes(this.text);
    const excess = bytes - MAX_TEXT_BYTES;
    const numbers = { bytes: count(bytes), limit: count(MAX_TEXT_BYTES), excess: count(excess) };
    this.tooLong = excess > 0 ?
      t("Too long to send at once: {bytes} bytes, and {limit} fit. Shorten it by {excess} bytes, or send it in parts.", numbers) : "";
  }
}
