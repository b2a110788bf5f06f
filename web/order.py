"""What happens to a conversation is told in the order in which it happened.

Making frames takes a while, and commands of other pages go on meanwhile: a page that got a newer state before
an older one would stay behind. Event loop.
"""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary


class Order:
    """A lock for each conversation and one for the lists of them. The former is taken before the latter."""

    def __init__(self) -> None:
        self.lists = asyncio.Lock()
        """Held from before a list is read until its pages are told."""
        self._conversations: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, conversation_id: str | None) -> asyncio.Lock:
        """Held from before a conversation is changed or read until its pages are told. Ask first whether a
        person may see it: how long one waits would tell. None: it begins now, and nobody else knows it.
        """
        if conversation_id is None:
            return asyncio.Lock()
        return self._conversations.setdefault(conversation_id, asyncio.Lock())
