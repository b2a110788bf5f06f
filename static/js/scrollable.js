/**
 * Gives code, tables and formulas that are wider than the page a place in the tab order, so that the arrow keys
 * scroll them; those that fit get none. Looks at a message only while it is near the view.
 */
const WIDE = "pre, .table, .math";

/** @param {HTMLElement} transcript */
export function watchScrollable(transcript) {
  const looked = new WeakMap(); // finished blocks of a running reply that were looked at
  const sized = new ResizeObserver((entries) => entries.forEach(({ target }) => look(target, looked)));
  const near = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (isIntersecting) sized.observe(target);
      else sized.unobserve(target);
    }
  }, { root: transcript.parentElement, rootMargin: "300% 0px" });
  const watch = () => {
    for (const reply of transcript.querySelectorAll(":scope > .reply")) near.observe(reply);
  };
  new MutationObserver(watch).observe(transcript, { childList: true });
  watch();
}

/** @param {HTMLElement} reply @param {WeakMap<HTMLElement, {blocks: number, width: number}>} looked */
function look(reply, looked) {
  const body = reply.querySelector(".body");
  const before = looked.get(reply);
  const width = body.clientWidth;
  const same = reply.hasAttribute("aria-busy") && before?.width === width;
  // The last part may have grown since.
  const blocks = Array.prototype.slice.call(body.children, same ? Math.max(0, before.blocks - 1) : 0);
  looked.set(reply, { blocks: body.childElementCount, width });
  for (const block of [...blocks, reply.querySelector(".tail")]) {
    if (block.matches(WIDE)) mark(block);
    block.querySelectorAll(WIDE).forEach(mark);
  }
}

/** @param {HTMLElement} box */
function mark(box) {
  if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  else box.removeAttribute("tabindex");
}
