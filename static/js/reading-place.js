/**
 * When a long reply is replaced by its final form, its parts are others, and of other heights until they are laid
 * out: what is being read is found again by its number among the blocks.
 */

/**
 * Notes what is at the top of the view. @param {HTMLElement} message the reply as it is
 * @returns {(message: HTMLElement) => void} puts that of the final reply in the same place
 */
export function readingPlace(message) {
  const scroller = message.closest(".scroller");
  const top = scroller.getBoundingClientRect().top;
  let number = 0;
  let block = null;
  for (const part of parts(message)) {
    if (part.getBoundingClientRect().bottom > top) {
      block = Array.prototype.find.call(part.children, (each) => each.getBoundingClientRect().bottom > top) ?? null;
      number += Array.prototype.indexOf.call(part.children, block);
    }
    if (block) break;
    number += part.childElementCount;
  }
  const before = block?.getBoundingClientRect().top;
  return (final) => {
    if (!final.querySelector(".part")) return;
    final.classList.add("whole"); // laid out once, every part remembers its height
    requestAnimationFrame(() => requestAnimationFrame(() => final.classList.remove("whole")));
    const same = block && before < top ? blockAt(final, number) : null;
    if (same) scroller.scrollTop += same.getBoundingClientRect().top - before;
  };
}

function blockAt(message, number) {
  for (const part of parts(message)) {
    if (number < part.childElementCount) return part.children[number];
    number -= part.childElementCount;
  }
  return null;
}

/** The boxes whose children are the reply's blocks, in order. @returns {HTMLElement[]} */
function parts(message) {
  const body = message.querySelector(".body");
  const inside = body.querySelectorAll(":scope > .part");
  return [...(inside.length ? inside : [body]), message.querySelector(".tail")];
}
