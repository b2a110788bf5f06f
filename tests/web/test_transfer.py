"""Exporting and importing through the server."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import time
import zipfile
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import msgspec
import pytest
from sqlalchemy import text

from storage.database import Database
from storage.errors import ImportRefused
from storage.transfer.exporting import Exports
from storage.transfer.limits import MAX_FILE_BYTES
from storage.transfer.schema import ExportedConversation, document
from tests.storage.exports import chatgpt_simple, llama_cpp, llama_message
from tests.web.client import WAIT_S
from tests.web.serving import Served
from web import downloads
from web.downloads import Download
from web.file_names import content_disposition, file_name, harmless
from web.import_checks import check
from web.presenter import STATIC, static_build

Serve = Callable[..., Served]


def imported(served: Served, content: Any) -> dict[str, Any]:
    """The end of an import."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    response = served.post_bytes("/api/import", body)
    assert response.status_code == 202, response.text
    return wait_for(served, response.json()["id"], lambda job: job["state"] != "running")


def wait_for(served: Served, job_id: str, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        job: dict[str, Any] = served.get(f"/api/import/{job_id}").json()
        if condition(job):
            return job
        time.sleep(0.02)
    raise AssertionError(f"it did not come to that: {job}")


def outcomes(job: dict[str, Any]) -> list[str]:
    return [item["outcome"] for item in job["items"]]


def test_a_conversation_moves_to_another_server_and_goes_on_there(serve: Serve, tmp_path: Path) -> None:
    served = serve()
    client = served.ready_client()
    accepted, _ = client.say_and_wait("강릉 여행")
    exported = served.get(f"/api/conversations/{accepted['conversation_id']}/export")
    served.close()
    (tmp_path / "data").rename(tmp_path / "old")
    other = serve()
    client = other.ready_client()
    job = imported(other, exported.content)
    assert (job["total"], outcomes(job)) == (1, ["imported"])
    client.wait_for_list(showing="강릉 여행")
    whole = other.get(f"/api/conversations/{accepted['conversation_id']}/export")
    assert whole.content == exported.content
    assert whole.headers["content-disposition"] == exported.headers["content-disposition"]
    more = {"conversation_id": accepted["conversation_id"], "parent_id": accepted["reply_id"]}
    assert "next" in client.say_and_wait("next", **more)[1]["html"]
    assert outcomes(imported(other, exported.content)) == ["already here"]


def test_an_imported_chat_of_another_program_can_be_continued(serve: Serve) -> None:
    served = serve()
    client = served.ready_client()
    (item,) = imported(served, [chatgpt_simple(question="왜?")])["items"]
    chat = Exports(served.database).conversation(item["conversation_id"])
    page = served.get(f"/c/{chat.id}").text
    assert "왜?" in page
    assert "Imported from ChatGPT" in page
    _, finished = client.say_and_wait("and?", conversation_id=chat.id, parent_id=chat.head_id)
    assert "and?" in finished["html"]


def test_every_conversation_is_told_of_one_by_one(serve: Serve) -> None:
    served = serve()
    chats = [chatgpt_simple(0), {"no": 1}, chatgpt_simple(1), chatgpt_simple(0)]
    job = imported(served, chats)
    assert outcomes(job) == ["imported", "refused", "imported", "already here"]
    assert [item["number"] for item in job["items"]] == [1, 2, 3, 4]
    assert job["items"][1]["why"].startswith("It is not a conversation of Ondol")
    rest = served.get(f"/api/import/{job['id']}?after=3").json()
    assert [item["number"] for item in rest["items"]] == [4]


def test_a_file_that_is_none_is_told_in_a_sentence_and_not_kept(serve: Serve, tmp_path: Path) -> None:
    served = serve()
    for content, why in ((b"", "empty"), (b"PK\3\4 no zip", "damaged"), (b"[]", "no conversation")):
        job = imported(served, content)
        assert (job["state"], job["items"]) == ("failed", [])
        assert why in job["why"]
        assert str(tmp_path) not in job["why"]
        assert list((tmp_path / "data" / "imports").iterdir()) == []


def test_files_that_a_killed_server_left_are_deleted_when_it_starts(serve: Serve, tmp_path: Path) -> None:
    left = tmp_path / "data" / "imports" / "left"
    left.parent.mkdir(parents=True)
    left.write_text("{}")
    serve().get("/")
    assert not left.exists()


def test_too_much_is_refused_before_it_is_sent(serve: Serve) -> None:
    served = serve()
    with closing(HTTPConnection("127.0.0.1", served.port, timeout=WAIT_S)) as connection:
        connection.putrequest("POST", "/api/import")
        connection.putheader("Origin", served.url)
        connection.putheader("Content-Length", str(MAX_FILE_BYTES + 1))
        connection.endheaders()
        response = connection.getresponse()
        assert response.status == 413
        assert f"{MAX_FILE_BYTES:,}" in response.read().decode()


def test_one_file_at_a_time_and_a_cancelled_import_leaves_whole_conversations(serve: Serve) -> None:
    served = serve()
    chats = json.dumps([chatgpt_simple(n) for n in range(3_000)]).encode()
    job_id = served.post_bytes("/api/import", chats).json()["id"]
    refused = served.post_bytes("/api/import", b"[]")
    assert refused.status_code == 409
    assert "being imported" in refused.json()["error"]
    wait_for(served, job_id, lambda job: job["done"] > 0)
    assert served.post(f"/api/import/{job_id}/cancel", {}).status_code == 204
    job = wait_for(served, job_id, lambda job: job["state"] == "cancelled")
    assert 0 < job["done"] < 3_000
    whole(served.database, at_least=job["done"])
    assert served.post("/api/import/absent/cancel", {}).status_code == 404


def test_an_import_that_is_killed_leaves_whole_conversations(serve: Serve, tmp_path: Path) -> None:
    served = serve()
    chats = json.dumps([chatgpt_simple(n) for n in range(3_000)]).encode()
    job_id = served.post_bytes("/api/import", chats).json()["id"]
    wait_for(served, job_id, lambda job: job["done"] > 3)
    os.kill(child_of(os.getpid()), signal.SIGKILL)
    job = wait_for(served, job_id, lambda job: job["state"] != "running")
    assert (job["state"], job["why"][:26]) == ("failed", "The import ended unexpecte")
    whole(served.database, at_least=job["done"])
    assert list((tmp_path / "data" / "imports").iterdir()) == []


def child_of(process: int) -> int:
    """The import's process."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            is_child = f"PPid:\t{process}\n" in (folder / "status").read_text()
            if is_child and b"web.import_process" in (folder / "cmdline").read_bytes():
                return int(folder.name)
    raise AssertionError("there is none")


def whole(database: Database, at_least: int) -> None:
    with database.read() as session:
        chats = session.scalar(text("SELECT count(*) FROM conversations"))
        messages = session.scalar(text("SELECT count(*) FROM messages"))
        assert chats is not None
        assert chats >= at_least
        assert messages == 2 * chats
        assert session.scalar(text("PRAGMA integrity_check")) == "ok"
        assert session.execute(text("PRAGMA foreign_key_check")).all() == []


def a_reply(**changes: Any) -> ExportedConversation:
    moment = "2026-11-29T12:00:00Z"
    question = {"id": "q", "role": "user", "text": "q", "created_at": moment}
    reply = {"id": "r", "parent_id": "q", "role": "assistant", "text": "hello", "created_at": moment}
    chat = {"id": "c", "title": "t", "created_at": moment, "updated_at": moment, "head_id": "r"}
    settings = {key: changes.pop(key) for key in ("chat_params", "thinking") if key in changes}
    if "chat_params" in settings:
        chat["params"] = settings["chat_params"]
    return msgspec.convert({**chat, "messages": [question, reply | changes]}, ExportedConversation)


@pytest.mark.parametrize(
    "changes",
    [
        {"usage": {"prompt_tokens": "many", "cached_tokens": 0, "completion_tokens": 1}},
        {"usage": {}},
        {"usage": {"prompt_tokens": -1, "cached_tokens": 0, "completion_tokens": 1}},
        {"timings": {"ttft_s": "soon"}},
        {"context": {"left_out": [{}]}},
        {"context": {"begun": 2**70}},
        {"context": {"reuse_lost": 1}},
        {"context": {"window": 512}},
        {"context": {"ran_on": {"backend": "x"}}},
        {"params": {"temperature": 1.0}},
        {"params": {"stop": [], "temperature": 99}},
        {"params": {"stop": [], "unknown": 1}},
        {"params": {"stop": [], "top_k": "x"}},
        {"chat_params": {"temperature": 99}},
        {"chat_params": {"unknown": 1}},
        {"chat_params": {"stop": "x"}},
    ],
    ids=json.dumps,
)
def test_a_record_that_no_page_could_show_is_refused(changes: dict[str, Any]) -> None:
    check(a_reply())
    with pytest.raises(ImportRefused):
        check(a_reply(**changes))


def test_token_ids_that_are_not_the_models_are_not_given_to_it(serve: Serve) -> None:
    served = serve()
    client = served.ready_client()
    for ids in ((2**31 - 1,), (5, 9_999_999)):
        chat = a_reply(token_ids=ids, model="Double", finish_reason="length", id="r", text="hello")
        chat = msgspec.structs.replace(chat, id=f"c{len(ids)}")
        (item,) = imported(served, b"".join(document([chat])))["items"]
        assert item["outcome"] == "imported"
        there = Exports(served.database).conversation(item["conversation_id"])
        ref = client.send("continue", conversation_id=there.id, message_id=there.head_id)
        assert "not this model's" in client.wait_for("error", ref=ref)["message"]
        _, finished = client.say_and_wait("next", conversation_id=there.id, parent_id=there.head_id)
        assert finished["finish_reason"] == "stop"


NAMES = [
    f"{before}{middle}{after}"
    for before in (
        "../",
        "..\\",
        "/etc/",
        "C:\\",
        "con",
        "NUL.",
        ".",
        "\r\n",
        '"; filename="x',
        "~",
        "\u202e",
    )
    for middle in ("", "여행", "a" * 300, "é\u0301", "%2e%2e%2f", "\0", "  ", "x/y", "😀", "\ud83d")
    for after in ("", "/..", " .", "\n", ":stream")
]


@pytest.mark.row(26)
def test_no_title_becomes_a_path_or_another_header() -> None:
    assert len(NAMES) >= 500
    for title in NAMES:
        chat = a_reply()
        name = file_name(msgspec.structs.replace(chat, title=title), ".json")
        assert not set(name) & set('/\\:*?"<>|%\r\n\0\u202e'), ascii(name)
        assert name.endswith(" c.json"), ascii(name)
        assert name.startswith("2026-11-")
        assert len(name.encode()) < 255
        header = content_disposition(name)
        assert header.isascii()
        assert header.isprintable()
        assert unquote(header.partition("UTF-8''")[2]) == name
    assert harmless("강릉 여행: 둘째 날?") == "강릉 여행 둘째 날"
    assert (harmless("con"), harmless("..."), harmless("console")) == ("", "", "console")


ADDRESSES = (
    "/api/conversations/{}/export",
    "/api/conversations/{}/export?format=markdown",
    "/c/{}/print",
    "/c/{}",
    "/api/import/{}",
    "/api/messages/{}/text",
    "/api/messages/{}/record",
    "/replies/{}/tokens",
    "/static/{}",
    f"/static/{static_build()}/{{}}",
    f"/static/{static_build()}/css/base+{{}}.css",
    f"/static/{static_build()}/texts/{{}}.json",
)


def files_in(folder: Path) -> set[Path]:
    """All but what is computed ahead meanwhile."""
    found = {path.relative_to(folder) for path in folder.rglob("*")}
    return {path for path in found if "prefix-cache" not in path.parts}


@pytest.mark.row(26)
def test_hostile_ids_are_not_found_and_tell_of_no_folder(serve: Serve, tmp_path: Path) -> None:
    """404, as for an id that nothing has, or 400. What a program sends may have its dots and slashes bare."""
    served = serve()
    served.ready_client()
    before = files_in(tmp_path)
    with closing(HTTPConnection("127.0.0.1", served.port, timeout=WAIT_S)) as connection:
        for number, name in enumerate(NAMES):
            address = ADDRESSES[number % len(ADDRESSES)]
            for bare in ("", "/.~:"):
                connection.request("GET", address.format(quote(name.encode("utf-8", "replace"), safe=bare)))
                response = connection.getresponse()
                said = response.read().decode("utf-8", "replace")
                assert response.status in (307, 400, 404, 405), (address, name)
                for place in (str(tmp_path), str(STATIC.parent), "root:"):
                    assert place not in said, (address, name)
    assert files_in(tmp_path) == before


@pytest.mark.row(26)
def test_hostile_names_in_a_file_stay_names(serve: Serve, tmp_path: Path) -> None:
    served = serve()
    client = served.ready_client()
    before = files_in(tmp_path)
    whole = [name.encode("utf-8", "replace").decode() for name in NAMES[::10]]
    ids = ["con\n", *(name for name in whole if not name.isalnum())]
    chats = [chatgpt_simple(number) | {"title": name} for number, name in enumerate(whole)]
    bad = [msgspec.to_builtins(msgspec.structs.replace(a_reply(), id=name)) for name in ids]
    job = imported(served, chats)
    assert outcomes(job) == ["imported"] * len(whole)
    job = imported(served, {"format": "ondol", "version": 1, "conversations": bad})
    assert outcomes(job) == ["refused"] * len(bad)
    assert all(str(tmp_path) not in item["why"] for item in job["items"])
    with zipfile.ZipFile(io.BytesIO(served.get("/api/export?format=markdown").content)) as archive:
        names = archive.namelist()
    assert len(set(names)) == len(whole)
    assert [name for name in names if set(name) & set('/\\:*?"<>|\0\r\n') or name.startswith(".")] == []
    client.settle()
    assert {path.parts[1] for path in files_in(tmp_path) - before} <= {"imports"}
    assert list((tmp_path / "data" / "imports").iterdir()) == []


def test_all_conversations_come_as_json_or_as_a_zip_of_letters(serve: Serve) -> None:
    served = serve()
    client = served.ready_client()
    for title in ("하나", "둘"):
        client.say_and_wait(title)
    everything = served.get("/api/export")
    assert [chat["title"] for chat in everything.json()["conversations"]] == ["하나", "둘"]
    packed = served.get("/api/export?format=markdown")
    assert packed.headers["content-type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(packed.content)) as archive:
        assert archive.testzip() is None
        first = archive.read(archive.namelist()[0]).decode()
    assert first.startswith("# 하나\n")
    assert "**You** ·" in first
    assert "**Double** ·" in first
    assert served.get("/api/export?format=docx").status_code == 400


def test_the_letter_has_names_dates_and_the_chosen_branch(serve: Serve) -> None:
    served = serve()
    messages = [
        llama_message("q", None, "user", "<b>why</b>"),
        llama_message("a", "q", "assistant", "**because**", model="gemma", reasoningContent="hm"),
        llama_message("b", "q", "assistant", "never", model="gemma"),
    ]
    (item,) = imported(served, llama_cpp(messages, "a"))["items"]
    page = served.get(f"/c/{item['conversation_id']}/print").text
    for shown in ("<strong>because</strong>", "&lt;b&gt;why&lt;/b&gt;", "gemma", "November 1", "hm"):
        assert shown in page
    assert "never" not in page
    assert "Imported from llama.cpp" in page
    written = served.get(f"/api/conversations/{item['conversation_id']}/export?format=markdown")
    assert "**because**" in written.text
    assert "never" not in written.text
    assert served.get("/c/absent/print").status_code == 404


def test_a_download_that_nobody_takes_any_more_lets_go_of_the_database(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[str] = []

    def pieces(name: str) -> Generator[bytes, None, None]:
        try:
            while True:
                yield b"x" * downloads.AT_ONCE
        finally:
            closed.append(name)

    async def gone() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def there() -> dict[str, Any]:
        return await asyncio.Future()

    async def takes(message: Any) -> None:
        await asyncio.sleep(0)

    async def stalls(message: Any) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Future()

    async def both() -> None:
        await Download(pieces("gone"), "a", "text/plain")({}, gone, takes)
        monkeypatch.setattr(downloads, "STALL_S", 0.01)
        with pytest.raises(TimeoutError):
            await Download(pieces("stalls"), "a", "text/plain")({}, there, stalls)

    asyncio.run(both())
    assert closed == ["gone", "stalls"]
