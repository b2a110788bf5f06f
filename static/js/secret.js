const SECRET = /^#(pair|owner)=(.*)$/;

/**
 * What the address bar holds after #: a pairing code or the owner's secret. It is erased there at once, so that it
 * stays neither in the history nor on the screen.
 * @returns {?({code: string} | {owner: string})}
 */
export function takeSecret() {
  const found = SECRET.exec(location.hash);
  if (!found) return null;
  history.replaceState(null, "", location.pathname + location.search);
  return found[1] === "pair" ? { code: found[2] } : { owner: found[2] };
}
