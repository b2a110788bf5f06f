/** Unsent text, kept per conversation across reloads. Cleared only when the server has the message. */

const key = (conversationId) => `ondol.draft.${conversationId || "new"}`;

/** @param {?string} conversationId */
export function loadDraft(conversationId) {
  try {
    return localStorage.getItem(key(conversationId)) ?? "";
  } catch {
    return "";
  }
}

/** @param {?string} conversationId @param {string} text */
export function saveDraft(conversationId, text) {
  try {
    if (text) localStorage.setItem(key(conversationId), text);
    else localStorage.removeItem(key(conversationId));
  } catch {
    // Storage is full or off: the text is still in the composer.
  }
}
