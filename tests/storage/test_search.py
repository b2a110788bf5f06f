"""What a person finds who searches, against a look at every text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from storage.branches import Branches
from storage.bulk import Whole, keep_all
from storage.conversations import Conversations
from storage.database import Database
from storage.engine import make_engine
from storage.errors import TooShort
from storage.excerpts import excerpt, marked
from storage.files import FILE_NAME
from storage.folding import fold, fold_clusters, terms_of
from storage.grams import grams, match_of
from storage.listing import Listing
from storage.migrations import FOLDER
from storage.records import ConversationRecord, MessageRecord, Status
from storage.search import Asked, Search
from storage.sqlite import load_library
from tests.storage.examples import a_reply, a_turn, an_end, follow

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
LETTERS = st.text(st.sampled_from("ab온돌가각ㄱA é\u0301Ａﾊﾞ+- \n"), max_size=12)


class House:
    """A database by a clock that moves an hour with every look at it, and search in it."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.hours: Iterator[int] = count()
        self.conversations = Conversations(database, self.now)
        self.listing = Listing(database, self.now)
        self.branches = Branches(database, lambda messages: None, self.now)
        self.search = Search(database)

    def now(self) -> datetime:
        return NOON + timedelta(hours=next(self.hours))

    def say(self, question: str, answer: str = "", title: str = "-", model: str = "m") -> MessageRecord:
        """The reply of a new conversation."""
        turn = self.conversations.begin_turn(a_turn(text=question, title=title, model=model))
        self.conversations.finish(turn.reply.id, an_end(answer))
        return self.conversations.message(turn.reply.id)

    def found(self, query: str, **asked: object) -> list[str]:
        """The texts that are found, newest first."""
        return [hit.text for hit in self.search.find(Asked(query, **asked), limit=100).hits]  # type: ignore[arg-type]

    def entries(self) -> int:
        with self.database.read() as session:
            both = session.execute(
                text("SELECT (SELECT count(*) FROM search_entries), (SELECT count(*) FROM search_index)")
            ).one()
        assert both[0] == both[1]
        return int(both[0])


@pytest.fixture
def house(database: Database) -> House:
    return House(database)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("바닥", "따뜻한 바닥에 앉았다"),
        ("뜻한", "따뜻한 바닥에 앉았다"),
        ("물", "찬물을 마셨다"),
        ("바닥", "바닥".encode().decode()),
        ("\u1107\u1161\u1103\u1161\u11a8", "바닥"),  # in parts, as some systems write it
        ("WARM", "a warm floor"),
        ("ｗａｒｍ", "a warm floor"),
        ("loor", "a warm floor"),
        ('"warm floor"', "a warm\n floor"),
        ("“warm floor”", "a warm floor"),
        ("floor warm", "a warm floor"),
        ("strasse", "Kurze Straße"),
        ("c++", "I write C++ at home"),
        ("ai", "Said an AI"),
        ("온돌 warm", "온돌 is a warm floor"),
        ("한국어랑en", "한국어랑English"),
    ],
)
def test_a_piece_of_what_was_said_is_found(house: House, query: str, said: str) -> None:
    house.say(said)
    house.say("something else", "아무것도 아니다")
    assert house.found(query) == [said]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("바닥", "바다 닥터"),
        ("warm floor", "warmth"),
        ('"warm floor"', "floor warm"),
        ("abcab", "bcabc abca"),
    ],
)
def test_what_only_looks_alike_is_not_found(house: House, query: str, said: str) -> None:
    house.say(said)
    assert house.found(query) == []


@pytest.mark.parametrize("query", ["a", "a b", '" x "', "é"])
def test_a_single_letter_is_refused_with_one_sentence(house: House, query: str) -> None:
    with pytest.raises(TooShort, match="at least two letters"):
        house.found(query)


def test_nothing_is_found_for_nothing(house: House) -> None:
    house.say("hello")
    assert house.found("  ") == house.found('""') == []


def test_the_newest_is_found_first_and_pages_miss_and_repeat_nothing(house: House) -> None:
    for number in range(7):
        house.say(f"floor {number}")
    pages, before = [], None
    while True:
        found = house.search.find(Asked("floor"), limit=3, before=before)
        pages.append([hit.text[-1] for hit in found.hits])
        before = found.before
        if before is None:
            break
    assert pages == [["6", "5", "4"], ["3", "2", "1"], ["0"]]


def test_a_search_that_reads_much_in_vain_goes_on_with_the_next_page(house: House) -> None:
    house.say("abcdef")
    for _ in range(5):
        house.say("abc bcd cde def")
    search = Search(house.database, most_read=3)
    first = search.find(Asked("abcdef"), limit=9)
    assert first.hits == ()
    second = search.find(Asked("abcdef"), limit=9, before=first.before)
    assert ([hit.text for hit in second.hits], second.before) == (["abcdef"], None)


def test_a_title_is_found_by_the_name_that_it_has_now(house: House) -> None:
    reply = house.say("hello", title="Trip to Gangneung")
    (hit,) = house.search.find(Asked("gangneung"), limit=9).hits
    assert (hit.message_id, hit.conversation_id) == (None, reply.conversation_id)
    house.conversations.rename(reply.conversation_id, "강릉 여행")
    assert (house.found("gangneung"), house.found("강릉")) == ([], ["강릉 여행"])


def test_a_reply_is_found_once_it_has_ended(house: House) -> None:
    turn = house.conversations.begin_turn(a_turn(text="question"))
    house.conversations.checkpoint(turn.reply.id, "half a floor", (1,))
    assert house.found("floor") == []
    assert house.conversations.interrupt_leftovers() == 1
    assert house.found("floor") == ["half a floor"]


def test_the_models_replies_and_what_they_answer_are_found_by_its_name(house: House) -> None:
    house.say("floor one?", "floor!", title="floor", model="small")
    house.say("floor two?", "a floor!", title="floors", model="large")
    assert house.search.models() == ["large", "small"]
    assert sorted(house.found("floor", model="small")) == ["floor", "floor one?", "floor!"]
    assert house.found("floor", model="none") == []


def test_dates_narrow_what_is_found(house: House) -> None:
    for number in range(4):  # two looks at the clock each: begun and ended
        house.say(f"floor {number}")
    since, until = NOON + timedelta(hours=2), NOON + timedelta(hours=6)
    assert house.found("floor", since=since, until=until) == ["floor 2", "floor 1"]


def test_archived_ones_are_found_and_say_so(house: House) -> None:
    reply = house.say("an old floor")
    house.listing.archive(reply.conversation_id, True)
    (hit,) = house.search.find(Asked("floor"), limit=9).hits
    assert hit.archived


def test_a_deleted_branch_is_found_again_once_it_is_back(house: House) -> None:
    turn = house.conversations.begin_turn(a_turn(text="warm floor", title="-"))
    house.conversations.finish(turn.reply.id, an_end("warm answer"))
    again = house.conversations.begin_reply(a_reply(turn))
    house.conversations.finish(again.reply.id, an_end("warm other"))
    later = follow(house.conversations, turn, text="warm later")
    chat = turn.conversation.id
    house.branches.delete(chat, later.user.id)
    house.branches.delete(chat, turn.reply.id)
    assert house.found("warm") == ["warm other", "warm floor"]
    house.branches.restore(chat, turn.reply.id)
    assert set(house.found("warm")) == {"warm other", "warm answer", "warm floor"}
    house.branches.purge(house.now())
    assert house.found("warm later") == []
    assert house.entries() == 4  # three messages and the title


def test_a_reply_that_ends_in_a_deleted_branch_stays_out(house: House) -> None:
    turn = house.conversations.begin_turn(a_turn(text="question"))
    house.branches.delete(turn.conversation.id, turn.user.id)
    house.conversations.finish(turn.reply.id, an_end("floor"))
    assert house.found("floor") == []
    house.branches.restore(turn.conversation.id, turn.user.id)
    assert house.found("floor") == ["floor"]


def test_a_deleted_conversation_is_not_found_and_leaves_nothing_in_the_index(house: House) -> None:
    reply = house.say("warm floor", "warm answer", title="warm title")
    house.listing.delete(reply.conversation_id)
    assert house.found("warm") == []
    house.listing.restore(reply.conversation_id)
    assert len(house.found("warm")) == 3
    house.listing.delete(reply.conversation_id)
    house.listing.purge(house.now())
    assert house.entries() == 0


def test_conversations_that_are_stored_as_a_whole_are_found(database: Database, house: House) -> None:
    wholes = [a_whole(number) for number in range(300)]
    keep_all(database, wholes)
    assert len(house.search.find(Asked("바닥"), limit=1_000).hits) == 300
    assert house.found("297번째") == ["297번째 바닥"]
    assert house.conversations.path("c7") == list(wholes[7].messages)


def a_whole(number: int) -> Whole:
    """All of one moment, as imported ones may be."""
    chat = ConversationRecord(f"c{number}", "title", "", f"m{number}", None, NOON, NOON)
    said = MessageRecord(f"m{number}", chat.id, None, None, "user", f"{number}번째 바닥", Status.DONE, NOON)
    return Whole(chat, [said])


@settings(max_examples=40, deadline=None)
@given(st.lists(LETTERS, min_size=1, max_size=8), LETTERS)
@example(["a가b"], "가b")
def test_search_finds_what_a_look_at_every_text_finds(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], query: str
) -> None:
    terms = terms_of(query)
    with closing(Database.open(tmp_path_factory.mktemp("data"))) as database:
        house = House(database)
        for said in texts:
            house.conversations.begin_turn(a_turn(text=said, title="-"))
        try:
            found = house.found(query)
        except TooShort:
            assert all(len(word) == 1 for term in terms for word in term.split())
            return
    right = [said for said in [*texts, "-"] if terms and all(term in fold(said) for term in terms)]
    assert sorted(set(found)) == sorted(set(right))


@given(st.text(max_size=30), st.integers(0, 29), st.integers(2, 8))
def test_every_piece_of_a_text_is_among_the_candidates(said: str, start: int, length: int) -> None:
    folded = fold(said)
    piece = folded[start : start + length].strip()
    terms = set(grams(folded).split(" "))
    try:
        wanted = match_of([piece]) if piece else ""
    except TooShort:
        return
    assert {term.strip('"') for term in wanted.split(" ") if term} <= terms


@given(st.text(max_size=20))
def test_folding_bit_by_bit_is_folding(said: str) -> None:
    assert "".join(fold_clusters(said)[0].split()) == "".join(fold(said).split())


@given(st.text(max_size=300), st.text(min_size=1, max_size=3))
def test_an_excerpt_is_a_piece_of_the_text(said: str, term: str) -> None:
    said = (
        said.replace("*", "")
        .replace("_", "")
        .replace("`", "")
        .replace("#", "")
        .replace(">", "")
        .replace("-", "")
    )
    line = " ".join(said.split())
    shown = "".join(piece.text for piece in excerpt(said, [fold(term)] if fold(term) else []))
    assert shown.removeprefix("…").removesuffix("…") in line


def test_an_excerpt_shows_and_marks_what_was_found() -> None:
    said = "앞말 " * 200 + "따뜻한 바닥과\n\nWARM Floors " + "뒷말 " * 200
    pieces = excerpt(said, ["바닥", "warm"])
    assert [piece.text for piece in pieces if piece.found] == ["바닥", "WARM"]
    assert (pieces[0].text, pieces[-1].text) == ("…", "…")
    assert len("".join(piece.text for piece in pieces)) < 200
    pieces = excerpt("앞말 " * 50_000 + "바닥" + " 뒷말" * 50_000, ["바닥"])
    assert [piece.text for piece in pieces][::2] == ["…", "바닥", "…"]


def test_an_excerpt_leaves_out_the_signs_of_markdown_unless_they_were_searched_for() -> None:
    def shown(*terms: str) -> str:
        return "".join(piece.text for piece in excerpt("## A **warm** floor", terms))

    assert shown("warm") == "A warm floor"
    assert shown("**warm") == "## A **warm** floor"


def test_a_mark_covers_the_whole_character_that_was_found_in_part() -> None:
    found = [piece.text for piece in marked("ﬁre", ["f"]) if piece.found]
    assert found == ["ﬁ"]


def test_the_index_is_asked_for_candidates_and_nothing_is_sorted(house: House) -> None:
    from storage.search import _statement

    plan = "EXPLAIN QUERY PLAN " + str(_statement(True))
    values = {"match": '"바닥"', "since": 0, "before": 1, "model": "m", "person": "owner"}
    with house.database.read() as session:
        steps = " | ".join(row[3] for row in session.execute(text(plan), values))
    assert steps.startswith("SCAN search_index VIRTUAL TABLE")
    assert "TEMP B-TREE" not in steps
    assert "SCAN messages" not in steps
    assert "SCAN replies" not in steps


def test_pages_of_the_list_are_read_from_their_indexes(database: Database) -> None:
    own = "deleted_at IS NULL AND person_id = 'p' AND archived = 0 AND pinned IS 0"
    others = "shared IS NOT NULL AND deleted_at IS NULL AND person_id <> 'p'"
    for index, which in (("conversations_listed", own), ("conversations_shared", others)):
        for place in ("", " AND (updated_at, id) < (1, 'x')"):
            query = (
                f"SELECT * FROM conversations WHERE {which}{place} ORDER BY updated_at DESC, id DESC LIMIT 50"
            )
            with database.read() as session:
                steps = " | ".join(row[3] for row in session.execute(text("EXPLAIN QUERY PLAN " + query)))
            assert index in steps
            assert "TEMP B-TREE" not in steps


def test_the_migration_indexes_what_is_there(folder: Path) -> None:
    folder.mkdir()
    older = make_engine(folder / FILE_NAME, load_library(), begin="BEGIN IMMEDIATE", pool_size=1)
    config = Config()
    config.set_main_option("script_location", str(FOLDER))
    with older.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0005")
        moment = "2026-11-29 12:00:00.000000"
        connection.execute(
            text(
                "INSERT INTO conversations (id, title, system_prompt, created_at, updated_at)"
                " VALUES ('c', '제목', '', :at, :at)"
            ),
            {"at": moment},
        )
        connection.execute(
            text(
                "INSERT INTO messages"
                " (id, conversation_id, parent_id, role, status, text, created_at, deleted_at)"
                " VALUES (:id, 'c', :parent, 'user', :status, :text, :at, :deleted)"
            ),
            [
                {"id": id, "parent": parent, "status": status, "text": said, "at": moment, "deleted": deleted}
                for id, parent, status, said, deleted in (
                    ("a", None, "done", "따뜻한 바닥", None),
                    ("b", "a", "interrupted", "warm floor", None),
                    ("c", "b", "done", "deleted floor", moment),
                    ("d", "c", "done", "floor after it", None),
                    ("e", "b", "running", "half a floor", None),
                    ("f", "b", "done", "", None),
                )
            ],
        )
    older.dispose()
    with closing(Database.open(folder)) as database:
        house = House(database)
        assert (house.found("floor"), house.found("바닥")) == (["warm floor"], ["따뜻한 바닥"])
        assert house.found("제목") == ["제목"]
        assert house.entries() == 3
        house.conversations.finish("e", an_end("new floor"))
        assert house.found("floor") == ["new floor", "warm floor"]
