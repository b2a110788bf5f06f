"""Who is next: the waiting room before the worker. Thread-safe; it computes nothing."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType

from inference.errors import EngineBusy, EngineStopped
from inference.sequence import Sequence
from inference.types import Queued


class Place:
    """A place in the room that is kept free for a request to come; given back at the end of its `with`."""

    def __init__(self, give_back: Callable[[Place], None]) -> None:
        self._give_back = give_back

    def __enter__(self) -> Place:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._give_back(self)


class WaitingRoom:
    """Requests that wait, in turns: whoever was served longest ago is next, then whoever came first.

    So one client with many requests cannot keep others waiting, and a free place never stays empty. Everyone
    in the room is told their position whenever it changes, and whether anybody is served at all.
    """

    def __init__(self, places: int, served_at_once: int = 1) -> None:
        self._places = places
        self._served_at_once = served_at_once
        self._paused = False
        self._reserved: set[Place] = set()
        self._last_turn: dict[str, int] = {}  # of each client, while anybody waits
        self._waiting: deque[Sequence] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._reply_s: float | None = None
        self._woken = False

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, sequence: Sequence) -> bool:
        return sequence in self._waiting

    def reserve(self) -> Place:
        """Keep a place for a request that comes soon. Raises as `put` does."""
        with self._changed:
            self._require_place()
            place = Place(self._give_back)
            self._reserved.add(place)
            return place

    def put(self, sequence: Sequence, place: Place | None = None) -> None:
        """Join at the end, in a reserved place or a free one.

        Raises `EngineBusy` when all places are taken or reserved, `EngineStopped` after `close`.
        """
        with self._changed:
            if place is not None:
                self._reserved.discard(place)
            self._require_place()
            self._waiting.append(sequence)
            self._tell_positions()
            self._changed.notify()

    def take(self, fits: Callable[[Sequence], bool] = lambda sequence: True) -> Sequence | None:
        """The next in line; None when nobody waits, or the next one does not fit yet.

        Nobody overtakes: a large request would else wait for ever behind small ones.
        """
        with self._changed:
            sequence = next(iter(self._in_turn()), None)
            if sequence is None or not fits(sequence):
                return None
            self._waiting.remove(sequence)
            self._last_turn[sequence.request.client] = max(self._last_turn.values(), default=0) + 1
            if not self._waiting:
                self._last_turn.clear()
            self._tell_positions()
            return sequence

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
        for position, sequence in enumerate(self._in_turn(), start=1):
            sequence.emit(Queued(position, self._eta_s(position), self._paused))

    def _require_place(self) -> None:
        if self._closed:
            raise EngineStopped("The engine has stopped.")
        taken = len(self._waiting) + len(self._reserved)
        if taken >= self._places:
            raise EngineBusy(taken, self._places)

    def _give_back(self, place: Place) -> None:
        with self._changed:
            self._reserved.discard(place)

    def _in_turn(self) -> list[Sequence]:
        """Everybody, in the order they will be served if nobody else comes."""
        last_turn, left, order = dict(self._last_turn), list(self._waiting), []
        turn = max(last_turn.values(), default=0)
        while left:
            following = min(left, key=lambda sequence: last_turn.get(sequence.request.client, 0))
            left.remove(following)
            order.append(following)
            turn += 1
            last_turn[following.request.client] = turn
        return order

    def _eta_s(self, position: int) -> float | None:
        """When a place will be free: places free up evenly over the time that a reply was seen to take."""
        if self._reply_s is None or self._paused:
            return None
        return round(position * self._reply_s / self._served_at_once, 1)
