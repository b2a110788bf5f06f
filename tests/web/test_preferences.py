"""Presets, settings, defaults and pins, through the server."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from storage.conversations import Conversations
from storage.records import MessageRecord
from tests.inference.doubles import CHATML
from tests.web.client import Client
from tests.web.serving import Served

Serve = Callable[..., Served]

COOK = "You are a cook. Say what to do first, and never use salt."
SWITCHED = CHATML.replace(
    "<|im_start|>assistant\n", "<|im_start|>assistant\n{% if enable_thinking is false %}-{% endif %}"
)
BRIEF = {"system_prompt": "Be brief.", "params": {}, "thinking": None}


def system_tokens(text: str) -> int:
    return 1 + len("system\n") + len(text) + 1 + 1


def reply_of(served: Served, accepted: dict[str, Any]) -> MessageRecord:
    return Conversations(served.database).message(accepted["reply_id"])


def place(accepted: dict[str, Any]) -> dict[str, str]:
    """Where the next message goes."""
    return {"conversation_id": accepted["conversation_id"], "parent_id": accepted["reply_id"]}


def counted(client: Client, text: str = "", **fields: Any) -> dict[str, Any]:
    frame = client.wait_for("counted", ref=client.send("count", text=text, **fields))
    context: dict[str, Any] = frame["context"]
    return context


def choose(served: Served, accepted: dict[str, Any], **changes: Any) -> Any:
    return served.post(f"/api/conversations/{accepted['conversation_id']}/settings", {**BRIEF, **changes})


def save_preset(served: Served, name: str = "cook", text: str = COOK, *, shared: bool = True) -> None:
    answer = served.post(f"/api/presets/{name}", {"name": name.title(), "text": text, "shared": shared})
    assert answer.status_code == 204, answer.text


def wait_until_warm(client: Client, opening: dict[str, Any]) -> None:
    deadline = time.monotonic() + 20
    while counted(client, opening=opening)["warm"] < system_tokens(opening["system_prompt"]):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_first_message_of_a_chat_with_a_shared_preset_finds_it_warm(serve: Serve) -> None:
    served = serve()
    client = served.ready_client()
    save_preset(served)
    opening = {**BRIEF, "system_prompt": COOK}
    wait_until_warm(client, opening)
    accepted, _ = client.say_and_wait("soup?", opening=opening)
    reply = reply_of(served, accepted)
    assert reply.usage is not None
    assert reply.usage["cached_tokens"] >= system_tokens(COOK)
    conversation = Conversations(served.database).get(accepted["conversation_id"])
    assert conversation.system_prompt == COOK
    served.post("/api/presets/cook/delete", {})
    assert Conversations(served.database).get(conversation.id).system_prompt == COOK


def test_presets_are_told_to_every_page_and_a_repeat_changes_nothing(serve: Serve) -> None:
    served = serve()
    client = served.ready_client()
    save_preset(served)
    save_preset(served)
    assert client.wait_for("presets")["html"].count(">Cook</button>") == 1
    assert ">Cook</button>" in served.get("/").text
    for _ in range(2):
        assert served.post("/api/presets/cook/delete", {}).status_code == 204
    assert ">Cook</button>" not in served.get("/").text


@pytest.mark.parametrize("body", [{}, {"name": "", "text": "a", "shared": True}, {"name": "a", "text": "a"}])
def test_half_a_preset_is_refused_in_a_sentence(serve: Serve, body: dict[str, Any]) -> None:
    answer = serve().post("/api/presets/p", body)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("That was not understood: ")


def test_a_reply_uses_what_was_chosen_and_the_model_s_defaults_for_the_rest(serve: Serve) -> None:
    served = serve()
    client = served.ready_client()
    params = {"temperature": 0.5, "seed": 7, "max_tokens": 40, "stop": ["ll"]}
    opening = {**BRIEF, "params": params}
    assert counted(client)["reserve"] == 512 // 4
    assert counted(client, opening=opening)["reserve"] == 40
    accepted, finished = client.say_and_wait("hello", opening=opening)
    reply = reply_of(served, accepted)
    assert reply.params is not None
    assert {name: reply.params[name] for name in params} == params
    assert reply.params["top_p"] == 1.0
    assert reply.text == "he"
    assert finished["context"]["reserve"] == 40
    kept = Conversations(served.database).get(accepted["conversation_id"]).choices
    assert kept.params == params
    again, _ = client.say_and_wait("hello", **place(accepted))
    assert reply_of(served, again).params == reply.params


def test_values_out_of_range_are_refused_at_their_field_and_change_nothing(serve: Serve) -> None:
    served = serve()
    client = served.ready_client()
    accepted, _ = client.say_and_wait("hello")
    answer = choose(served, accepted, params={"top_p": 1.5})
    assert answer.status_code == 400
    refusal = {"error": "top_p is 1.5; it must be above 0 and at most 1.", "field": "top_p"}
    assert answer.json() == refusal
    assert served.post("/api/opening", {**BRIEF, "params": {"top_p": 1.5}}).json() == refusal
    assert served.post("/api/defaults", {"params": {"top_p": 1.5}}).json() == refusal
    assert Conversations(served.database).get(accepted["conversation_id"]).choices.params == {}
    ref = client.send("send", text="x", opening={**BRIEF, "params": {"temperature": 9}})
    assert client.wait_for("error", ref=ref)["code"] == "bad_params"
    assert len(Conversations(served.database).list_recent()) == 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b'{"system_prompt": 3}',
        b'{"system_prompt": "", "colour": "red"}',
        b'{"system_prompt": "x\\ud800y"}',
        b'{"system_prompt": "", "params": {"stop": [""]}}',
        b'{"system_prompt": "", "params": {"ignore_eos": true}}',
        b'{"system_prompt": "%s"}' % (b"x" * 8_001),
        b"[" * 60_000,
    ],
)
def test_settings_that_make_no_sense_are_refused_in_a_sentence(serve: Serve, body: bytes) -> None:
    served = serve()
    answer = served.post_bytes("/api/opening", body)
    assert answer.status_code == 400
    assert answer.json()["error"].endswith(".")


def test_a_change_shows_on_other_devices_and_the_next_reply_says_what_was_lost(serve: Serve) -> None:
    served = serve()
    client, other = served.ready_client(), served.ready_client()
    accepted, _ = client.say_and_wait("hello there, tell me something")
    other.send("watch", conversation_id=accepted["conversation_id"])
    other.wait_for("snapshot")
    changes = {"system_prompt": "Be <long>.", "params": {"max_tokens": 10}}
    for _ in range(2):  # repeated, it does no harm
        assert choose(served, accepted, **changes).status_code == 204
    frame = other.wait_for("settings", conversation_id=accepted["conversation_id"])
    assert "Be &lt;long&gt;." in frame["system_html"]
    assert frame["context"]["reserve"] == 10
    again, _ = client.say_and_wait("go on", **place(accepted))
    context = reply_of(served, again).context
    assert context is not None
    assert context["reuse_lost"] == "the system prompt was changed"


def test_the_sheet_shows_what_was_chosen_beside_the_model_s_own_values(serve: Serve) -> None:
    served = serve()
    client = served.ready_client()
    accepted, _ = client.say_and_wait("hello", opening={**BRIEF, "params": {"temperature": 0.25}})
    html = served.get(f"/api/conversations/{accepted['conversation_id']}/settings").text
    assert 'name="temperature" inputmode="decimal" autocomplete="off" value="0.25" placeholder="0"' in html
    assert 'name="max_tokens" inputmode="numeric" autocomplete="off" value="" placeholder="128"' in html
    assert "Allowed: whole numbers, 1 to 128." in html
    assert 'id="thinking"' not in html
    assert served.get("/api/conversations/none/settings").status_code == 404


def test_new_chats_begin_with_a_person_s_defaults(serve: Serve) -> None:
    served = serve()
    client = served.ready_client()
    save_preset(served, shared=False)
    defaults = {"params": {"top_k": 3}, "preset_id": "cook"}
    assert served.post("/api/defaults", {**defaults, "preset_id": "none"}).status_code == 404
    assert served.post("/api/defaults", defaults).status_code == 204
    assert "never use salt" in served.get("/").text
    accepted, _ = client.say_and_wait("hello")
    conversation = Conversations(served.database).get(accepted["conversation_id"])
    assert (conversation.system_prompt, conversation.choices.params) == (COOK, {"top_k": 3})
    served.post("/api/presets/cook/delete", {})
    later, _ = client.say_and_wait("hello")
    conversation = Conversations(served.database).get(later["conversation_id"])
    assert (conversation.system_prompt, conversation.choices.params) == ("Be brief.", {"top_k": 3})


def test_thinking_is_chosen_for_one_chat_where_the_model_has_a_switch(serve: Serve) -> None:
    served = serve(template=SWITCHED)
    client = served.ready_client()
    assert 'id="thinking"' in served.get("/api/settings").text
    usual = counted(client)
    without = counted(client, opening={**BRIEF, "thinking": False})
    assert without["window"] == usual["window"]
    accepted, _ = client.say_and_wait("hello", opening={**BRIEF, "thinking": False})
    context = reply_of(served, accepted).context
    assert context is not None
    assert context["thinking"] is False
    choose(served, accepted, thinking=True)
    again, _ = client.say_and_wait("hello", **place(accepted))
    context = reply_of(served, again).context
    assert context is not None
    assert context["thinking"] is True


def pin(served: Served, message_id: str, pinned: bool = True) -> None:
    assert served.post(f"/api/messages/{message_id}/pin", {"pinned": pinned}).status_code == 204


def test_a_pinned_message_stays_in_the_prompt_when_older_and_newer_ones_leave(serve: Serve) -> None:
    served = serve(lambda prompt: "MARK" if "first" in prompt.rpartition("user\n")[2] else "ok" * 20)
    client = served.ready_client()
    accepted, _ = client.say_and_wait("zero " + "x" * 40)
    oldest = accepted["user_id"]
    accepted, _ = client.say_and_wait("the first " + "x" * 20, **place(accepted))
    kept = accepted["user_id"], accepted["reply_id"]
    for _ in range(2):
        pin(served, accepted["reply_id"])
    frame = client.wait_for("pinned", message_id=accepted["reply_id"])
    assert frame["pinned"] is True
    assert frame["context"]["pinned"] > len("the first ") + 20
    for number in range(5):
        accepted, _ = client.say_and_wait(f"{number} " + "y" * 30, **place(accepted))
    context = reply_of(served, accepted).context
    assert context is not None
    assert oldest in context["left_out"]
    assert not set(kept) & set(context["left_out"])
    assert context["pinned"] == frame["context"]["pinned"]
    html = served.get(f"/c/{accepted['conversation_id']}").text
    assert html.index("data-pinned") < html.index('<p class="cut">')
    pin(served, kept[1], False)
    unpinned, _ = client.say_and_wait("and now", **place(accepted))
    context = reply_of(served, unpinned).context
    assert context is not None
    assert set(kept) <= set(context["left_out"])
    pin(served, kept[1])
    again, _ = client.say_and_wait("and again", **place(unpinned))
    context = reply_of(served, again).context
    assert context is not None
    assert context["reuse_lost"] == "messages that had been left out are read again"


def test_a_message_that_pins_leave_no_room_for_is_refused_with_their_number(serve: Serve) -> None:
    served = serve(lambda prompt: "ok")
    client = served.ready_client()
    accepted, _ = client.say_and_wait("p" * 200)
    pin(served, accepted["user_id"])
    pinned = client.wait_for("pinned")["context"]["pinned"]
    ref = client.send("send", text="q" * 150, **place(accepted))
    error = client.wait_for("error", ref=ref)
    assert error["code"] == "too_long"
    assert f"{pinned} tokens of pinned messages" in error["message"]
    pin(served, accepted["user_id"], False)
    client.say_and_wait("q" * 150, **place(accepted))


def test_there_is_nothing_to_pin_in_what_is_not_there(serve: Serve) -> None:
    served = serve()
    assert served.post("/api/messages/none/pin", {"pinned": True}).status_code == 404
    accepted, _ = served.ready_client().say_and_wait("hello")
    address = f"/api/messages/{accepted['user_id']}/pin"
    assert served.post(address, {"pinned": "yes"}).status_code == 400
