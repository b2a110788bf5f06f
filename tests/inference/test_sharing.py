"""What others notice while a long prompt is read, on a machine whose time is counted and not measured."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

from inference.backends.base import Logits
from inference.config import EngineConfig
from inference.memory import MemoryPlan
from inference.prefix_cache import PrefixCache
from inference.prefix_keeper import PrefixKeeper
from inference.scheduler import WaitingRoom
from inference.sequence import Sequence as RunningSequence
from inference.tally import Tally
from inference.types import Delta, Event, FinishReason, GenerationRequest, SamplingParams
from inference.worker import Worker
from tests.inference.doubles import ScriptedBackend, TokenKV, chat_tokenizer, engine_config

CHATS, PROMPT_TOKENS, NEW_TOKENS = 3, 2_000, 240


@dataclass(frozen=True)
class Machine:
    """What things cost, in seconds: a step of any size; a prefill chunk, and each of its tokens."""

    step_s: float
    chunk_s: float
    token_s: float


class CountedBackend(ScriptedBackend):
    """Takes the time that a machine would take."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(chat_tokenizer(), lambda prompt: "a" * 500, window=4_096)
        self.now = 0.0
        self._machine = machine

    def prefill(self, kv: TokenKV, token_ids: Sequence[int], *, logits: bool) -> Logits | None:
        self.now += self._machine.chunk_s + len(token_ids) * self._machine.token_s
        return super().prefill(kv, token_ids, logits=logits)

    def decode(self, kvs: Sequence[TokenKV], runs: Sequence[Sequence[int]]) -> Logits:
        self.now += self._machine.step_s
        return super().decode(kvs, runs)


class House:
    """Three chats that are being written when somebody else comes with a long prompt."""

    def __init__(self, folder: Path, machine: Machine, config: EngineConfig) -> None:
        self.backend = CountedBackend(machine)
        self.tokens_at: dict[str, list[float]] = defaultdict(list)
        self.tally = Tally()
        self._waiting = WaitingRoom(places=8)
        self._left = CHATS + 1
        self._stopping = threading.Event()
        cache = PrefixCache(0)
        self._worker = Worker(
            self.backend,
            MemoryPlan(kv_tokens=100_000, window=4_096, max_sequences=8, prefix_cache_bytes=0),
            config,
            self._waiting,
            cache,
            PrefixKeeper(cache, None),
            self._close,
            self.tally,
            clock=lambda: self.backend.now,
        )

    def run(self) -> None:
        for number in range(CHATS):
            self._submit(f"chat {number}", 50)
        self._worker.serve(self._stopping)

    def _submit(self, name: str, prompt_tokens: int) -> None:
        opening = self.backend._tokenizer.encode_chat([]).ids
        prompt = (*[ord("x")] * (prompt_tokens - len(opening)), *opening)
        params = SamplingParams(temperature=0, seed=0, max_tokens=NEW_TOKENS)
        request = GenerationRequest(name, prompt, params)
        self._waiting.put(RunningSequence(request, self._emit(name), self.backend._tokenizer.decode))

    def _emit(self, name: str) -> Callable[[Event], None]:
        def emit(event: Event) -> None:
            if isinstance(event, Delta) and event.token_ids:
                self.tokens_at[name].append(self.backend.now)
                if name == "chat 0" and len(self.tokens_at[name]) == NEW_TOKENS // 4:
                    self.arrived_at = self.backend.now
                    self._submit("newcomer", PROMPT_TOKENS)

        return emit

    def _close(self, sequence: RunningSequence, reason: FinishReason, error: str | None = None) -> None:
        assert error is None
        self._left -= 1
        if not self._left:
            self._stopping.set()


@pytest.mark.parametrize(
    "machine",
    [
        Machine(step_s=0.050, chunk_s=0.030, token_s=0.0008),  # two cores with AVX-512
        Machine(step_s=0.170, chunk_s=0.120, token_s=0.0040),  # two cores with AVX2
        Machine(step_s=0.020, chunk_s=0.015, token_s=0.0001),  # a GPU
    ],
)
def test_a_long_prompt_makes_others_wait_three_of_their_gaps_at_most(
    tmp_path: Path, machine: Machine
) -> None:
    house = House(tmp_path, machine, engine_config(tmp_path, prefill_chunk=512))
    house.run()
    read_at = house.tokens_at["newcomer"][0]
    for number in range(CHATS):
        gaps = [(end, end - start) for start, end in pairwise(house.tokens_at[f"chat {number}"])]
        usual = median(gap for end, gap in gaps if end <= house.arrived_at)
        meanwhile = [gap for end, gap in gaps if house.arrived_at < end <= read_at]
        assert len(meanwhile) > 3
        assert max(meanwhile) <= 3 * usual
    assert_counted(house)


def assert_counted(house: House) -> None:
    """The tally has seen the whole time, every token, and what each chat had of it."""
    counts, written = house.tally.counts, (CHATS + 1) * NEW_TOKENS
    assert counts.busy_s == pytest.approx(house.backend.now)
    assert (counts.completion_tokens, counts.decode_tokens) == (written, written - (CHATS + 1))
    assert counts.prefill_tokens == counts.prompt_tokens == CHATS * 50 + PROMPT_TOKENS
    spans = [times[-1] - times[0] for times in house.tokens_at.values()]
    assert counts.writing_s == pytest.approx(sum(spans), rel=0.05)
