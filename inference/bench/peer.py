"""A peer under test: a child process that answers one work at a time, in lines of JSON."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType

import msgspec

from inference.bench.work import Outcome, Prediction, Work
from inference.errors import BenchFailed

LLAMACPP = Path(__file__).with_name("llamacpp.py")
CLOSE_S = 10.0


@dataclass(frozen=True, slots=True)
class Peer:
    """Which peer, and on what it runs: a Python that has it installed, and our script for it."""

    python: str
    name: str = "llama.cpp"
    script: Path = LLAMACPP


@dataclass(frozen=True, slots=True)
class _Hello:
    model: str
    threads: int


@dataclass(frozen=True, slots=True)
class _Answer:
    engine: str | None = None
    outcome: Outcome | None = None
    error: str | None = None


class PeerProcess:
    """The peer's process, for the length of a `with` block. `engine` names what runs in it.

    Everything that can go wrong with it is `BenchFailed`.
    """

    engine: str

    def __init__(self, peer: Peer, gguf: Path, threads: int) -> None:
        self._peer = peer
        self._hello = _Hello(str(gguf), threads)

    def __enter__(self) -> PeerProcess:
        # -E: PYTHONPATH and the like are meant for our Python, not for the peer's.
        command: Sequence[str] = (self._peer.python, "-E", str(self._peer.script))
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except OSError as error:
            raise BenchFailed(f"{self._peer.python} cannot be run: {error.strerror}.") from None
        try:
            self.engine = self._ask(self._hello).engine or self._peer.name
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def __call__(self, work: Work) -> Outcome:
        outcome = self._ask(work).outcome
        if outcome is None:
            raise BenchFailed(f"{self._peer.name} gave no outcome for a measurement.")
        return outcome

    def predict(self, prediction: Prediction) -> None:
        """Have a `Prediction` written to its file."""
        self._ask(prediction)

    def _ask(self, question: _Hello | Work | Prediction) -> _Answer:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(msgspec.json.encode(question) + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            code = self._process.wait(CLOSE_S)
            raise BenchFailed(f"{self._peer.name} ended with exit code {code} before it answered.")
        try:
            answer = msgspec.json.decode(line, type=_Answer)
        except msgspec.MsgspecError as error:
            raise BenchFailed(f"{self._peer.name} answered what cannot be read: {error}.") from None
        if answer.error is not None:
            raise BenchFailed(f"{self._peer.name}: {answer.error}")
        return answer

    def _close(self) -> None:
        """Ask it to end by closing its input; after a while it has to."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


class PeerUnderTest:
    """The peer for the length of a `with` block: one process for every number of chats.

    Two of llama.cpp's servers in one process cost each other more than half of their speed, even idle.
    """

    def __init__(self, peer: Peer, gguf: Path, threads: int) -> None:
        self._start = partial(PeerProcess, peer, gguf, threads)
        self._stack = ExitStack()
        self._processes: dict[int, PeerProcess] = {}

    def __enter__(self) -> PeerUnderTest:
        self.engine = self._process(1).engine
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def __call__(self, work: Work) -> Outcome:
        return self._process(len(work.prompts))(work)

    def _process(self, chats: int) -> PeerProcess:
        if chats not in self._processes:
            self._processes[chats] = self._stack.enter_context(self._start())
        return self._processes[chats]


def in_fresh_peer(peer: Peer, gguf: Path, threads: int, work: Work) -> Outcome:
    """One work in a process of its own, so that its peak memory is that work's."""
    with PeerProcess(peer, gguf, threads) as process:
        return process(work)
