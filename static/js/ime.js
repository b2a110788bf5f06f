/**
 * What Enter means while text is composed.
 *
 * With Hangul the last syllable is always still composing when Enter comes, so that Enter ends the composition
 * *and* is meant to send: once, with that syllable. With Japanese or Chinese, Enter only chooses the candidate.
 * The two are told apart by the script of what was composed. Browsers report them in different orders:
 *
 *   Chromium  keydown 229 (isComposing) → compositionend → on some systems the same Enter again as keydown 13
 *   Firefox   keydown 229 (isComposing) → compositionend → input
 *   Safari    compositionend → keydown 229 (no longer isComposing)
 */

const HANGUL = /^\p{Script=Hangul}+$/u;
const SAME_PRESS_MS = 100;

export class EnterKey {
  #waiting = false;
  #composed = "";
  #endedAt = -Infinity;
  #sentAt = -Infinity;

  /**
   * `send`: send now. `swallow`: this press has already done its work. `pass`: leave it to the browser.
   * @param {Pick<KeyboardEvent, "key" | "keyCode" | "isComposing" | "shiftKey" | "timeStamp">} event
   * @returns {"send" | "swallow" | "pass"}
   */
  keydown(event) {
    const composing = event.isComposing;
    if (event.key !== "Enter" || event.shiftKey) {
      this.#waiting = false;
      return "pass";
    }
    if (composing) {
      this.#waiting = true;
      return "pass";
    }
    if (event.timeStamp - this.#sentAt < SAME_PRESS_MS) return "swallow";
    const justEnded = event.timeStamp - this.#endedAt < SAME_PRESS_MS;
    if (event.keyCode === 229 && justEnded) {
      if (!HANGUL.test(this.#composed)) return "pass";
      this.#sentAt = event.timeStamp;
    }
    return "send";
  }

  /** @param {Pick<CompositionEvent, "data" | "timeStamp">} event @returns {"send" | "pass"} */
  compositionend(event) {
    const asked = this.#waiting;
    this.#waiting = false;
    this.#composed = event.data;
    this.#endedAt = event.timeStamp;
    if (!asked || !HANGUL.test(event.data)) return "pass";
    this.#sentAt = event.timeStamp;
    return "send";
  }

  /** The line break that follows an Enter which has already sent. @param {Pick<InputEvent, "inputType" | "timeStamp">} event */
  isLateLineBreak(event) {
    const isBreak = event.inputType === "insertLineBreak" || event.inputType === "insertParagraph";
    return isBreak && event.timeStamp - this.#sentAt < SAME_PRESS_MS;
  }
}

/**
 * Calls `send` once for each Enter that means it. `wanted` tells whether Enter sends at all.
 * @param {HTMLInputElement | HTMLTextAreaElement} field
 * @param {() => void} send
 * @param {() => boolean} wanted
 */
export function onEnter(field, send, wanted = () => true) {
  const enter = new EnterKey();
  field.addEventListener("keydown", (event) => {
    if (!wanted()) return;
    const meaning = enter.keydown(event);
    if (meaning === "pass") return;
    event.preventDefault();
    if (meaning === "send" && !event.repeat) send();
  });
  field.addEventListener("compositionend", (event) => {
    // After this event's own input event: only then does every browser have the last syllable in the field.
    if (wanted() && enter.compositionend(event) === "send") setTimeout(send);
  });
  field.addEventListener("beforeinput", (event) => {
    if (enter.isLateLineBreak(event)) event.preventDefault();
  });
}
