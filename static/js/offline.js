/** The page that stands in for any other while the server cannot be reached: comes back by itself. */

const EVERY_MS = 3_000;

async function look() {
  try {
    await fetch("/health", { cache: "no-store" });
    location.reload();
  } catch {
    setTimeout(look, EVERY_MS);
  }
}

setTimeout(look, EVERY_MS);
