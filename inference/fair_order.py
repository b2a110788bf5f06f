"""Whose turn it is. No thread of its own: the waiting room calls it under its lock."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from inference.sequence import Sequence


class FairOrder:
    """Who was served when, and who has something running.

    People take turns, not requests. The next is, of those who wait, first who has nothing running, then who
    was served longest ago, then who came first; of a person's own requests the one that came first. So as
    long as somebody with nothing running waits, nobody is given a second place; and no place stays empty for
    that rule's sake: who waits alone comes next whatever they have running.
    """

    def __init__(self) -> None:
        self._running: dict[Sequence, str] = {}  # whose it is, oldest first
        self._served: dict[str, int] = {}  # the turn in which somebody was served last

    def next_of(self, waiting: Iterable[Sequence]) -> Sequence | None:
        """Whose turn it is; None when nobody waits."""
        queues = _by_person(waiting)
        return queues[min(queues, key=self._rank)][0] if queues else None

    def begin(self, sequence: Sequence) -> None:
        """It was served, and runs until `end`."""
        person = sequence.request.person
        self._running[sequence] = person
        self._served[person] = max(self._served.values(), default=0) + 1

    def end(self, sequence: Sequence) -> bool:
        """It does not run any more; False if it did not."""
        return self._running.pop(sequence, None) is not None

    def forget(self) -> None:
        """Nobody waits: once nothing runs either, there is nothing to be fair about."""
        if not self._running:
            self._served.clear()

    def foresee(self, waiting: Iterable[Sequence], places: int) -> list[Sequence]:
        """Everybody, in the order they will be served if nobody else comes and what runs, at most `places` at
        once, ends in the order it began.
        """
        ahead, queues, order = FairOrder(), _by_person(waiting), []
        ahead._running, ahead._served = dict(self._running), dict(self._served)
        while queues:
            if len(ahead._running) >= places:
                del ahead._running[next(iter(ahead._running))]
            person = min(queues, key=ahead._rank)
            following = queues[person].popleft()
            if not queues[person]:
                del queues[person]
            ahead.begin(following)
            order.append(following)
        return order

    def _rank(self, person: str) -> tuple[bool, int]:
        return person in self._running.values(), self._served.get(person, 0)


def _by_person(waiting: Iterable[Sequence]) -> dict[str, deque[Sequence]]:
    """Each person's requests as they came; people by their first one."""
    queues: dict[str, deque[Sequence]] = {}
    for sequence in waiting:
        queues.setdefault(sequence.request.person, deque()).append(sequence)
    return queues
