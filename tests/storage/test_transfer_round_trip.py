"""What leaves the database comes back as it was, into any database, and never twice."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.branches import Branches
from storage.conversations import Conversations
from storage.database import Database
from storage.errors import ImportRefused
from storage.listing import Listing
from storage.preferences import Preferences
from storage.records import Choices
from storage.search import Asked, Search
from storage.transfer.exporting import Exports
from storage.transfer.importing import Imports, Outcome
from storage.transfer.reading import found
from storage.transfer.schema import (
    ExportedConversation,
    ExportedMessage,
    chosen_branch,
    document,
    json_schema,
    read_conversation,
)
from tests.storage.examples import a_reply, a_turn, an_end, follow

SCHEMA = Path(__file__).parents[2] / "docs" / "export-format.schema.json"
NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)

numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
records = st.none() | st.dictionaries(st.text(max_size=8), values, max_size=3)
moments = st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
replies = st.fixed_dictionaries(
    {},
    optional={
        "role": st.just("assistant"),
        "text": st.text(),
        "status": st.sampled_from(["done", "interrupted"]),
        "finished_at": moments,
        "model": st.text(max_size=9),
        "finish_reason": st.sampled_from(["stop", "length", "abort", "error"]),
        "error": st.text(),
        "reasoning": st.text(),
        "pinned": st.booleans(),
        "params": records,
        "usage": records,
        "timings": records,
        "context": records,
        "token_ids": st.lists(st.integers(0, 2**31 - 1), max_size=5).map(tuple),
    },
)


@st.composite
def trees(draw: st.DrawFn) -> ExportedConversation:
    """Any conversation: its tree is a list of parents, each before its children."""
    count = draw(st.integers(0, 7))
    ids = [uuid4().hex for _ in range(count)]
    messages = []
    for i in range(count):
        parent = draw(st.none() | st.sampled_from(ids[:i])) if i else None
        fields = {"role": "user", "text": "", "created_at": draw(moments), **draw(replies)}
        messages.append(ExportedMessage(id=ids[i], parent_id=parent, **fields))
    named = st.none() | st.sampled_from(ids) if ids else st.none()
    return ExportedConversation(
        id=uuid4().hex,
        title=draw(st.text(max_size=200)),
        origin=draw(st.none() | st.just("ChatGPT")),
        created_at=draw(moments),
        updated_at=draw(moments),
        pinned=draw(st.booleans()),
        archived=draw(st.booleans()),
        system_prompt=draw(st.text()),
        params=draw(records),
        thinking=draw(st.none() | st.booleans()),
        head_id=draw(named),
        cut_id=draw(named),
        messages=tuple(messages),
    )


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Database, Database]]:
    """Two databases that fill with every example: conversations come into company."""
    opened = [Database.open(tmp_path_factory.mktemp("data")) for _ in range(2)]
    yield opened[0], opened[1]
    for database in opened:
        database.close()


def one_file(database: Database, conversation_id: str) -> bytes:
    return b"".join(document([Exports(database).conversation(conversation_id)]))


def read_file(path: Path, content: bytes) -> list[ExportedConversation]:
    path.write_bytes(content)
    return [each.read() for each in found(path) if not isinstance(each, ImportRefused)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(tree=trees())
def test_an_exported_file_is_the_same_byte_for_byte_after_an_import(
    two: tuple[Database, Database], tmp_path: Path, tree: ExportedConversation
) -> None:
    first, second = two
    Imports(first).add(tree)
    exported = one_file(first, tree.id)
    (again,) = read_file(tmp_path / "file", exported)
    assert Imports(second).add(again) == (Outcome.IMPORTED, tree.id)
    assert one_file(second, tree.id) == exported
    assert Imports(second).add(again) == (Outcome.ALREADY_HERE, tree.id)
    assert {m.id: m for m in again.messages} == {m.id: m for m in tree.messages}


def test_everything_of_a_lived_conversation_is_in_its_file(database: Database, tmp_path: Path) -> None:
    conversations = Conversations(database)
    turn = conversations.begin_turn(a_turn(text="첫째"))
    conversations.finish(turn.reply.id, an_end("네.", reasoning="음", context={"left_out": []}))
    other = conversations.begin_reply(a_reply(turn)).reply
    conversations.finish(other.id, an_end("아니요.", finish_reason="abort"))
    running = follow(conversations, turn, text="둘째")
    conversations.checkpoint(running.reply.id, "half", (7,))
    gone = follow(conversations, turn, text="지울 것")
    Branches(database, lambda _: None).delete(turn.conversation.id, gone.user.id)
    Preferences(database).pin(turn.user.id, True)
    Preferences(database).choose(turn.conversation.id, "Be long.", Choices({"top_k": 3}, True))
    exported = one_file(database, turn.conversation.id)
    (chat,) = read_file(tmp_path / "file", exported)
    by_id = {message.id: message for message in chat.messages}
    assert set(by_id) == {turn.user.id, turn.reply.id, other.id, running.user.id, running.reply.id}
    assert (chat.system_prompt, chat.params, chat.thinking) == ("Be long.", {"top_k": 3}, True)
    reply = by_id[turn.reply.id]
    assert (reply.token_ids, reply.usage, reply.timings) == (
        *((1, 2, 2**31 - 1), {"prompt_tokens": 3}, {"ttft": 0.25}),
    )
    assert (reply.reasoning, reply.model, reply.params) == (
        *("음", "scripted", {"temperature": 0.0, "stop": ["\n"]}),
    )
    assert by_id[turn.user.id].pinned
    half = by_id[running.reply.id]
    assert (half.status, half.text, half.token_ids) == ("interrupted", "half", (7,))


def test_all_conversations_are_exported_as_they_were_at_one_moment(database: Database) -> None:
    conversations = Conversations(database)
    turns = [conversations.begin_turn(a_turn(text=str(n))) for n in range(3)]
    everything = Exports(database).everything()
    first = next(everything)
    conversations.begin_turn(a_turn(text="later"))
    conversations.rename(turns[2].conversation.id, "changed")
    Listing(database).delete(turns[1].conversation.id)
    rest = list(everything)
    assert {chat.id for chat in (first, *rest)} == {turn.conversation.id for turn in turns}
    assert {chat.title for chat in (first, *rest)} == {"Greetings"}
    assert json.loads(b"".join(document(Exports(database).everything())))["version"] == 1


def a_chat(*texts: str, number: int = 0, **changes: Any) -> ExportedConversation:
    """Messages one after another, the user's first."""
    ids = [f"m{number}-{i}" for i in range(len(texts))]
    messages = tuple(
        ExportedMessage(
            id=ids[i],
            parent_id=ids[i - 1] if i else None,
            role="assistant" if i % 2 else "user",
            text=text,
            created_at=NOON,
        )
        for i, text in enumerate(texts)
    )
    head = ids[-1] if ids else None
    values = {"title": "t", "created_at": NOON, "updated_at": NOON, "head_id": head, "messages": messages}
    return ExportedConversation(**{"id": f"c{number}", **values, **changes})


def test_what_was_imported_is_found_and_again_what_was_deleted(database: Database) -> None:
    imports, search = Imports(database), Search(database)
    imports.add(a_chat("따뜻한 바닥", "warm floor"))
    Listing(database).delete(search.find(Asked("바닥"), 9).hits[0].conversation_id)
    assert search.find(Asked("floor"), 9).hits == ()
    imports.add(a_chat("따뜻한 바닥", "warm floor", "and the floor again"))
    assert [hit.text for hit in search.find(Asked("floor"), 9).hits] == ["and the floor again", "warm floor"]


def test_what_went_on_elsewhere_is_added_and_what_went_on_here_stays(database: Database) -> None:
    imports, exports = Imports(database), Exports(database)
    imports.add(a_chat("a", "b"))
    assert imports.add(a_chat("a", "b", "c", "d")) == (Outcome.UPDATED, "c0")
    assert [m.text for m in chosen_branch(exports.conversation("c0"))] == ["a", "b", "c", "d"]
    assert imports.add(a_chat("a", "b")) == (Outcome.ALREADY_HERE, "c0")
    assert [m.text for m in chosen_branch(exports.conversation("c0"))] == ["a", "b", "c", "d"]


def test_a_reply_that_was_continued_here_is_already_here(database: Database) -> None:
    imports = Imports(database)
    imports.add(a_chat("a", "once upon a time"))
    assert imports.add(a_chat("a", "once upon")) == (Outcome.ALREADY_HERE, "c0")


@pytest.mark.parametrize(
    "other",
    [
        a_chat("other", "b"),
        a_chat("a", "another"),
        a_chat("a", "b", id="elsewhere"),
    ],
    ids=["another question", "another reply", "its messages in another conversation"],
)
def test_where_ids_mean_something_else_a_copy_comes_in_once(
    database: Database, other: ExportedConversation
) -> None:
    imports, exports = Imports(database), Exports(database)
    imports.add(a_chat("a", "b"))
    outcome, copy_id = imports.add(other)
    assert outcome is Outcome.IMPORTED
    assert copy_id not in ("c0", "elsewhere")
    copy = exports.conversation(copy_id)
    assert [m.text for m in chosen_branch(copy)] == [m.text for m in other.messages]
    assert [m.text for m in chosen_branch(exports.conversation("c0"))] == ["a", "b"]
    assert imports.add(other) == (Outcome.ALREADY_HERE, copy_id)


def test_a_copy_names_its_own_messages(database: Database) -> None:
    imports = Imports(database)
    imports.add(a_chat("a", "b"))
    other = a_chat("A", "B")
    said = {"left_out": ["m0-0"], "repeats": "m0-1", "window": 8}
    reply = msgspec.structs.replace(other.messages[1], context=said)
    other = msgspec.structs.replace(other, cut_id="m0-0", messages=(other.messages[0], reply))
    copy = Exports(database).conversation(imports.add(other)[1])
    question, answer = copy.messages
    assert copy.cut_id == question.id
    assert answer.context == {"left_out": [question.id], "repeats": answer.id, "window": 8}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"head_id": "absent"}, "not in it"),
        ({"cut_id": "absent"}, "not in it"),
        ({"messages": a_chat("a", "b").messages[::-1]}, "does not stand before it"),
        ({"messages": a_chat("a").messages * 2, "head_id": None}, "twice"),
        ({"title": "x" * 201}, "200"),
        ({"id": "../../etc"}, "[Ee]xpected"),
    ],
)
def test_a_file_that_was_changed_into_nonsense_is_refused(changes: dict[str, Any], why: str) -> None:
    broken = msgspec.json.encode(msgspec.structs.replace(a_chat("a", "b"), **changes))
    with pytest.raises(ImportRefused, match=why):
        read_conversation(broken)


@pytest.mark.parametrize("unknown", ["conversation", "message"])
def test_a_field_of_a_newer_version_is_refused_and_not_lost(unknown: str) -> None:
    chat = msgspec.to_builtins(a_chat("a", "b"))
    (chat if unknown == "conversation" else chat["messages"][0])["newer"] = 1
    with pytest.raises(ImportRefused, match="newer"):
        read_conversation(msgspec.json.encode(chat))


def test_a_file_that_somebody_wrote_anew_is_still_read(tmp_path: Path) -> None:
    written = json.loads(b"".join(document([a_chat("a", "b"), a_chat("c", number=1)])))
    pretty = json.dumps(dict(reversed(written.items())), indent=2).encode()
    assert [chat.id for chat in read_file(tmp_path / "file", pretty)] == ["c0", "c1"]


def test_the_published_schema_is_the_one_that_is_checked() -> None:
    assert json.loads(SCHEMA.read_text("utf-8")) == json.loads(json.dumps(json_schema()))


def test_a_long_conversation_with_many_branches_comes_back(database: Database) -> None:
    ids = [f"{n:032}" for n in range(3_000)]
    messages = tuple(
        ExportedMessage(
            id=ids[n],
            parent_id=ids[n - 1 - (n % 7 == 0)] if n > 1 else None,
            role="assistant" if n % 2 else "user",
            text=str(n),
            created_at=NOON,
        )
        for n in range(len(ids))
    )
    chat = ExportedConversation(
        id="long", title="", created_at=NOON, updated_at=NOON, head_id=ids[-1], messages=messages
    )
    assert Imports(database).add(chat) == (Outcome.IMPORTED, "long")
    again = Exports(database).conversation("long")
    assert {m.id: m for m in again.messages} == {m.id: m for m in messages}
    order = {message.id: place for place, message in enumerate(again.messages)}
    assert all(order[m.parent_id] < order[m.id] for m in again.messages if m.parent_id)
    assert len(list(itertools.chain(document([again])))) == 3
