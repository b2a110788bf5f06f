/**
 * Shows a page that says so when the server cannot be reached. It keeps that page and what belongs to it, and
 * nothing of anybody's conversations; whatever is no navigation goes its own way. One worker, and one cache, for
 * each build of the static files and each language: its address has both in it.
 */
const PAGE = new URL("offline.html", self.location).pathname;
const CACHE = `ondol-offline ${PAGE}${self.location.search}`;
let away = false; // the last navigation failed: the page that is shown is ours

self.addEventListener("install", (event) => event.waitUntil(keep().then(() => self.skipWaiting())));
self.addEventListener("activate", (event) => event.waitUntil(Promise.all([clear(), self.registration.navigationPreload?.enable()])));

self.addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.mode === "navigate" && request.method === "GET") event.respondWith(navigate(event));
  else if (away && new URL(request.url).pathname.startsWith("/static/")) event.respondWith(kept(request));
});

async function navigate(event) {
  try {
    const response = (await event.preloadResponse) ?? (await fetch(event.request));
    away = false;
    return response;
  } catch {
    away = true;
    return (await caches.match(PAGE)) ?? Response.error();
  }
}

async function kept(request) {
  return (await caches.match(request)) ?? fetch(request);
}

async function keep() {
  const cache = await caches.open(CACHE);
  const html = await (await fetch(PAGE)).text();
  const named = Array.from(html.matchAll(/(?:href|src)="(\/static\/[^"#]+)/g), ([, address]) => address);
  await cache.addAll([PAGE, ...new Set(named)]);
}

async function clear() {
  const names = await caches.keys();
  await Promise.all(names.filter((name) => name.startsWith("ondol-offline ") && name !== CACHE).map((name) => caches.delete(name)));
}
