"""What happens to a conversation is told in the order in which it happened, and told to the end.

Making frames takes a while, and commands of other pages go on meanwhile: a page that got a newer state before
an older one would stay behind. Event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any
from weakref import WeakValueDictionary


class Order:
    """A lock for each conversation and one for the lists of them. The former is taken before the latter."""

    def __init__(self) -> None:
        self.lists = asyncio.Lock()
        """Held from before a list is read until its pages are told."""
        self._under_way: set[asyncio.Task[None]] = set()
        self._conversations: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, conversation_id: str | None) -> asyncio.Lock:
        """Held from before a conversation is changed or read until its pages are told. Ask first whether a
        person may see it: how long one waits would tell. None: it begins now, and nobody else knows it.
        """
        if conversation_id is None:
            return asyncio.Lock()
        return self._conversations.setdefault(conversation_id, asyncio.Lock())

    def to_its_end(self, work: Coroutine[Any, Any, None]) -> asyncio.Future[None]:
        """What `work` does. It goes on where whoever waits for this does not: others are told of it."""
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return asyncio.shield(task)
