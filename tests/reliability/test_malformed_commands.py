"""Text frames that are no command of ours: each gets one error frame that names it; the socket lives on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, TypeAlias

import pytest
from websockets.exceptions import ConnectionClosed

from tests.web.conftest import echo
from tests.web.serving import Served
from web.socket_limits import Conduct, SocketLimits

Fields: TypeAlias = dict[str, Any]
Bad: TypeAlias = tuple[str | bytes, str | None]
"""A frame, and the id that its error has to repeat; where that is in pieces, it may be left out."""

PLACE = {"conversation_id": "c1", "message_id": "m1"}
PARAMS: Fields = {
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 40,
    "min_p": 0.1,
    "repetition_penalty": 1.1,
    "presence_penalty": 0.1,
    "frequency_penalty": 0.1,
    "seed": 7,
    "max_tokens": 99,
    "stop": ["end"],
}
OPENING: Fields = {"system_prompt": "Be kind.", "thinking": False, "params": PARAMS}
DRAFT: Fields = {"text": "hi", "conversation_id": "c1", "parent_id": "m1", "opening": OPENING}
COMMANDS: dict[str, Fields] = {
    "send": DRAFT,
    "edit": {**PLACE, "text": "hi"},
    "regenerate": {**PLACE, "repeat": False, "params": PARAMS},
    "continue": PLACE,
    "switch": PLACE,
    "delete_branch": PLACE,
    "restore_branch": PLACE,
    "stop": {"message_id": "m1"},
    "watch": {"conversation_id": "c1", "head_id": "m1", "after_seq": 3, "running": True},
    "count": DRAFT,
    "retry_model": {},
}
NEEDED = {"text", "system_prompt", "message_id"}
IDS = {"conversation_id", "message_id", "parent_id", "head_id"}
BAD_IDS = ["", " ", "a b", "é", "../etc", "a\0b", "x" * 65, "a\n", "<b>", "'; --"]
LONE = ["\ud800", "warm \udfff floor", "\udc00\ud800"]
BEYOND = [10**30, -(10**30), 10**400]
UNKNOWN = ["colour", "__proto__", "Text", "text ", "", "constructor", "\0", "ref"]


def a_command(random: Random) -> tuple[str, Fields]:
    """A command with every field that it can have, and its id."""
    kind = random.choice(list(COMMANDS))
    fields: Fields = json.loads(json.dumps(COMMANDS[kind]))
    ref = f"r{random.randrange(10**9)}"
    return ref, {"type": kind, "id": ref, **fields}


def places(fields: Fields) -> list[tuple[Fields, str]]:
    """Every field, also within others."""
    found = [(fields, name) for name in fields]
    for value in fields.values():
        found += places(value) if isinstance(value, dict) else []
    return found


def wrong_for(name: str, value: Any, random: Random) -> Any:
    """Something that this field cannot be."""
    wrong: list[Any] = [[], ["x"], {"a": 1}, [[[]]]]
    if name in IDS:
        return random.choice([*wrong, *BAD_IDS, 7, True, 1.5])
    if isinstance(value, bool):
        return random.choice([*wrong, "yes", "true", 0, 1, 0.5])
    if isinstance(value, str):
        return random.choice([*wrong, 7, False, -0.5, *LONE])
    if isinstance(value, list):
        return random.choice(["end", 5, {}, [7], [""], [None], ["x" * 999], ["a"] * 99, LONE[:1]])
    if isinstance(value, dict):
        return random.choice([[], "x", 5, [1], True])
    return random.choice([*wrong, "1", "NaN", True, *(BEYOND if name == "after_seq" else ())])


def of_wrong_type(random: Random) -> Bad:
    ref, frame = a_command(random)
    holder, name = random.choice([p for p in places(frame) if p[1] not in ("type", "id")] or [(frame, "x")])
    holder[name] = wrong_for(name, holder[name], random) if name in holder else 1
    return json.dumps(frame), ref


def without_a_needed_field(random: Random) -> Bad:
    ref, frame = a_command(random)
    needed = [(h, n) for h, n in places(frame) if n in NEEDED or (n == "conversation_id" and "type" in h)]
    if frame["type"] in ("send", "count"):
        needed = [(h, n) for h, n in needed if n != "conversation_id"]
    if not needed:
        return json.dumps({"id": ref}), ref
    holder, name = random.choice(needed)
    if random.randrange(2):
        del holder[name]
    else:
        holder[name] = None
    return json.dumps(frame), ref


def with_an_unknown_field(random: Random) -> Bad:
    ref, frame = a_command(random)
    holders = [frame, *(value for value in frame.values() if isinstance(value, dict))]
    random.choice(holders)[random.choice(UNKNOWN)] = random.choice([None, 1, "x", [], {}])
    return json.dumps(frame), ref


def of_an_unknown_type(random: Random) -> Bad:
    ref, frame = a_command(random)
    frame["type"] = random.choice(
        ["erase", "Send", "send ", "", "\0", "x" * 999, None, 7, [], {}, "accepted"]
    )
    if random.randrange(5) == 0:
        del frame["type"]
    return json.dumps(frame), ref


def with_a_bad_id(random: Random) -> Bad:
    _, frame = a_command(random)
    frame["id"] = random.choice([*BAD_IDS, None, 7, 1.5, True, [], {}, ["a"], "\ud800", 10**30])
    if random.randrange(5) == 0:
        del frame["id"]
    return json.dumps(frame), None


def with_characters_that_are_none(random: Random) -> Bad:
    ref, frame = a_command(random)
    texts = [p for p in places(frame) if p[1] in ("text", "system_prompt")]
    if not texts:
        return of_wrong_type(random)
    holder, name = random.choice(texts)
    holder[name] = random.choice([*LONE, "a\0b", "\0", "warm " * 99 + "\0"])
    return json.dumps(frame), ref


def that_is_no_json(random: Random) -> Bad:
    _, frame = a_command(random)
    text = json.dumps(frame)
    cut = random.randrange(len(text))
    broken = [
        text[:cut],
        text + random.choice(["}", ",", "x", "{}", "[]", "//"]),
        text.replace('"', "'"),
        text.replace(":", "=", 1),
        text[:-1] + random.choice([",}", ",,", "]", '"']),
        text[:-1]
        + ', "x": '
        + random.choice(["NaN", "Infinity", "-Infinity", "01", ".5", "+1", "0x1", "1e"])
        + "}",
        text[:-1] + ', "x": "' + random.choice(["\0", "\n", "\t", "\\x", "\\u12", "\\"]) + '"}',
        "\ufeff" + text,
        "",
        " " * random.randrange(1, 60_000),
    ]
    return random.choice(broken), f"{frame['id']}?"


def that_is_something_else(random: Random) -> Bad:
    return (
        random.choice(
            [
                "null",
                "true",
                "[]",
                "7",
                '"send"',
                "-0",
                "1e999",
                "[" * random.randrange(1, 60_000),
                '{"a":' * random.randrange(1, 10_000),
                "[" * 30_000 + "]" * 30_000,
                json.dumps([0] * random.randrange(20_000)),
                json.dumps({f"k{i}": i for i in range(random.randrange(4_000))}),
                "9" * random.randrange(20, 60_000),
                random.randbytes(random.randrange(1, 900)) + b"\xff",
                b"\xef\xbb\xbf{}",
            ]
        ),
        None,
    )


def with_an_id_before_depth(random: Random) -> Bad:
    """Nested so deeply that the rest is not read to its end: it is named all the same where it can be."""
    ref, frame = a_command(random)
    text = json.dumps(frame)
    return text[:-1] + ', "x": ' + "[" * 20_000 + "]" * 20_000 + "}", ref


def with_a_huge_number(random: Random) -> Bad:
    ref = f"r{random.randrange(10**9)}"
    digits = "9" * random.randrange(400, 60_000)
    field = random.choice(['"after_seq": ', '"conversation_id": ', '"running": ', '"x": '])
    return f'{{"type": "watch", "id": "{ref}", "conversation_id": "c", {field}{digits}}}', ref


def with_a_field_twice(random: Random) -> Bad:
    """The last of two counts, as in every browser."""
    ref = f"r{random.randrange(10**9)}"
    return f'{{"type": "stop", "id": "other", "message_id": "m", "id": "{ref}", "message_id": 7}}', ref


KINDS: list[Callable[[Random], Bad]] = [
    of_wrong_type,
    of_wrong_type,
    of_wrong_type,
    without_a_needed_field,
    with_an_unknown_field,
    of_an_unknown_type,
    with_a_bad_id,
    with_characters_that_are_none,
    that_is_no_json,
    that_is_something_else,
    with_an_id_before_depth,
    with_a_huge_number,
    with_a_field_twice,
]
AT_ONCE = 50


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("commands"), echo)
    yield served
    served.close()


@pytest.mark.row(7)
def test_each_bad_command_gets_one_error_and_the_socket_lives(served: Served, long: bool) -> None:
    client = served.ready_client()
    random = Random(7)
    for _ in range((100_000 if long else 5_000) // AT_ONCE):
        bad = [random.choice(KINDS)(random) for _ in range(AT_ONCE)]
        for frame, _ in bad:
            client.connection.send(frame)
        for frame, ref in bad:
            while (answer := client.receive())["type"] != "error":
                assert answer["type"] in ("status", "conversations")
            may_be = [None, ref[:-1]] if ref and ref.endswith("?") else [ref]
            assert answer["code"] == "bad_frame", (frame[:900], answer)
            assert answer["ref"] in may_be, (frame[:300], answer)
        client.frames.clear()
    client.say_and_wait("still here")


@pytest.mark.row(7)
def test_twenty_bad_frames_within_a_minute_close_the_socket(serve: Callable[..., Served]) -> None:
    now = [0.0]
    served = serve(limits=SocketLimits(clock=lambda: now[0]))
    client = served.ready_client()
    for _ in range(100):  # 19 within any minute
        client.connection.send("nonsense")
        client.wait_for("error", code="bad_frame")
        now[0] += 3.2
    now[0] += 60
    for _ in range(20):
        client.connection.send("nonsense")
        client.wait_for("error", code="bad_frame")
    with pytest.raises(ConnectionClosed) as closed:
        client.wait_for("nothing")
    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (
        1008,
        "too many frames that were not understood",
    )
    served.ready_client().say_and_wait("others are served")


@pytest.mark.row(7)
def test_a_socket_that_sends_without_end_is_slowed_down_and_not_cut() -> None:
    now, waited = [0.0], list[float]()

    async def pause(seconds: float) -> None:
        waited.append(seconds)

    async def send_all(frames: int, every_s: float) -> None:
        conduct = Conduct(SocketLimits(clock=lambda: now[0], pause=pause))
        for _ in range(frames):
            now[0] += every_s
            await conduct.take()

    asyncio.run(send_all(5_000, 0.2))  # a person who types all day
    assert waited == []
    asyncio.run(send_all(700, 0.0))
    assert len(waited) == 100
    assert waited == sorted(waited)
    assert (waited[0], waited[-1]) == (0.1, 10.0)
