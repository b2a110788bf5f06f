import { stylesheet } from "./parts.js";

/** Shows a message that was found, and marks it and the words in it. @param {string} id */
export function jump(id) {
  const transcript = document.getElementById("transcript");
  // It comes anew once its branch is the one that is looked at.
  if ("elsewhere" in document.getElementById("app").dataset) {
    new MutationObserver((_, observer) => {
      const message = document.getElementById(`m${id}`);
      if (message?.matches(".at")) return;
      observer.disconnect();
      if (message) mark(message);
    }).observe(transcript, { childList: true });
  }
  mark(document.getElementById(`m${id}`));
}

function mark(message) {
  stylesheet("found");
  message.classList.add("at");
  message.tabIndex = -1;
  message.focus({ preventScroll: true });
  const words = (new URLSearchParams(location.search).get("find") ?? "").normalize("NFKC").toLowerCase();
  const ranges = words ? rangesOf(message, words.match(/"[^"]+"|\S+/g) ?? []) : [];
  if (window.Highlight && CSS.highlights && ranges.length) {
    CSS.highlights.set("found", new Highlight(...ranges));
  }
  show(message, ranges[0]);
  // Parts of long messages are laid out as they come into view, and may be of other heights than was thought.
  requestAnimationFrame(() => requestAnimationFrame(() => show(message, ranges[0])));
}

/** A long message is shown where the first of the words is. */
function show(message, range) {
  const scroller = message.closest(".scroller");
  const { top, height } = (range ?? message).getBoundingClientRect();
  const space = range ? scroller.clientHeight / 3 : Math.max(16, (scroller.clientHeight - height) / 2);
  scroller.scrollTop += top - scroller.getBoundingClientRect().top - space;
}

function rangesOf(message, words) {
  const terms = words.map((word) => word.replaceAll('"', "")).filter(Boolean);
  const ranges = [];
  for (const part of message.querySelectorAll(".body, .tail")) {
    const walker = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const text = node.data.toLowerCase();
      if (text.length !== node.data.length) continue; // its letters are not where they were
      for (const term of terms) {
        for (let at = text.indexOf(term); at >= 0; at = text.indexOf(term, at + term.length)) {
          const range = document.createRange();
          range.setStart(node, at);
          range.setEnd(node, at + term.length);
          ranges.push(range);
        }
      }
    }
  }
  return ranges;
}
