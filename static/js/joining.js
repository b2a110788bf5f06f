import { t } from "./language.js";

/** @typedef {{code: string} | {owner: string} | {name: string, password: string}} Secret */

/**
 * Exchanges a code, the owner's secret or a password for a session cookie.
 * @param {Secret} secret
 * @returns {Promise<string>} empty when this browser is let in now, else the sentence that says why it is not
 */
export async function join(secret) {
  try {
    const response = await fetch("/pair", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(secret),
    });
    return response.ok ? "" : (await response.json()).error;
  } catch {
    return t("Ondol does not answer. Is it running, and is this device on the same network?");
  }
}

/** Whether this browser is let in already. The page may still come without its cookie: from a link on another site. */
export async function isConnected() {
  try {
    return (await (await fetch("/pair")).json()).connected;
  } catch {
    return false;
  }
}
