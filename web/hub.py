"""The open sockets: who watches which conversation, in which language. Event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import tzinfo

import msgspec

from storage.records import OWNER, DeviceRecord
from web.device_names import device_words
from web.generation import Generation
from web.language import Language
from web.protocol import (
    Conversations,
    DeviceConnected,
    Error,
    InEachLanguage,
    PresetList,
    ServerFrame,
    StatusFrame,
    encode,
)

MAX_OUTBOX = 256
MAX_OUTBOX_BYTES = 2**19
LATEST_ONLY = (StatusFrame, Conversations, PresetList)
TRY_AGAIN_LATER = 1013


class Ended(Exception):
    """The session that a socket belongs to is over, or another has taken its place; or it was abused."""

    def __init__(self, code: int, reason: str) -> None:
        self.code = code
        self.reason = reason
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class Unsent:
    """A frame that waits for its client to take the ones before it; `content` is UTF-8."""

    kind: type[ServerFrame]
    content: bytes


class Watcher:
    """One socket's side of the server: frames to send, and the reply it follows.

    `language` is what its page is in. `device` is whose socket it is; None on a server that is not shared.
    `zone` is its time zone; None for this machine's.
    """

    def __init__(
        self, language: Language, device: DeviceRecord | None = None, zone: tzinfo | None = None
    ) -> None:
        self.language = language
        self.device = device
        self.zone = zone
        self.conversation_id: str | None = None
        self.ended: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self._parting: Ended | None = None
        self._outbox: deque[Unsent] = deque()
        self._news = asyncio.Event()
        self._generation: Generation | None = None
        self._seq = 0

    @property
    def person(self) -> str:
        """Whose socket it is."""
        return OWNER if self.device is None else self.device.person_id

    def post(self, frame: ServerFrame | InEachLanguage) -> None:
        """Send a frame soon, in the person's language. Of statuses and lists only the newest waits. A client
        that has left too much unread is sent away, and may come back.
        """
        if isinstance(frame, Mapping):
            frame = frame[self.language.code]
        kind, content = type(frame), encode(in_words_of(self.language, frame)).encode()
        if isinstance(frame, LATEST_ONLY):
            self._outbox = deque(unsent for unsent in self._outbox if unsent.kind is not kind)
        if self._has_room_for(content):
            self._outbox.append(Unsent(kind, content))
            self._news.set()
        else:
            self.end(Ended(TRY_AGAIN_LATER, "too many frames unread"))

    def end(self, ended: Ended) -> None:
        """Close the socket, even if its client reads nothing."""
        if not self.ended.done():
            self.ended.set_result(ended)

    def _has_room_for(self, content: bytes) -> bool:
        """One frame always fits, whatever its size."""
        held = sum(len(unsent.content) for unsent in self._outbox)
        return not self._outbox or (
            len(self._outbox) < MAX_OUTBOX and held + len(content) <= MAX_OUTBOX_BYTES
        )

    def follow(self, generation: Generation, after_seq: int) -> None:
        """From now on send what changes in a reply, beginning after event `after_seq`."""
        if self._generation is generation:
            return  # what this socket was already sent need not come again
        self.unfollow()
        self._generation, self._seq = generation, after_seq
        generation.subscribe(self._news.set)
        self._news.set()

    def restart(self, generation: Generation | None, seq: int) -> None:
        """Follow a reply (None: nothing) whose state as of event `seq` was just posted."""
        self.unfollow()
        if generation is not None:
            self.follow(generation, seq)

    def unfollow(self) -> None:
        """Send nothing more of the reply that was followed."""
        if self._generation is not None:
            self._generation.unsubscribe(self._news.set)
            self._generation = None

    def look_away(self) -> None:
        """Look at no conversation any more."""
        self.unfollow()
        self.conversation_id = None

    def part(self, ended: Ended) -> None:
        """Close the socket once everything posted was sent."""
        self._parting = ended
        self._news.set()

    async def next_frame(self) -> str:
        """Wait for news; the frame that tells it, made as late as can be. Raises `Ended` after `part`."""
        while True:
            await self._news.wait()
            if self._outbox:
                return self._outbox.popleft().content.decode()
            if self._parting is not None:
                raise self._parting
            self._news.clear()
            change = self._change()
            if change is not None:
                return encode(in_words_of(self.language, change))

    def _change(self) -> ServerFrame | None:
        """What brings the client to where the reply is that it follows; None where it is there."""
        generation = self._generation
        if generation is None:
            return None
        frames = generation.frames_since(self._seq, self.language.code)
        if frames:
            self._seq = generation.seq
        if generation.ended is not None:
            self.unfollow()
        return frames[0] if frames else None


def in_words_of(language: Language, frame: ServerFrame) -> ServerFrame:
    """A frame whose English words come from elsewhere, in a person's language."""
    match frame:
        case Error():
            return msgspec.structs.replace(frame, message=language.sentence(frame.message))
        case DeviceConnected():
            return msgspec.structs.replace(frame, name=device_words(language, frame.name))
        case _:
            return frame


class Hub:
    """All watchers."""

    def __init__(self) -> None:
        self._watchers: set[Watcher] = set()

    def join(self, watcher: Watcher) -> None:
        """A socket opened."""
        self._watchers.add(watcher)

    def leave(self, watcher: Watcher) -> None:
        """A socket closed."""
        watcher.unfollow()
        self._watchers.discard(watcher)

    def watching(self, conversation_id: str) -> Iterator[Watcher]:
        """Those who look at a conversation."""
        return (w for w in tuple(self._watchers) if w.conversation_id == conversation_id)

    def by_place(self, person: str | None = None) -> dict[tuple[str, tzinfo | None], list[Watcher]]:
        """A person's, or everybody's, by whose they are and the time zone that they are in."""
        places: dict[tuple[str, tzinfo | None], list[Watcher]] = {}
        for watcher in self._watchers:
            if person in (None, watcher.person):
                places.setdefault((watcher.person, watcher.zone), []).append(watcher)
        return places

    def people(self) -> set[str]:
        """The ids of those who have a page open."""
        return {watcher.person for watcher in self._watchers}

    def of(self, person: str) -> list[Watcher]:
        """A person's."""
        return [watcher for watcher in self._watchers if watcher.person == person]

    def devices(self) -> set[str]:
        """The ids of the devices that have a page open."""
        return {w.device.id for w in self._watchers if w.device is not None}

    def end(self, device_id: str, ended: Ended) -> None:
        """Close all sockets of a device, those too that read nothing."""
        for watcher in tuple(self._watchers):
            if watcher.device is not None and watcher.device.id == device_id:
                watcher.end(ended)

    def broadcast(self, frame: ServerFrame | InEachLanguage, to: Iterable[Watcher] | None = None) -> None:
        """Post a frame to everyone, or to some."""
        for watcher in tuple(self._watchers) if to is None else to:
            watcher.post(frame)
