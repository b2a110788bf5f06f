"""Rows 21 and 23: pages of other sites in a real browser, whose own guards for local networks are off."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route

from tests.browser.browser import launch
from tests.browser.chat_page import WAIT_S
from tests.reliability.test_headers import rows
from tests.web.serving import Served
from web.presenter import static_build

Serve = Callable[..., Served]

SECRET = "only for those at home"
GUARDS = "LocalNetworkAccessChecks,LocalNetworkAccessChecksWebSockets,BlockInsecurePrivateNetworkRequests"
LEAD_HERE = ("MAP evil.test 127.0.0.1", "MAP localhost. 127.0.0.1")
WAYS = """async ([base, asset, conversation, patience]) => {
  const read = [];
  const told = (text) => { if (text) read.push(text); };
  const frame = (name) => { const made = document.createElement('iframe'); made.name = name; document.body.append(made); return made; };
  const loaded = (element, place = document.body) => new Promise((resolve) => {
    element.onload = () => resolve('loaded');
    element.onerror = () => resolve('');
    place.append(element);
  });
  const element = (name, values) => Object.assign(document.createElement(name), values);
  const submit = (action, method, fields, target, enctype) => {
    const form = element('form', { action, method, target });
    if (enctype) form.enctype = enctype;
    for (const [name, value] of Object.entries(fields)) form.append(element('input', { name, value }));
    document.body.append(form);
    form.submit();
  };
  const destroy = `${base}/api/conversations/${conversation}/delete`;
  const message = (id) => JSON.stringify({ type: 'send', id, text: 'from elsewhere' });
  const json = { 'Content-Type': 'application/json' };
  const ways = {
    'fetch a page': async () => told(await (await fetch(`${base}/c/${conversation}`, { credentials: 'include' })).text()),
    'fetch a file': async () => told(await (await fetch(`${base}/api/export`)).text()),
    'fetch without asking to read': async () => told(await (await fetch(`${base}/search?q=home`, { mode: 'no-cors', credentials: 'include' })).text()),
    'post without asking to read': () => fetch(destroy, { method: 'POST', mode: 'no-cors', credentials: 'include', body: '{}' }),
    'post JSON': () => fetch(`${base}/messages`, { method: 'POST', headers: json, credentials: 'include', body: message('w1') }),
    'put': () => fetch(`${base}/api/presets/w2`, { method: 'PUT', credentials: 'include', body: '{}' }),
    'an old request': () => new Promise((resolve) => {
      const request = new XMLHttpRequest();
      request.open('GET', `${base}/conversations`);
      request.withCredentials = true;
      request.onloadend = () => { told(request.responseText); resolve(); };
      request.send();
    }),
    'a beacon': () => navigator.sendBeacon(destroy, '{}'),
    'a socket': () => new Promise((resolve) => {
      const socket = new WebSocket(`${base.replace('http', 'ws')}/ws`);
      socket.onopen = () => { told('a socket opened'); socket.send(message('w3')); };
      socket.onmessage = (event) => { told(event.data); };
      socket.onerror = socket.onclose = resolve;
      setTimeout(() => { socket.close(); resolve(); }, patience / 6);
    }),
    'an event source': () => new Promise((resolve) => {
      const source = new EventSource(`${base}/status/now`, { withCredentials: true });
      source.onopen = () => told('events');
      source.onerror = () => { source.close(); resolve(); };
    }),
    'an image': async () => told(await loaded(element('img', { src: `${base}${asset('icons.svg')}` }))),
    'a script': async () => told(await loaded(element('script', { src: `${base}${asset('js/copy.js')}` }))),
    'a style sheet': async () => told(await loaded(element('link', { rel: 'stylesheet', href: `${base}${asset('css/base.css')}` }), document.head)),
    'a module': async () => told(Object.keys(await import(`${base}${asset('js/copy.js')}`)).join()),
    'a frame': () => loaded(element('iframe', { src: `${base}/`, name: 'framed' })),
    'an object': () => loaded(element('object', { data: `${base}/`, type: 'text/html' })),
    'a form': () => { frame('f1'); submit(destroy, 'POST', { x: '1' }, 'f1'); },
    'a form of text': () => { frame('f2'); submit(`${base}/messages`, 'POST', { '{"type":"send","id":"w4","text":"from elsewhere","opening":null}': '' }, 'f2', 'text/plain'); },
    'a form that asks': () => { frame('f3'); submit(`${base}/`, 'GET', { q: 'from elsewhere' }, 'f3'); },
    'a window': async () => {
      const opened = open(`${base}/c/${conversation}?q=from+elsewhere`);
      await new Promise((resolve) => setTimeout(resolve, patience / 6));
      try { told(opened.document.body.innerText); } finally { opened?.close(); }
    },
  };
  const within = (way) => Promise.race([way(), new Promise((resolve) => setTimeout(resolve, patience))]);
  const deleting = ['post without asking to read', 'a beacon', 'a form']; // once the others have read
  const all = (names) => Promise.all(names.map((name) => within(async () => ways[name]()).catch(() => {})));
  await all(Object.keys(ways).filter((name) => !deleting.includes(name)));
  await all(deleting);
  await new Promise((resolve) => setTimeout(resolve, 300));
  return { tried: Object.keys(ways).length, read };
}"""  # noqa: E501


class Elsewhere:
    """Another server on this machine, with one empty page. It notes where people say that they come from."""

    def __init__(self) -> None:
        self.referers: list[str | None] = []
        referers = self.referers

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                referers.append(self.headers["Referer"])
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(b"<!doctype html><title>Elsewhere</title><body>")

            def log_message(self, format: str, *args: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture(scope="module")
def careless(browser: Browser) -> Iterator[Browser]:
    """A browser that finds evil.test on this machine, and guards no local network by itself."""
    started = launch(browser.browser_type, *LEAD_HERE, disabled=GUARDS)
    yield started
    started.close()


@pytest.fixture
def visitor(careless: Browser) -> Iterator[BrowserContext]:
    context = careless.new_context(locale="en-GB")
    yield context
    context.close()


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    server = Elsewhere()
    yield server
    server.close()


def let_in(visitor: BrowserContext, served: Served) -> None:
    """The browser holds the owner's cookie from now on."""
    name, _, value = served.owner().partition("=")
    visitor.add_cookies(
        [{"name": name, "value": value, "url": served.url, "sameSite": "Strict", "httpOnly": True}]
    )


def tried(page: Page, served: Served, conversation: str, patience_s: float = 3.0) -> dict[str, Any]:
    """Every way to reach the server from this page, and what it could read within so long each."""
    # Whoever has the same version knows the addresses of its files.
    asset = f"(name) => `/static/{static_build()}/${{name}}`"
    script = f"([base, ...more]) => ({WAYS})([base, {asset}, ...more])"
    found: dict[str, Any] = page.evaluate(script, [served.url, conversation, 1_000 * patience_s])
    return found


@pytest.mark.row(23)
@pytest.mark.parametrize(
    ("shared", "site"),
    [(False, "evil.test"), (True, "127.0.0.1")],
    ids=["another site, nobody has to be let in", "another port of the same host, with the owner's cookie"],
)
def test_another_sites_page_changes_nothing_reads_nothing_and_frames_nothing(
    serve: Serve, visitor: BrowserContext, elsewhere: Elsewhere, shared: bool, site: str
) -> None:
    served = serve(lan=shared)
    owner = served.owner() if shared else ""
    accepted, _ = served.ready_client(owner).say_and_wait(SECRET)
    if shared:
        let_in(visitor, served)
    before = rows(served.database)
    page = visitor.new_page()
    page.goto(f"http://{site}:{elsewhere.port}/")
    found = tried(page, served, accepted["conversation_id"])
    assert found["tried"] >= 12
    assert found["read"] == []
    assert rows(served.database) == before
    inside = [frame for frame in page.frames if frame is not page.main_frame]
    assert len(inside) >= 4
    assert {frame.url for frame in inside} <= {"chrome-error://chromewebdata/", "about:blank"}

    # The same ways from its own page reach what they want: the test can fail.
    own = visitor.new_page()
    own.goto(served.url)
    found = tried(own, served, accepted["conversation_id"], WAIT_S)
    assert any(SECRET in text for text in found["read"])
    assert "a socket opened" in found["read"]
    assert rows(served.database) != before


REBOUND = """async () => {
  const found = [];
  for (const [path, options] of [['/', {}], ['/conversations', {}], ['/api/export', {}], ['/health', {}], ['/pair', {}],
    ['/messages', { method: 'POST', body: JSON.stringify({ type: 'send', id: 'r1', text: 'rebound' }) }]])
    found.push(await fetch(path, options).then((answer) => answer.status, String));
  found.push(await new Promise((resolve) => {
    const socket = new WebSocket(`ws://${location.host}/ws`);
    socket.onopen = () => resolve('a socket opened');
    socket.onerror = () => resolve('refused');
  }));
  return found;
}"""  # noqa: E501


@pytest.mark.row(21)
@pytest.mark.parametrize("shared", [False, True], ids=["alone", "shared"])
def test_a_name_that_leads_here_all_of_a_sudden_is_refused(
    serve: Serve, visitor: BrowserContext, shared: bool
) -> None:
    served = serve(lan=shared)
    owner = served.owner() if shared else ""
    served.ready_client(owner).say_and_wait(SECRET)
    if shared:
        let_in(visitor, served)
    before = rows(served.database)
    names = [f"evil.test:{served.port}", f"evil.localhost:{served.port}", f"localhost.:{served.port}"]
    for name in names:
        page = visitor.new_page()
        answer = page.goto(f"http://{name}/")
        assert answer is not None
        assert answer.status == 403
        assert page.locator("body").inner_text() == "This address is not one of Ondol's own."

        def attackers(route: Route) -> None:
            route.fulfill(body="<!doctype html><title>x</title>", content_type="text/html")

        # What the attacker's own server sent, before the name came to lead here.
        page.route(f"http://{name}/", attackers)
        page.goto(f"http://{name}/")
        page.unroute(f"http://{name}/")
        assert page.evaluate(REBOUND) == [403] * 6 + ["refused"]
        page.close()
    assert rows(served.database) == before
    own = visitor.new_page()
    own.goto(served.url)
    assert own.evaluate(REBOUND)[-1] == "a socket opened"


@pytest.mark.row(33)
def test_who_follows_a_link_out_of_a_reply_does_not_say_from_where(
    serve: Serve, visitor: BrowserContext, elsewhere: Elsewhere
) -> None:
    served = serve(lambda prompt: f"[away](http://evil.test:{elsewhere.port}/)", lan=True)
    let_in(visitor, served)
    accepted, _ = served.ready_client(served.owner()).say_and_wait("a link")
    page = visitor.new_page()
    page.goto(f"{served.url}/c/{accepted['conversation_id']}")
    with visitor.expect_page() as opened:
        page.locator(".reply a", has_text="away").click()
    opened.value.wait_for_load_state()
    assert opened.value.title() == "Elsewhere"
    assert elsewhere.referers[0] is None
    assert [each for each in elsewhere.referers if each and str(served.port) in each] == []
