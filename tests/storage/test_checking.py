from __future__ import annotations

import shutil
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from storage.branches import Branches
from storage.checking import Checked, Fault, check
from storage.conversations import Conversations
from storage.database import Database
from storage.errors import DamagedDatabase, SchemaTooNew
from storage.files import FILE_NAME
from storage.listing import Listing
from storage.records import NewScores
from storage.reindexing import rebuild_index
from storage.scores import Scores
from storage.search import Asked, Search
from storage.sqlite import load_library
from tests.storage.examples import (
    a_continuation,
    a_reply,
    a_turn,
    an_end,
    contents,
    follow,
    make_first_schema,
)

EVERYTHING = "SELECT message_id, conversation_id FROM search_entries ORDER BY 1, 2"


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two conversations in which everything was done that people do, and that nobody uses now."""
    folder = tmp_path_factory.mktemp("used")
    with closing(Database.open(folder)) as database:
        conversations, branches = Conversations(database), Branches(database, lambda messages: None)
        turn = conversations.begin_turn(a_turn(text="온돌 바닥"))
        conversations.finish(turn.reply.id, an_end("따뜻한 방"))
        Scores(database).keep(turn.reply.id, NewScores("scripted", {}, 3, b"scores"))
        other = conversations.begin_reply(a_reply(turn))
        conversations.finish(other.reply.id, an_end("또 다른 답"))
        later = follow(conversations, other, text="그리고?")
        conversations.finish(later.reply.id, an_end("끝"))
        conversations.begin_continuation(a_continuation(later))
        conversations.finish(later.reply.id, an_end("끝이 아니다"))
        branches.delete(turn.conversation.id, other.reply.id)
        second = conversations.begin_turn(a_turn(text="?", title="Second"))
        conversations.finish(second.reply.id, an_end(""))
        Listing(database).delete(second.conversation.id)
    return folder / FILE_NAME


@pytest.fixture
def path(folder: Path, used: Path) -> Path:
    folder.mkdir()
    return shutil.copy(used, folder / FILE_NAME)


def run(path: Path, *statements: str) -> None:
    with closing(load_library().connect(str(path))) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def faults(found: Checked) -> dict[Fault, int]:
    return {fault: len(ids) for fault, ids in found.ids.items() if ids}


def test_what_people_do_leaves_nothing_wrong_and_checking_changes_nothing(path: Path) -> None:
    before = contents(path.parent)
    found = check(path)
    assert faults(found) == {}
    assert (found.damage, len(found.conversation_ids), found.messages) == ("", 2, 7)
    assert set(found.ids) == set(Fault)
    assert contents(path.parent) == before


def test_what_is_still_in_the_log_is_looked_at(path: Path) -> None:
    with closing(Database.open(path.parent)) as database:
        Conversations(database).begin_turn(a_turn())
        assert faults(check(path)) == {Fault.UNFINISHED: 1}


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (
            "UPDATE messages SET parent_id = 'gone' WHERE text = '따뜻한 방'",
            {Fault.PARENT_MISSING: 1, Fault.REFERENCE: 1},
        ),
        (
            "UPDATE messages SET parent_id = (SELECT id FROM messages WHERE text = '?')"
            " WHERE text = '따뜻한 방'",
            {Fault.PARENT_ELSEWHERE: 1},
        ),
        ("UPDATE conversations SET head_id = 'gone'", {Fault.HEAD: 2}),
        (
            "UPDATE conversations SET head_id = (SELECT id FROM messages WHERE text = '?')"
            " WHERE title <> 'Second'",
            {Fault.HEAD: 1},
        ),
        ("UPDATE conversations SET cut_id = 'gone' WHERE title = 'Second'", {Fault.CUT: 1}),
        ("UPDATE token_scores SET message_id = 'gone'", {Fault.SCORES: 1, Fault.REFERENCE: 1}),
        ("UPDATE conversations SET person_id = 'gone' WHERE title = 'Second'", {Fault.PERSON: 1}),
        ("UPDATE messages SET status = 'running' WHERE text = '끝이 아니다'", {Fault.UNFINISHED: 1}),
        ("DELETE FROM search_entries", {Fault.TEXT_WITHOUT_ENTRY: 4}),
        (
            "UPDATE search_entries SET message_id = 'gone' WHERE message_id = (SELECT id FROM messages"
            " WHERE text = '온돌 바닥')",
            {Fault.ENTRY_WITHOUT_TEXT: 1, Fault.TEXT_WITHOUT_ENTRY: 1, Fault.REFERENCE: 1},
        ),
        (
            "UPDATE search_entries SET message_id = (SELECT id FROM messages WHERE text = '또 다른 답')"
            " WHERE message_id = (SELECT id FROM messages WHERE text = '온돌 바닥')",
            {Fault.ENTRY_WITHOUT_TEXT: 1, Fault.TEXT_WITHOUT_ENTRY: 1},
        ),
        (
            "INSERT INTO search_index(rowid, grams) VALUES (7, 'stray')",
            {Fault.ENTRY_WITHOUT_TEXT: 1},
        ),
    ],
)
def test_each_fault_is_found_and_counted(path: Path, statement: str, expected: dict[Fault, int]) -> None:
    run(path, statement)
    assert faults(check(path)) == expected


def test_a_damaged_page_is_told_and_nothing_else_is_looked_at(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(3 * 4096)
        file.write(b"\xff" * 4096)
    found = check(path)
    assert found.damage.startswith(f"{path} is damaged (")
    assert found.ids == {}


def test_a_file_of_another_program_and_a_newer_one_are_told_apart(path: Path) -> None:
    run(path, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(SchemaTooNew):
        check(path)
    path.write_bytes(b"no database" * 1000)
    assert check(path).damage == f"{path} is not a database."


def test_of_an_older_schema_only_the_references_are_looked_at(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    make_first_schema(path)
    found = check(path)
    assert (found.is_current, found.revision, set(found.ids)) == (
        False,
        "0001",
        {Fault.INDEX, Fault.REFERENCE},
    )


SPOILED = "UPDATE search_index_data SET block = zeroblob(50) WHERE id > 10"


@pytest.mark.parametrize("statement", ["SELECT 1", "DELETE FROM search_entries", SPOILED])
def test_the_index_made_anew_finds_what_the_old_one_found(path: Path, statement: str) -> None:
    with closing(load_library().connect(str(path))) as connection:
        before = connection.execute(EVERYTHING).fetchall()
    run(path, statement)
    with closing(Database(path, load_library())) as database:
        assert rebuild_index(database) == len(before) == 4
        hits = Search(database).find(Asked("바닥"), 10).hits
        assert [hit.text for hit in hits] == ["온돌 바닥"]
        assert Search(database).find(Asked("또 다른"), 10).hits == ()
    with closing(load_library().connect(str(path))) as connection:
        assert connection.execute(EVERYTHING).fetchall() == before
    assert faults(check(path)) == {}


def test_a_damaged_index_keeps_the_server_from_starting_and_says_how_to_mend_it(path: Path) -> None:
    run(path, SPOILED)
    with pytest.raises(DamagedDatabase, match="`ondol check --repair`"):
        Database.open(path.parent)
    assert Fault.INDEX in faults(check(path))


def test_after_purging_nothing_is_left_behind(path: Path) -> None:
    with closing(Database.open(path.parent)) as database:
        for each in (Branches(database, lambda messages: None), Listing(database)):
            each.purge(datetime.now(UTC))
    assert faults(check(path)) == {}
