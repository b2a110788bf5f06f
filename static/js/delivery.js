import { MAX_FRAME_BYTES, frameBytes } from "./protocol.js";

// A UTF-16 unit takes at most six bytes as JSON.
const SURELY_FITS = 10_000;
const RETRY_MS = 2_000;

/** Brings frames to the server: over the socket, and by POST what is too long for that. */
export class Delivery {
  #socket;
  #received;

  /** @param {() => import("./socket.js").Socket} socket @param {(frame: object) => void} received */
  constructor(socket, received) {
    this.#socket = socket;
    this.#received = received;
  }

  /** False when there is no connection: the frame can be sent again once there is. @param {object} frame */
  send(frame) {
    if (!this.#socket().isOpen) return false;
    const isShort = !frame.opening && (frame.text?.length ?? 0) <= SURELY_FITS;
    if (isShort || frameBytes(frame) <= MAX_FRAME_BYTES) return this.#socket().send(frame);
    this.#post(frame);
    return true;
  }

  async #post(frame, tries = 3) {
    let answer;
    try {
      const response = await fetch("/messages", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(frame),
      });
      answer = response.ok ? await response.json() : refused(frame, response.status);
    } catch {
      // It may have arrived all the same: sent again, it does nothing twice.
      if (tries > 1) return void setTimeout(() => this.#post(frame, tries - 1), RETRY_MS);
      answer = refused(frame, 0);
    }
    this.#received(answer);
  }
}

/** @param {object} frame @param {number} status */
function refused(frame, status) {
  const why = status ? `The server answered ${status}.` : "The server could not be reached.";
  return { type: "error", code: "internal", ref: frame.id, message: `${why} Nothing was sent; try again.` };
}
