"""Row 33: what lets people in stands in no log, address, Referer or page that tells of an error.

`tests/web/leaks.py` looks for it in every test server of the suite when that ends; here it is shown to find.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from tests.reliability.test_headers import paths, said
from tests.web.client import WAIT_S
from tests.web.serving import Served, cookie_of

Serve = Callable[..., Served]

ROOT = Path(__file__).resolve().parents[2]
ONDOL = (sys.executable, "-c", "from web.cli import main; main()", "--lan", "--port", "0")


async def broken(request: Request) -> Response:
    raise KeyError(request.headers["x-secret"])


async def telling(request: Request) -> Response:
    raise HTTPException(400, f"You said {request.headers['x-secret']}.")


async def leading(request: Request) -> Response:
    return RedirectResponse(f"/?code={request.headers['x-secret']}")


LEAKING = [Route("/broken", broken), Route("/telling", telling), Route("/leading", leading)]


@pytest.mark.row(33)
def test_a_secret_is_found_wherever_it_leaks_to(serve: Serve) -> None:
    served = serve(lan=True, routes=LEAKING)
    cookie = served.owner()
    secrets = [cookie.partition("=")[2], served.sharing.codes.issue(), served.sharing.owner.issue()]

    def found(leak: Callable[[], object]) -> int:
        before = len(served.leaks.found())
        leak()
        return len(served.leaks.found()) - before

    for secret in secrets:
        shown = {"Cookie": cookie, "X-Secret": secret}
        assert found(lambda: served.get("/", Cookie=cookie)) == 0
        assert found(lambda: served.get("/broken", **shown)) == 0  # noqa: B023
        assert found(lambda: logging.getLogger("web").warning("somebody said %s", secret)) == 1  # noqa: B023
        assert found(lambda: served.get(f"/?code={secret}", Cookie=cookie)) == 1  # noqa: B023
        assert found(lambda: served.get("/", Cookie=cookie, Referer=f"/?code={secret}")) == 1  # noqa: B023
        assert found(lambda: served.get("/telling", **shown)) == 1  # noqa: B023
        assert found(lambda: served.get("/leading", **shown)) == 1  # noqa: B023
    served.leaks.secrets.clear()


@pytest.mark.row(33)
def test_no_page_has_a_secret_and_the_sheet_for_a_new_device_has_its_code_alone(serve: Serve) -> None:
    served = serve(lan=True)
    cookie = served.owner()
    accepted = said(served, cookie)
    with httpx2.Client(base_url=served.url, headers={"Cookie": cookie}, timeout=WAIT_S) as client:
        for path, _ in paths(["absent", accepted["conversation_id"], accepted["reply_id"]]):
            page = client.get(path)
            assert [secret for secret in served.leaks.secrets if secret in page.text] == [], path
            assert "set-cookie" not in page.headers
        before = set(served.leaks.secrets)
        sheet = client.post("/api/pairing-code", headers={"Origin": served.url}).text
        (code,) = served.leaks.secrets - before
        assert code in sheet.replace(" ", "").replace("\u2009", "") or f"{code[:4]} {code[4:]}" in sheet
        assert [secret for secret in before if secret in sheet] == []


@pytest.mark.row(33)
def test_the_process_says_them_once_in_the_terminal_and_nowhere_else(tmp_path: Path) -> None:
    command = [*ONDOL, "--data-dir", str(tmp_path / "data")]
    log = tmp_path / "log"
    with (
        log.open("w") as errors,
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdout is not None
        lines = []
        while "Pairing code" not in (line := process.stdout.readline()):
            assert line, log.read_text()
            lines.append(line)
        url = lines[0].partition("Ondol is at ")[2].split()[0]
        owner = next(each for each in lines if "#owner=" in each).partition("#owner=")[2].strip()
        code = "".join(filter(str.isdigit, line.partition(":")[2]))[:8]
        with httpx2.Client(timeout=WAIT_S) as client:
            own = {"Origin": url}
            cookies = [
                cookie_of(client.post(f"{url}/pair", json=secret, headers=own))
                for secret in ({"owner": owner}, {"code": code})
            ]
            for wrong in ({"code": code}, {"owner": owner + "x"}, {"code": [code]}):
                assert client.post(f"{url}/pair", json=wrong, headers=own).status_code in (400, 403)
            for cookie in (*cookies, "x=y"):
                sent = {"Cookie": cookie}
                for path in (
                    "/",
                    "/nowhere",
                    "/c/absent",
                    "/health",
                    "/api/devices",
                    "/pair",
                    "/conversations/",
                ):
                    client.get(url + path, headers=sent)
                assert client.get(url, headers={**sent, "Host": "evil.test"}).status_code == 403
                assert client.post(f"{url}/messages", headers={**sent, "Origin": "null"}).status_code == 403
        process.terminate()
        rest, _ = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0
    secrets = [owner, code, *(cookie.partition("=")[2] for cookie in cookies)]
    assert [secret for secret in secrets if secret in log.read_text()] == []
    assert [secret for secret in secrets if secret in rest] == []
