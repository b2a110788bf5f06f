"""`ondol bench --web`: what finding costs among very many messages.

`python -m web.bench_search FOLDER [MESSAGES]` leaves such a database behind, to look at.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from urllib.parse import quote

from storage.bulk import Whole, keep_all
from storage.database import Database
from storage.records import ConversationRecord, MessageRecord, Status
from web.bench_pages import get

MESSAGES = 100_000
TURNS = 5
"""Of one conversation; every hundredth has ten times as many."""

KOREAN, PHRASE, COMMON, RARE = "온돌", '"warm floor"', "그리고", "nowherefound"
LABELS = {
    "search_korean_p95_ms": "search among {found:,} messages, one Korean word, p95 (ms)",
    "search_phrase_p95_ms": "  an English phrase, p95 (ms)",
    "search_common_p95_ms": "  a word of every third message, p95 (ms)",
    "search_rare_p95_ms": "  a word of none, p95 (ms)",
    "list_p95_ms": "the conversation list, p95 (ms)",
    "list_further_p95_ms": "  a further piece of it, p95 (ms)",
}
MODELS = ("SmolLM2-135M-Instruct", "EXAONE-4.0-1.2B")
BEGAN = datetime(2024, 1, 1, tzinfo=UTC)


def many_conversations(messages: int, seed: int = 7) -> Iterator[Whole]:
    """Conversations with so many messages together, in Korean and English by turns, newest last."""
    chance = random.Random(seed)
    korean, english = _Words(chance, _syllables), _Words(chance, _letters)
    moment, made, number = BEGAN, 0, 0
    while made < messages:
        turns = min(TURNS * (10 if number % 100 == 99 else 1), (messages - made + 1) // 2)
        moment += timedelta(minutes=chance.randrange(5, 90))
        yield _conversation(number, turns, moment, chance, korean if number % 2 else english)
        made, number = made + 2 * turns, number + 1


def fill_many(data_dir: Path, messages: int) -> None:
    """Put them into the database of a folder."""
    database = Database.open(data_dir)
    try:
        keep_all(database, many_conversations(messages))
    finally:
        database.close()


def measure_finding(
    url: str, times: int, timed: Callable[[Callable[[], object]], float], p95: Callable[[list[float]], float]
) -> Mapping[str, float]:
    """The figures of `LABELS`, from a server whose database is filled."""
    further = f"/conversations?before={(BEGAN + timedelta(days=90)).timestamp() * 1e6:.0f}-x"
    paths = [f"/search?q={quote(words)}" for words in (KOREAN, PHRASE, COMMON, RARE)]
    paths += ["/conversations", further]
    figures = {}
    for label, path in zip(LABELS, paths, strict=True):
        get(url + path)
        figures[label] = round(p95([timed(lambda: get(url + path)) for _ in range(times)]), 1)  # noqa: B023
    return figures


class _Words:
    """A vocabulary in which a few words are said again and again, as in every language (Zipf)."""

    def __init__(self, chance: random.Random, make: Callable[[random.Random], str]) -> None:
        self._chance = chance
        self._words = list(dict.fromkeys(make(chance) for _ in range(20_000)))
        self._weights = list(accumulate(1 / (rank + 3) for rank in range(len(self._words))))

    def some(self, count: int) -> str:
        return " ".join(self._chance.choices(self._words, cum_weights=self._weights, k=count))


def _syllables(chance: random.Random) -> str:
    return "".join(chr(chance.randrange(0xAC00, 0xD7A4, 5)) for _ in range(chance.randint(2, 4)))


def _letters(chance: random.Random) -> str:
    parts = (chance.choice("bcdfghjklmnprstvw") + chance.choice("aeiou") for _ in range(chance.randint(1, 4)))
    return "".join(parts) + chance.choice(("", "n", "s", "tion", "ing", "ed"))


def _conversation(number: int, turns: int, began: datetime, chance: random.Random, words: _Words) -> Whole:
    chat_id, messages = f"{number:032x}", list[MessageRecord]()
    model = MODELS[number % 3 == 0]
    for place in range(2 * turns):
        mine = place % 2 == 0
        text = words.some(chance.randint(6, 15) if mine else chance.randint(40, 140))
        said = [
            word for word, of in ((COMMON, 3), (KOREAN, 60), (PHRASE[1:-1], 60)) if not chance.randrange(of)
        ]
        moment = began + timedelta(minutes=place // 2)
        messages.append(
            MessageRecord(
                id=f"{number:024x}{place:08x}",
                conversation_id=chat_id,
                parent_id=messages[-1].id if messages else None,
                client_id=None,
                role="user" if mine else "assistant",
                text=" ".join((*said, text)),
                status=Status.DONE,
                created_at=moment,
                finished_at=None if mine else moment,
                token_ids=None if mine else tuple(range(100)),
                model=None if mine else model,
                finish_reason=None if mine else "stop",
            )
        )
    last = messages[-1]
    title = messages[0].text[:60]
    return Whole(ConversationRecord(chat_id, title, "", last.id, None, began, last.created_at), messages)


if __name__ == "__main__":
    fill_many(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else MESSAGES)
