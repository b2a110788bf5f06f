"""Frames: typed values or one clear refusal, whatever a client sends."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.commands import BadFrame, Count, RetryModel, Send, Stop, Watch, decode
from web.protocol import Delta, Error, encode

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        ('{"type":"send","id":"a1","text":"hi"}', Send("a1", "hi")),
        (
            '{"type":"send","id":"a1","text":"hi","conversation_id":"c","parent_id":"m"}',
            Send("a1", "hi", "c", "m"),
        ),
        ('{"type":"stop","id":"a2","message_id":"m"}', Stop("a2", "m")),
        ('{"type":"watch","id":"a3","conversation_id":"c"}', Watch("a3", "c")),
        ('{"type":"count","id":"a4","text":""}', Count("a4", "")),
        ('{"type":"retry_model","id":"a5"}', RetryModel("a5")),
    ],
)
def test_commands_become_typed_values(frame: str, expected: object) -> None:
    assert decode(frame) == expected


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "nonsense",
        "[]",
        "null",
        "{}",
        '{"type":"send"}',
        '{"type":"send","id":"a","text":""}',
        '{"type":"send","id":"a","text":7}',
        '{"type":"send","id":"a","text":"x","colour":"red"}',
        '{"type":"send","id":"a b","text":"x"}',
        '{"type":"send","id":"","text":"x"}',
        '{"type":"stop","id":"a"}',
        '{"type":"watch","id":"a","conversation_id":"c","after_seq":-1}',
        '{"type":"watch","id":"a","conversation_id":"c","after_seq":1e400}',
        '{"type":"watch","id":"a","conversation_id":"c","after_seq":NaN}',
        '{"type":"watch","id":"a","conversation_id":"../../etc/passwd"}',
        '{"type":"erase","id":"a"}',
        '{"type":"send","id":"a","text":"\\ud800"}',
        '{"type":"count","id":"a","text":"\\udc00 x"}',
        "[" * 60_000,
        '{"type":"send","id":' + "9" * 5_000 + ',"text":"x"}',
        b"\xff\xfe",
    ],
)
def test_anything_else_is_refused_in_a_sentence(frame: str | bytes) -> None:
    with pytest.raises(BadFrame, match=r"^That frame was not understood: .+\.$"):
        decode(frame)


def test_the_refusal_names_the_command_where_it_can() -> None:
    with pytest.raises(BadFrame) as refusal:
        decode('{"type":"send","id":"a7","text":7}')
    assert refusal.value.ref == "a7"


@given(JSON)
def test_no_json_at_all_gets_past_untyped(value: object) -> None:
    try:
        command = decode(json.dumps(value))
    except BadFrame:
        return
    assert isinstance(command, Send | Stop | Watch | Count | RetryModel)


def test_unset_parts_of_a_delta_are_not_sent() -> None:
    assert msgspec.json.decode(encode(Delta("m", 3, ("<p>a</p>",)))) == {
        "type": "delta",
        "message_id": "m",
        "seq": 3,
        "blocks": ["<p>a</p>"],
    }


def test_an_error_carries_both_numbers() -> None:
    frame = msgspec.json.decode(encode(Error("too_long", "Too long.", "a", 900, 512)))
    assert (frame["needed"], frame["limit"], frame["ref"]) == (900, 512, "a")
