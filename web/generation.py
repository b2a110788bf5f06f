"""One running reply, as its watchers see it. Event loop.

It holds the state of the reply, not a queue for each watcher: every change raises `seq`, and a watcher that
last saw event n is given the difference between then and now. Live streaming, catching up after a reload and
a slow client are therefore one case, and a client that does not read costs nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
from starlette.concurrency import run_in_threadpool

from inference.types import Delta, Event, Prefill, Queued
from storage.records import MessageRecord
from web import protocol
from web.streaming_markdown import Mark, StreamingMarkdown


@dataclass(frozen=True, slots=True)
class RunningView:
    """A running reply at one moment: event `seq`, its finished blocks and tail as HTML.

    `progress` is what happens while there is no text yet; None once there is. `reasoning` is plain text,
    `thought` whether it is over, and `reasoning_s` how long it took, where that was measured.
    """

    reply_id: str
    seq: int
    body: str
    tail: str
    progress: Queued | Prefill | None
    reasoning: str
    thought: bool
    reasoning_s: float | None


@dataclass(frozen=True, slots=True)
class _Mark:
    """What a watcher has: of the answer, how many characters of the reasoning, whether that is over."""

    answer: Mark
    reasoning: int = 0
    thought: bool = False


@dataclass(frozen=True, slots=True)
class Prior:
    """What a reply that goes on has already, rendered."""

    text: str
    reasoning: str
    reasoning_s: float
    token_ids: tuple[int, ...]
    markdown: StreamingMarkdown

    @classmethod
    def of(cls, reply: MessageRecord) -> Prior:
        """Render it. Blocks."""
        markdown = StreamingMarkdown()
        markdown.update(reply.text)
        reasoning_s = (reply.timings or {}).get("reasoning_s") or 0.0
        return cls(reply.text, reply.reasoning or "", reasoning_s, reply.token_ids or (), markdown)


class Generation:
    """One reply while it is being written, and what its watchers have to be told.

    `first_seq` is the event that it begins with: for a reply that goes on, beyond all those that it had
    before, so that a page which saw them asks for a new beginning.
    """

    def __init__(self, conversation_id: str, reply_id: str, prior: Prior | None = None) -> None:
        self.conversation_id = conversation_id
        self.reply_id = reply_id
        self.text = prior.text if prior else ""
        self.reasoning = prior.reasoning if prior else ""
        self.reasoning_s = (prior.reasoning_s or None) if prior else None
        self._prior_reasoning_s = prior.reasoning_s if prior else 0.0
        self.token_ids: list[int] = list(prior.token_ids) if prior else []
        self.first_seq = self.seq = int(1000 * time.time()) if prior else 0
        self.renders, self.render_s = 0, 0.0
        self.first_shown_s: float | None = None  # until the first text was there for watchers
        self._begun_at = time.monotonic()
        self.news = asyncio.Event()
        self.ended: protocol.InEachLanguage | protocol.Error | None = None
        self._progress: Queued | Prefill | None = None
        self._prior_length = self._length
        self._markdown = prior.markdown if prior else StreamingMarkdown()
        self._shown = self._markdown.since(None)
        self._shown_reasoning, self._answering = len(self.reasoning), bool(self.text)
        self._marks: list[_Mark] = [self._mark()]  # by seq
        self._rendering = False
        self._watchers: set[Callable[[], None]] = set()
        self.opening = self.view()
        """The reply as it is at `first_seq`."""

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Have `wake` called at every change."""
        self._watchers.add(wake)

    def unsubscribe(self, wake: Callable[[], None]) -> None:
        """Stop calling `wake`."""
        self._watchers.discard(wake)

    def frames_since(self, seq: int, language: str) -> list[protocol.ServerFrame]:
        """What brings a watcher who reads a language from event `seq` to now."""
        if seq >= self.seq:
            return []
        if self.ended is not None:
            return [self._ending(self.ended, language)]
        if not self._has_begun:
            return [self._progress_frame()]
        # While a pool thread renders, the markdown may already be ahead of `seq`; the wake-up is on its way.
        return [] if self._rendering else [self._delta(self._marks[seq - self.first_seq])]

    def view(self) -> RunningView:
        """The reply as it was at the last event before its end: whoever is shown this has its end to come."""
        seq = self.seq if self.ended is None else self.seq - 1
        body, tail = "".join(self._shown.blocks), self._shown.tail or ""
        progress = None if self._has_begun else self._progress
        reasoning = self.reasoning[: self._shown_reasoning]
        return RunningView(
            self.reply_id, seq, body, tail, progress, reasoning, self._thought, self.reasoning_s
        )

    def take(self, event: Event) -> None:
        """Note what the engine reported. Text shows with the next `render`."""
        if isinstance(event, Delta):
            self.text += event.text
            self.reasoning += event.reasoning
            if event.reasoning_s is not None:
                self.reasoning_s = self._prior_reasoning_s + event.reasoning_s
            self.token_ids.extend(event.token_ids)
            if event.text or event.reasoning:
                self.news.set()
        elif isinstance(event, Queued | Prefill):
            self._progress = event
            self._advance()

    async def render(self) -> None:
        """Render the text so far in a pool thread, once for all watchers."""
        text, reasoning = self.text, len(self.reasoning)
        self._rendering = True
        started = time.monotonic()
        try:
            await run_in_threadpool(self._markdown.update, text)
        finally:
            self._rendering = False
        self._note_rendering(started)
        self._shown = self._markdown.since(None)
        self._shown_reasoning, self._answering = reasoning, bool(text)
        self._advance()

    def _note_rendering(self, started: float) -> None:
        now = time.monotonic()
        self.renders += 1
        self.render_s += now - started
        if self.first_shown_s is None and self._has_begun:
            self.first_shown_s = now - self._begun_at

    def end(self, frame: protocol.InEachLanguage | protocol.Error) -> None:
        """The last change: watchers are told that the reply is stored, or why it is not."""
        self.ended = frame
        self._advance()

    @property
    def _has_begun(self) -> bool:
        """Whether there is text that the reply did not begin with."""
        return self._length > self._prior_length

    @property
    def _length(self) -> int:
        return len(self.text) + len(self.reasoning)

    @property
    def _thought(self) -> bool:
        """Whether there was reasoning and it is over."""
        return bool(self._shown_reasoning) and self._answering

    def _mark(self) -> _Mark:
        return _Mark(self._markdown.mark(), self._shown_reasoning, self._thought)

    def _advance(self) -> None:
        self.seq += 1
        self._marks.append(self._mark())
        for wake in tuple(self._watchers):
            wake()

    def _ending(self, ended: protocol.InEachLanguage | protocol.Error, language: str) -> protocol.ServerFrame:
        if isinstance(ended, protocol.Error):
            return ended
        return msgspec.structs.replace(ended[language], seq=self.seq)

    def _delta(self, mark: _Mark) -> protocol.Delta:
        change = self._markdown.since(mark.answer)
        reasoning = self.reasoning[mark.reasoning : self._shown_reasoning]
        return protocol.Delta(
            self.reply_id,
            self.seq,
            change.blocks,
            msgspec.UNSET if change.tail is None else change.tail,
            msgspec.UNSET if change.code is None else change.code,
            reasoning or msgspec.UNSET,
            self.reasoning_s if self._thought and not mark.thought else msgspec.UNSET,
        )

    def _progress_frame(self) -> protocol.Queued | protocol.Prefill:
        if isinstance(self._progress, Prefill):
            done = self._progress
            return protocol.Prefill(self.reply_id, self.seq, done.done, done.total, done.cached)
        place = self._progress or Queued(1)
        return protocol.Queued(self.reply_id, self.seq, place.position, place.eta_s, place.loading)
