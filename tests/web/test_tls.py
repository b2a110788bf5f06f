"""Encryption: a certificate of one's own or a given one, and what changes with it."""

from __future__ import annotations

import asyncio
import hashlib
import re
import socket
import ssl
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from http.cookies import SimpleCookie
from pathlib import Path

import httpx2
import pytest
from starlette.applications import Starlette

from tests.web.client import WAIT_S
from tests.web.serving import OTHER_ADDRESS, Served
from web.certificates import LIFE, RENEW_BEFORE, OwnCertificate, given_certificate
from web.errors import StartFailed
from web.lan import host_values
from web.server import EventLoop, prepare_tls, uvicorn_config
from web.settings import Settings
from web.tls import Certificate, Tls

Serve = Callable[..., Served]
NAMES = ["house", "house.local", "192.168.0.10"]


def test_pages_sockets_and_cookies_are_encrypted_and_the_certificate_is_checked(serve: Serve) -> None:
    served = serve(lan=True, tls=True)
    paired = served.join(code=served.sharing.codes.issue())
    morsels = SimpleCookie(paired.headers["set-cookie"])
    assert list(morsels) == [f"__Host-ondol_{served.port}"]
    morsel = next(iter(morsels.values()))
    assert morsel["secure"]
    assert (morsel["path"], morsel["domain"]) == ("/", "")
    cookie = paired.headers["set-cookie"].partition(";")[0]
    for base in (served.url, served.lan_url):
        page = httpx2.get(base, headers={"Cookie": cookie}, verify=served.trust)
        assert "<textarea" in page.text
        assert "read along" not in page.text
        assert "strict-transport-security" not in page.headers
    served.ready_client(cookie).say_and_wait("hello")
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(served.url)
    assert served.get("/", Cookie=cookie.removeprefix("__Host-")).status_code == 401


def test_everything_that_names_an_address_says_https_and_the_fingerprint_is_shown(serve: Serve) -> None:
    served = serve(lan=True, tls=True)
    assert served.tls is not None
    assert served.owner_url.startswith("https://127.0.0.1:")
    sheet = served.post("/api/pairing-code", {}, Cookie=served.owner()).text
    assert f"https://{OTHER_ADDRESS}:{served.port}" in sheet
    assert "http://" not in sheet.replace("http://www.w3.org", "")
    assert "read along" not in sheet
    der = ssl.PEM_cert_to_DER_cert(served.tls.current.certificate.read_text())
    pairs = re.findall("..", hashlib.sha256(der).hexdigest().upper())
    assert ":".join(pairs) in sheet.replace("<wbr>", "")
    assert "read along" not in served.get("/").text


def test_the_origin_has_to_be_of_the_same_scheme(serve: Serve) -> None:
    served = serve(tls=True)
    plain = f"http://127.0.0.1:{served.port}"
    assert served.post("/messages", {}, Origin=plain).status_code == 403
    assert served.post("/messages", {}).status_code == 200
    assert host_values(["house"], 443, "https") == {"house", "house:443"}
    assert host_values(["house"], 80, "https") == {"house:80"}


def test_plain_http_on_the_encrypted_port_is_ended(serve: Serve) -> None:
    served = serve(tls=True)
    with socket.create_connection(("127.0.0.1", served.port), timeout=WAIT_S) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        answer = b""
        try:
            while more := connection.recv(4_096):
                answer += more
        except ConnectionError:
            pass
    assert not answer.startswith(b"HTTP")
    assert served.get("/").status_code == 200


def test_who_begins_no_handshake_is_cut_off(tmp_path: Path) -> None:
    class Hasty(EventLoop):
        handshake_s = 0.2

    async def wait_in_silence() -> bytes:
        context = Tls(OwnCertificate(tmp_path).for_names(NAMES)).context
        loop = asyncio.get_running_loop()
        server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0, ssl=context)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            async with asyncio.timeout(WAIT_S):
                answer = await reader.read()
            writer.close()
            return answer

    with asyncio.Runner(loop_factory=Hasty) as runner:
        assert runner.run(wait_in_silence()) == b""
    assert EventLoop.handshake_s <= 10
    assert uvicorn_config(Starlette()).get_loop_factory() is EventLoop


def test_ones_own_certificate_is_kept_until_a_name_is_new_or_it_nearly_ends(tmp_path: Path) -> None:
    now = [datetime.now(UTC)]
    own = OwnCertificate(tmp_path, lambda: now[0])
    first = own.for_names(NAMES)
    assert stat.S_IMODE(first.key.stat().st_mode) == 0o600
    assert stat.S_IMODE(first.key.parent.stat().st_mode) == 0o700
    assert OwnCertificate(tmp_path, lambda: now[0]).for_names(NAMES[:2]) == first
    moved = own.for_names([*NAMES, "192.168.0.11"])
    assert moved.fingerprint != first.fingerprint
    now[0] += LIFE - RENEW_BEFORE - timedelta(seconds=1)
    assert own.for_names(["192.168.0.11"]) == moved
    now[0] += timedelta(seconds=1)
    assert own.for_names(["192.168.0.11"]).fingerprint != moved.fingerprint


def test_half_a_certificate_is_made_anew(tmp_path: Path) -> None:
    own = OwnCertificate(tmp_path)
    first = own.for_names(NAMES)
    first.key.write_bytes(made(tmp_path / "other").key.read_bytes())
    again = own.for_names(NAMES)
    assert again.fingerprint != first.fingerprint
    Tls(again)


def test_a_renewed_certificate_is_shown_to_the_next_who_connects(serve: Serve, tmp_path: Path) -> None:
    served = serve(tls=True)
    assert served.tls is not None
    renewed = OwnCertificate(tmp_path / "data").for_names([OTHER_ADDRESS, "192.168.0.11"])
    served.tls.use(renewed)
    shown = ssl.get_server_certificate(("127.0.0.1", served.port), timeout=WAIT_S)
    assert ssl.PEM_cert_to_DER_cert(shown) == ssl.PEM_cert_to_DER_cert(renewed.certificate.read_text())


def made(folder: Path, now: datetime | None = None) -> Certificate:
    folder.mkdir()
    return OwnCertificate(folder, lambda: now or datetime.now(UTC)).for_names(NAMES)


def test_given_files_that_cannot_be_used_are_named_in_one_sentence(tmp_path: Path) -> None:
    good, other = made(tmp_path / "good"), made(tmp_path / "other")
    old = made(tmp_path / "old", datetime.now(UTC) - LIFE - timedelta(days=2))
    early = made(tmp_path / "early", datetime.now(UTC) + timedelta(days=9))
    text = tmp_path / "text"
    text.write_text("no certificate")
    cases = [
        (tmp_path / "nothing", good.key, "nothing cannot be read (No such file or directory)."),
        (good.certificate, tmp_path / "nothing", "nothing cannot be read (No such file or directory)."),
        (text, good.key, "holds no certificate in PEM form."),
        (good.certificate, text, "holds no private key that can be used without a passphrase."),
        (good.certificate, other.key, "is not the key of"),
        (old.certificate, old.key, "expired on"),
        (early.certificate, early.key, "is not valid before"),
    ]
    for certificate, key, words in cases:
        with pytest.raises(StartFailed, match=re.escape(words)):
            Tls(given_certificate(certificate, key))
    assert Tls(given_certificate(good.certificate, good.key)).fingerprint == good.fingerprint


def test_a_certificate_and_its_key_are_given_together(tmp_path: Path) -> None:
    for settings in (Settings(tls_cert=tmp_path / "c"), Settings(tls_key=tmp_path / "k")):
        with pytest.raises(StartFailed, match="go together"):
            prepare_tls(settings)
    assert prepare_tls(Settings())[0] is None
