"""Row 30: who guesses waits longer and longer, and nobody else does."""

from __future__ import annotations

import ast
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

import web.pairing
from tests.web.client import WAIT_S
from tests.web.serving import Served, cookie_of
from web.attempts import FREE
from web.pairing import Invited

Serve = Callable[..., Served]
GUESSES = 1_000


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def guesser(served: Served) -> httpx2.Client:
    """Somebody on another address of this machine."""
    transport = httpx2.HTTPTransport(local_address="127.0.0.9")
    return httpx2.Client(
        base_url=served.url, transport=transport, headers={"Origin": served.url}, timeout=WAIT_S
    )


@pytest.mark.row(30)
@pytest.mark.parametrize("what", ["code", "owner"])
def test_a_thousand_wrong_guesses_wait_ever_longer_and_keep_nobody_else_out(serve: Serve, what: str) -> None:
    clock = Clock()
    served = serve(lan=True, waits_by=clock)
    cookie = served.guest()
    waits, looked_at = [], 0
    with guesser(served) as client:
        for number in range(GUESSES):
            answer = client.post("/pair", json={what: f"{number:08}"})
            assert "set-cookie" not in answer.headers
            if answer.status_code == 429:
                waits.append(int(answer.headers["retry-after"]))
                clock.now += waits[-1]
            else:
                assert answer.status_code == 403
                looked_at += 1
            if number % 200 == 199:
                assert served.get("/pair", Cookie=cookie).json() == {"connected": True}
                assert served.join("127.0.0.8", code=served.sharing.codes.issue()).status_code == 204
                assert served.owner()
        served.sharing.attempts.failed("127.0.0.9")
        right = served.sharing.codes.issue()
        assert client.post("/pair", json={"code": right}).status_code == 429
        clock.now += 60
        assert client.post("/pair", json={"code": right}).status_code == 204
    assert waits[:7] == [1, 2, 4, 8, 16, 32, 60]
    assert set(waits[7:]) == {60}
    assert looked_at == GUESSES - len(waits) >= len(waits)
    assert sum(waits) > 8 * 3600


@pytest.mark.row(30)
def test_passwords_guessed_all_at_once_are_as_few_as_one_after_another(serve: Serve) -> None:
    """Which takes longer than a code: long enough for others to be asked with."""
    served = serve(lan=True, waits_by=Clock())
    phone = cookie_of(served.join(code=served.sharing.codes.issue(Invited(None, "Minji"))))
    phone = cookie_of(served.post("/api/you/password", {"password": "warm floor 9"}, Cookie=phone))

    served.leaks.secrets |= {"warm floor 9", "guess no."}

    def at_once(client: httpx2.Client, path: str, cookie: str, **asked: str) -> list[int]:
        """What twelve guesses of `asked`, sent together, are answered with."""

        def guess(number: int) -> int:
            body = {key: value or f"guess no. {number}" for key, value in asked.items()}
            return client.post(path, json=body, headers={"Cookie": cookie}).status_code

        with ThreadPoolExecutor(12) as pool:
            return sorted(pool.map(guess, range(12)))

    few = [403] * FREE + [429] * (12 - FREE)
    with guesser(served) as client:
        assert at_once(client, "/pair", "", name="Minji", password="") == few
        assert at_once(client, "/api/you/password", phone, password="another floor", current="") == few
    assert served.join("127.0.0.8", name="Minji", password="warm floor 9").status_code == 204


@pytest.mark.row(30)
def test_a_thousand_wrong_cookies_open_nothing_and_keep_nobody_out(serve: Serve) -> None:
    """They are not counted: a browser whose session is over sends its old one with whatever it asks for, and
    against 256 random bits no number of guesses helps.
    """
    served = serve(lan=True)
    right = served.guest()
    name, _, token = right.partition("=")
    near = [token[:-1], token + "A", token.swapcase(), token[1:] + token[0], "", "A" * len(token)]
    with guesser(served) as client:
        for number in range(GUESSES):
            wrong = near[number] if number < len(near) else secrets.token_urlsafe(32)
            answer = client.get("/pair", headers={"Cookie": f"{name}={wrong}"})
            assert answer.json() == {"connected": False}
    assert served.get("/pair", Cookie=right).json() == {"connected": True}
    with served.database.read() as session:
        stored = session.connection().exec_driver_sql("SELECT token_hash FROM devices").scalars().all()
    assert [len(each) for each in stored] == [
        32
    ]  # looked up by its SHA-256: how long that takes tells nothing


@pytest.mark.row(30)
def test_secrets_are_compared_in_constant_time_alone() -> None:
    tree = ast.parse(Path(web.pairing.__file__).read_text())
    compared = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Compare)]
    assert [each for each in compared if "digest" in each] == ["self._digest is not None"]
    calls = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    constant = [each for each in calls if each.startswith("compare_digest(")]
    assert constant == [
        "compare_digest(each.digest, digest)",
        "compare_digest(self._digest, _digest(secret))",
    ]
