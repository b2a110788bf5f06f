"""Every request between its submission and its `Finished`. Thread-safe."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from inference.errors import InferenceError
from inference.scheduler import Place, WaitingRoom
from inference.sequence import Sequence
from inference.types import FinishReason


class OpenRequests:
    """Those who wait in the room, and those whom the worker has taken out of it."""

    def __init__(self, waiting: WaitingRoom, ended: Callable[[FinishReason], None]) -> None:
        """`ended` is told of every end, on whichever thread it happens."""
        self._waiting = waiting
        self._ended = ended
        self._open: dict[str, Sequence] = {}
        self._lock = threading.Lock()  # taken before the room's own

    def submit(self, sequence: Sequence, place: Place | None) -> None:
        """Let a request into the waiting room. Raises `EngineBusy` or `EngineStopped`."""
        with self._lock:
            self._open[sequence.request.id] = sequence
            try:
                self._waiting.put(sequence, place)
            except InferenceError:
                del self._open[sequence.request.id]
                raise

    def abort(self, request_id: str, *, at_once: bool = False) -> None:
        """Ask for a request to end: at once while it waits (or if told so), else when the worker looks."""
        sequence = self._open.get(request_id)
        if sequence is None:
            return
        sequence.ask_to_stop()
        if self._waiting.remove(request_id) is not None or at_once:
            self.close(sequence, FinishReason.ABORT)

    def stop(self) -> None:
        """Let nobody in any more; end those who wait, and ask the others to end."""
        self._close_all(self._waiting.close(), FinishReason.ABORT, None)
        for sequence in list(self._open.values()):
            sequence.ask_to_stop()

    def close(self, sequence: Sequence, reason: FinishReason, error: str | None = None) -> None:
        """The end of one request."""
        if self._open.pop(sequence.request.id, None) is not None:
            self._waiting.leave(sequence)
            self._ended(reason)
            sequence.finish(reason, error)

    def close_waiting(self, error: str) -> None:
        """Send away everybody who waits."""
        self._close_all(self._waiting.empty(), FinishReason.ERROR, error)

    def close_begun(self, error: str) -> None:
        """End what the worker had begun, after it died. Those who wait go on waiting."""
        self._close_all(self._begun(), FinishReason.ERROR, error)

    def close_all(self, reason: FinishReason, error: str | None = None) -> None:
        """End everything, whatever the worker is doing with it, and let nobody in any more."""
        self._waiting.close()
        self._close_all(list(self._open.values()), reason, error)

    def begun_ids(self) -> list[str]:
        """The ids of what the worker has begun."""
        return [sequence.request.id for sequence in self._begun()]

    def _begun(self) -> list[Sequence]:
        with self._lock:  # nobody is on their way into the room
            return [sequence for sequence in self._open.values() if sequence not in self._waiting]

    def _close_all(self, sequences: Iterable[Sequence], reason: FinishReason, error: str | None) -> None:
        for sequence in sequences:
            self.close(sequence, reason, error)
