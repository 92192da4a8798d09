/**
 * The service worker: keeps the page's own files for when there is no network. `web/site.mjs` writes the two lines
 * below; as they stand (no files) nothing is kept. Models lie in OPFS, not here.
 */
const VERSION = 'source';
const FILES = [];

const CACHE = `tern-page-${VERSION}`;
/** What makes a page cross-origin isolated, for servers that do not send it. */
const ISOLATED = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
  'Cross-Origin-Resource-Policy': 'same-origin',
};

async function install() {
  const cache = await caches.open(CACHE);
  await cache.addAll(FILES.map((file) => new Request(file, {cache: 'reload'})));
}

async function activate() {
  const old = (await caches.keys()).filter((name) => name.startsWith('tern-page-') && name !== CACHE);
  await Promise.all(old.map((name) => caches.delete(name)));
  await self.clients.claim();
}

/** The file's name in FILES, or null for what is none of ours. */
function fileOf(address) {
  const scope = self.registration.scope;
  const plain = address.split(/[?#]/)[0];
  if (!plain.startsWith(scope)) return null;
  const name = plain.slice(scope.length) || 'index.html';
  return FILES.includes(name) ? name : null;
}

async function answer(name, request) {
  const kept = await (await caches.open(CACHE)).match(new URL(name, self.registration.scope));
  const response = kept ?? (await fetch(request));
  const headers = new Headers(response.headers);
  for (const [key, value] of Object.entries(ISOLATED)) headers.set(key, value);
  return new Response(response.body, {status: response.status, statusText: response.statusText, headers});
}

self.addEventListener('install', (event) => event.waitUntil(install()));
self.addEventListener('activate', (event) => event.waitUntil(activate()));
self.addEventListener('message', (event) => {
  if (event.data === 'activate') self.skipWaiting();
});
self.addEventListener('fetch', (event) => {
  const name = event.request.method === 'GET' ? fileOf(event.request.url) : null;
  if (name) event.respondWith(answer(name, event.request));
});
