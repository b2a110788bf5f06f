"""Who is next: the waiting room before the worker. Thread-safe; it computes nothing."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from types import TracebackType

from inference.errors import EngineBusy, EngineStopped
from inference.fair_order import FairOrder
from inference.sequence import Sequence
from inference.types import Queued

OWN_PLACES = 2
"""So many of a person's requests may wait while others' do."""


class Place:
    """A place in the room, kept for a person's request to come; given back at the end of its `with`."""

    def __init__(self, person: str, give_back: Callable[[Place], None]) -> None:
        self.person = person
        self._give_back = give_back

    def __enter__(self) -> Place:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._give_back(self)


class WaitingRoom:
    """Requests that wait, served in people's turns (`inference.fair_order`).

    Who waits alone may fill the whole room. While anybody else waits or has a place reserved, a person is let
    in with fewer than `OWN_PLACES` waiting, and only then: also into a room that somebody else has filled, so
    that the room holds its places and two more for each further person. Whoever is in, or has a place
    reserved, is never sent away for others' sake. Everyone in the room is told their position whenever it
    changes, and whether anybody is served at all.
    """

    def __init__(self, places: int, served_at_once: int = 1) -> None:
        self._places = places
        self._served_at_once = served_at_once
        self._paused = False
        self._reserved: set[Place] = set()
        self._order = FairOrder()
        self._waiting: list[Sequence] = []
        self._told: dict[Sequence, Queued] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._reply_s: float | None = None
        self._woken = False

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, sequence: Sequence) -> bool:
        return sequence in self._waiting

    def reserve(self, person: str = "") -> Place:
        """Keep a place for a person's request that comes soon. Raises as `put` does."""
        with self._changed:
            self._require_place(person)
            place = Place(person, self._give_back)
            self._reserved.add(place)
            return place

    def put(self, sequence: Sequence, place: Place | None = None) -> None:
        """Join in a reserved place or a free one.

        Raises `EngineBusy` when all that the person may have are taken or reserved, `EngineStopped` after
        `close`.
        """
        with self._changed:
            if place in self._reserved:
                self._reserved.discard(place)
                self._require_open()
            else:
                self._require_place(sequence.request.person)
            self._waiting.append(sequence)
            self._tell_positions()
            self._changed.notify()

    def take(self, fits: Callable[[Sequence], bool] = lambda sequence: True) -> Sequence | None:
        """The next in line; None when nobody waits, or the next one does not fit yet.

        Nobody overtakes: a large request would else wait for ever behind small ones. What was taken runs
        until `leave`.
        """
        with self._changed:
            sequence = self._order.next_of(self._waiting)
            if sequence is None or not fits(sequence):
                return None
            self._waiting.remove(sequence)
            self._order.begin(sequence)
            self._tell_positions()
            return sequence

    def leave(self, sequence: Sequence) -> None:
        """What was taken runs no more."""
        with self._changed:
            if self._order.end(sequence):
                self._tell_positions()

    def remove(self, request_id: str) -> Sequence | None:
        """Take somebody out who no longer wants to wait."""
        with self._changed:
            for sequence in self._waiting:
                if sequence.request.id == request_id:
                    self._waiting.remove(sequence)
                    self._tell_positions()
                    return sequence
            return None

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep until somebody waits, or `wake`; False once the room is closed (or the time is over)."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed or self._woken, timeout)
            woken, self._woken = self._woken, False
            return (bool(self._waiting) or woken) and not self._closed

    def wake(self) -> None:
        """End `wait`, the present one or else the next, although nobody waits."""
        with self._changed:
            self._woken = True
            self._changed.notify()

    def pause(self) -> None:
        """Nobody is served for now: the model is loading."""
        with self._changed:
            self._paused = True
            self._tell_positions()

    def resume(self, served_at_once: int) -> None:
        """So many are served at once from now on."""
        with self._changed:
            self._paused, self._served_at_once = False, served_at_once
            self._tell_positions()

    def close(self) -> list[Sequence]:
        """Let nobody in any more, and give back those who still waited."""
        with self._changed:
            self._closed = True
            left = list(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
            return left

    def empty(self) -> list[Sequence]:
        """Send everybody away, but stay open."""
        with self._changed:
            left = list(self._waiting)
            self._waiting.clear()
            return left

    def observe(self, reply_s: float) -> None:
        """Learn how long a place was taken, for the estimates (an exponential mean of measured times)."""
        with self._changed:
            self._reply_s = reply_s if self._reply_s is None else 0.7 * self._reply_s + 0.3 * reply_s

    def _tell_positions(self) -> None:
        if not self._waiting:
            self._order.forget()
        told, self._told = self._told, {}
        order = self._order.foresee(self._waiting, self._served_at_once)
        for position, sequence in enumerate(order, start=1):
            self._told[sequence] = Queued(position, self._eta_s(position), self._paused)
            if self._told[sequence] != told.get(sequence):
                sequence.emit(self._told[sequence])

    def _require_open(self) -> None:
        if self._closed:
            raise EngineStopped("The engine has stopped.")

    def _require_place(self, person: str) -> None:
        self._require_open()
        taken = Counter(sequence.request.person for sequence in self._waiting)
        taken.update(place.person for place in self._reserved)
        own = taken.pop(person, 0)
        limit = min(OWN_PLACES, self._places) if taken else self._places
        if own >= limit:
            raise EngineBusy(own, limit, others_wait=bool(taken))

    def _give_back(self, place: Place) -> None:
        with self._changed:
            self._reserved.discard(place)

    def _eta_s(self, position: int) -> float | None:
        """When a place will be free: places free up evenly over the time that a reply was seen to take."""
        if self._reply_s is None or self._paused:
            return None
        return round(position * self._reply_s / self._served_at_once, 1)
