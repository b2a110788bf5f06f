const FIRST_DELAY_MS = 500;
const LAST_DELAY_MS = 8_000;

/**
 * One WebSocket that comes back. Waits between tries grow from 0.5 to 8 s with jitter, and end at once when the
 * network or the page returns.
 */
export class Socket {
  #url;
  #handlers;
  #socket = null;
  #timer = 0;
  #failures = 0;

  /**
   * @param {string} url
   * @param {{opened: () => void, received: (frame: object) => void, lost: (failures: number) => void}} handlers
   */
  constructor(url, handlers) {
    this.#url = url;
    this.#handlers = handlers;
    for (const event of ["online", "pageshow"]) addEventListener(event, () => this.#now());
    document.addEventListener("visibilitychange", () => document.hidden || this.#now());
    this.#connect();
  }

  get isOpen() {
    return this.#socket?.readyState === WebSocket.OPEN;
  }

  /** False when there is no connection; the caller sends again after `opened`. */
  send(frame) {
    if (!this.isOpen) return false;
    this.#socket.send(JSON.stringify(frame));
    return true;
  }

  /** For good. */
  end() {
    clearTimeout(this.#timer);
    this.#socket = null;
  }

  #connect() {
    clearTimeout(this.#timer);
    const socket = new WebSocket(this.#url);
    this.#socket = socket;
    socket.addEventListener("open", () => this.#handlers.opened());
    socket.addEventListener("message", ({ data }) => {
      this.#failures = 0; // a frame, not `open`: a server that accepts only to close must not be hammered
      this.#handlers.received(JSON.parse(data));
    });
    socket.addEventListener("close", () => this.#later(socket));
  }

  #later(socket) {
    if (socket !== this.#socket) return;
    const delay = Math.min(LAST_DELAY_MS, FIRST_DELAY_MS * 2 ** this.#failures);
    this.#failures += 1;
    this.#timer = setTimeout(() => this.#connect(), delay * (0.5 + Math.random() / 2));
    this.#handlers.lost(this.#failures);
  }

  #now() {
    if (this.#socket?.readyState === WebSocket.CLOSED) this.#connect();
  }
}
