"""People: each has conversations of their own, and shares them only by choice."""

from __future__ import annotations

import re
from functools import partial
from itertools import product
from typing import Any, get_args
from uuid import uuid4

import httpx2
import msgspec
import pytest
from starlette.routing import Route

from storage.presets import Presets
from tests.web.client import Client
from tests.web.house import BODIES, SECRET, House, nothing_changes, whose
from tests.web.serving import cookie_of
from web.commands import ClientFrame, RetryModel, Stop
from web.pairing import Invited
from web.routes import routes

PARAMS = {"temperature": 0.5}


def foreign_ids(house: House, path: str) -> list[str]:
    """What an address of that kind may name of Minji's. Presets and imports have tests of their own."""
    if "/conversations/" in path or path.startswith("/c/"):
        return [house.conversation]
    if path.startswith(("/api/presets/", "/api/devices/", "/api/people/", "/api/import/")):
        return []
    return [house.question, house.reply, house.running]


def routes_with_ids() -> list[tuple[str, str]]:
    found = []
    for route in routes():
        if isinstance(route, Route) and "{id}" in route.path:
            methods = route.methods or set()
            found.append((route.path, "POST" if "POST" in methods else "GET"))
    return found


@pytest.mark.row(15)
def test_an_address_with_anothers_id_is_answered_like_one_with_no_ones(house: House) -> None:
    for path, method in routes_with_ids():
        for foreign in foreign_ids(house, path):
            answers = []
            for each in (foreign, uuid4().hex):
                address = path.replace("{id}", each)
                body = BODIES.get(path.rsplit("/", 1)[-1], {})
                with nothing_changes(house):
                    ask = house.get if method == "GET" else partial(house.post, body=body)
                    answer = ask(address, cookie=house.jun)
                answers.append((answer.status_code, answer.text.replace(each, "ID")))
                assert SECRET not in answer.text, path
            assert answers[0] == answers[1], path
            if not path.endswith("/delete"):  # gone already: what was asked for is so
                assert answers[0][0] == 404, path


@pytest.mark.row(15)
@pytest.mark.parametrize("deleted", [False, True])
def test_a_command_with_anothers_id_is_answered_like_one_with_no_ones(house: House, deleted: bool) -> None:
    if deleted:
        house.delete()
    his = house.served.ready_client(house.jun)
    places: list[dict[str, str | None]] = [
        {"conversation_id": house.conversation, "message_id": house.question, "parent_id": house.reply},
        {"conversation_id": house.conversation, "message_id": house.reply, "parent_id": house.question},
        {"conversation_id": house.running_in, "message_id": house.running, "parent_id": house.running},
        {"conversation_id": None, "message_id": house.running, "parent_id": house.running},
    ]
    for kind, place in product(get_args(ClientFrame), places):
        fields = {field.name for field in msgspec.structs.fields(kind)}
        others = {value: uuid4().hex for value in place.values() if value}
        answers = []
        for ids in (place, {field: value and others[value] for field, value in place.items()}):
            values = {field: value for field, value in ids.items() if field in fields}
            if "text" in fields:
                values["text"] = "mine"
            if "head_id" in fields:
                values["head_id"] = ids["message_id"]
            with nothing_changes(house):
                answers.append(answer_to(his, kind.__struct_config__.tag, values, ids))
        assert answers[0] == answers[1], kind
        assert answers[0] or kind in (Stop, RetryModel), f"{kind} is refused"
    assert SECRET not in str(his.frames)
    hers = house.served.client(house.minji)
    hers.send("watch", conversation_id=house.running_in)
    assert 'aria-busy="true"' in hers.wait_for("snapshot")["html"]


def answer_to(client: Client, name: str, values: dict[str, Any], ids: dict[str, Any]) -> list[str]:
    """The frames that answer a command, as they would be with other ids."""
    seen = len(client.frames)
    ref = client.send(name, **values)
    client.settle()
    frames = [frame for frame in client.frames[seen:] if frame["type"] not in ("status", "counted")]
    text = [re.sub(r"\b[\w-]*-\d+\b", "REF", str(frame)).replace(ref, "REF") for frame in frames]
    for field, value in ids.items():
        text = [each.replace(str(value), field) if value else each for each in text]
    return text


@pytest.mark.row(15)
def test_a_command_by_post_is_checked_as_on_the_socket(house: House) -> None:
    answers = []
    for place in (house.conversation, uuid4().hex):
        body = {"type": "send", "id": "x", "text": "mine", "conversation_id": place, "parent_id": house.reply}
        with nothing_changes(house):
            answer = house.post("/messages", body, house.jun).json()
        answers.append((answer["code"], answer["message"].replace(place, "ID")))
    assert answers[0] == answers[1]
    assert answers[0][0] == "not_found"


@pytest.mark.row(15)
def test_the_id_of_anothers_command_is_as_free_as_any(house: House) -> None:
    hers, his = house.served.ready_client(house.minji), house.served.ready_client(house.jun)
    first = hers.say("the same words", id="same-id")
    second = his.say("the same words", id="same-id")
    assert second["conversation_id"] != first["conversation_id"]
    assert his.say("the same words", id="same-id")["conversation_id"] == second["conversation_id"]


def test_lists_searches_exports_and_the_status_page_show_each_only_their_own(house: House) -> None:
    for path in ("/", "/conversations", "/search?q=spare", "/search/quick?q=spare", "/api/export", "/status"):
        assert house.conversation not in house.get(path, house.jun).text, path
        assert house.conversation not in house.get(path, house.served.owner()).text, path
        assert SECRET not in house.get(path, house.jun).text, path
        seen = house.get(path, house.minji).text
        assert (house.conversation if path != "/status" else house.running_in) in seen, path


def test_the_list_is_told_only_to_whom_it_concerns(house: House) -> None:
    his, hers = house.served.ready_client(house.jun), house.served.ready_client(house.minji)
    his.settle()
    seen = len(his.frames)
    house.post(f"/api/conversations/{house.conversation}/rename", {"title": "A new name"}, house.minji)
    hers.wait_for_list(showing="A new name")
    his.settle()
    assert not [frame for frame in his.frames[seen:] if frame["type"] == "conversations"]


def test_presets_and_defaults_are_each_persons(house: House) -> None:
    save = {"name": "Hers", "text": SECRET, "shared": False}
    assert house.post("/api/presets/p1", save, house.minji).status_code == 204
    assert house.post("/api/defaults", {"params": PARAMS, "preset_id": "p1"}, house.minji).status_code == 204
    assert SECRET in house.get("/api/settings", house.minji).text
    for path in ("/", "/api/settings"):
        assert SECRET not in house.get(path, house.jun).text
    foreign = house.post("/api/defaults", {"params": {}, "preset_id": "p1"}, house.jun)
    missing = house.post("/api/defaults", {"params": {}, "preset_id": "p0"}, house.jun)
    assert (foreign.status_code, foreign.text.replace("p1", "p0")) == (missing.status_code, missing.text)
    for preset_id in ("p1", "p2"):  # the same for one that is hers and one that is nobody's
        his = {"name": "His", "text": "his own", "shared": False}
        assert house.post(f"/api/presets/{preset_id}", his, house.jun).status_code == 204
        assert house.post(f"/api/presets/{preset_id}", his, house.jun).status_code == 204
    assert house.post("/api/presets/p1/delete", {}, house.jun).status_code == 204
    assert Presets(house.served.database).get("p1", person=whose(house, "Minji")).text == SECRET
    assert len(Presets(house.served.database).list_for(whose(house, "Jun"))) == 2


def test_an_imported_record_shows_nothing_of_others(house: House) -> None:
    document = house.get("/api/export", house.minji).json()
    document["conversations"] = [c for c in document["conversations"] if c["id"] == house.conversation]
    document["conversations"][0]["title"] = "harmless"
    for message in document["conversations"][0]["messages"]:
        message["text"] = "harmless"
        if message["role"] == "assistant":
            message["context"]["left_out"] = [house.question]
    upload = httpx2.post(
        house.served.url + "/api/import",
        json=document,
        headers={"Origin": house.served.url, "Cookie": house.jun},
    ).json()
    while (job := house.get(f"/api/import/{upload['id']}", house.jun).json())["state"] == "running":
        pass
    assert house.get(f"/api/import/{upload['id']}", house.minji).status_code == 404
    (item,) = job["items"]
    assert item["outcome"] == "imported"
    assert item["conversation_id"] != house.conversation
    page = house.get(f"/c/{item['conversation_id']}", house.jun).text
    (reply,) = re.findall(r'class="message reply" data-message-id="(\w+)"', page)
    record = house.get(f"/api/messages/{reply}/record", house.jun)
    assert record.status_code == 200
    assert SECRET not in page + record.text


def test_a_persons_devices_see_the_same(house: House) -> None:
    code = house.served.sharing.codes.issue(Invited(whose(house, "Minji")))
    tablet = cookie_of(house.served.join(code=code))
    assert SECRET in house.get(f"/c/{house.conversation}", tablet).text


def test_the_owner_says_whose_a_new_device_is(house: House) -> None:
    owner = house.served.owner()
    sheet = house.post("/api/pairing-code", {"name": "Halmeoni"}, owner).text
    (code,) = re.findall(r"</span>(\d{4} \d{4})", sheet)
    assert house.served.join(code=code).status_code == 204
    assert "Halmeoni" in house.get("/api/devices", owner).text
    answer = house.post("/api/pairing-code", {"person_id": "nobody"}, owner)
    assert answer.status_code == 404
    assert (
        house.post(f"/api/people/{whose(house, 'Halmeoni')}/rename", {"name": "할머니"}, owner).status_code
        == 200
    )
    assert "할머니" in house.get("/api/devices", owner).text
    assert house.post("/api/people/owner/rename", {"name": "x"}, house.jun).status_code == 403
