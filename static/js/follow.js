const NEAR_PX = 48;
const HANDS_OFF_MS = 250;

/** Keeps the end of the transcript in view while the reader is there, and never pulls a reader who has left. */
export class Follow {
  #scroller;
  #content;
  #jump;
  #near = true;
  #touching = false;
  #scrolledUpAt = -Infinity;

  /** @param {HTMLElement} scroller @param {HTMLElement} content @param {HTMLButtonElement} jump */
  constructor(scroller, content, jump) {
    this.#scroller = scroller;
    this.#content = content;
    this.#jump = jump;
    scroller.addEventListener("scroll", () => this.#look(), { passive: true });
    scroller.addEventListener("wheel", (event) => event.deltaY < 0 && this.#handsOff(), { passive: true });
    scroller.addEventListener("keydown", (event) => /^(Page|Arrow)Up$|^Home$/.test(event.key) && this.#handsOff());
    scroller.addEventListener("touchstart", () => (this.#touching = true), { passive: true });
    for (const end of ["touchend", "touchcancel"]) {
      scroller.addEventListener(end, (event) => (this.#touching = event.touches.length > 0), { passive: true });
    }
    jump.addEventListener("click", () => this.toEnd());
    // One observer for all causes: new text, a growing composer, the phone's keyboard.
    const resized = new ResizeObserver(() => this.#keep());
    resized.observe(scroller);
    resized.observe(content);
    this.toEnd();
  }

  toEnd() {
    this.#near = true;
    this.#jump.hidden = true;
    if (!this.#isEmpty) this.#scroller.scrollTop = this.#scroller.scrollHeight;
  }

  /** Before the first message there is nothing to follow: the page is read from its top. */
  get #isEmpty() {
    return !this.#content.querySelector(".message");
  }

  #look() {
    const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
    this.#near = scrollHeight - scrollTop - clientHeight <= NEAR_PX;
    this.#jump.hidden = this.#near || this.#isEmpty;
  }

  // A wheel's smooth scroll begins within the near zone; following right then would undo it.
  #handsOff() {
    this.#scrolledUpAt = performance.now();
  }

  #keep() {
    const free = !this.#touching && performance.now() - this.#scrolledUpAt > HANDS_OFF_MS;
    if (this.#near && free) this.toEnd();
    else this.#look();
  }
}
