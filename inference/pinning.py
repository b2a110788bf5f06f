"""Computing what many chats begin with, chunk by chunk, into the prefix cache. Worker thread only."""

from __future__ import annotations

import time
from collections.abc import Callable

from inference.backends.base import Backend
from inference.pacing import Pace
from inference.prefix_cache import PrefixCache
from inference.token_blocks import BLOCK_TOKENS, Tokens


class Pinning:
    """Puts prefixes into the cache to stay. Between chunks nothing is held but what the cache has."""

    def __init__(
        self, backend: Backend, cache: PrefixCache, pace: Pace, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._backend = backend
        self._cache = cache
        self._pace = pace
        self._clock = clock

    def pin(self, prefix: Tokens) -> None:
        """Compute a whole prefix, as far as it is not here yet, and keep it."""
        while self.pin_more(prefix):
            pass

    def pin_more(self, prefix: Tokens) -> bool:
        """Compute one chunk of a prefix, and keep it. False when that got it no further: it is whole, or the
        cache has no room for it.
        """
        known = self._cache.pinned_tokens(prefix)
        if known == len(prefix):
            return False
        kv = self._backend.create_kv(len(prefix))
        self._backend.append_blocks(kv, self._cache.match(prefix))
        chunk = prefix[kv.length : self._end_of_chunk(prefix, kv.length)]
        if chunk:
            started = self._clock()
            self._backend.prefill(kv, chunk, logits=False)
            self._pace.observe_prefill(len(chunk), self._clock() - started)
        self._cache.insert(
            prefix[: kv.length],
            lambda start, stop: self._backend.copy_block(kv, start, stop),
            pinned=True,
        )
        return self._cache.pinned_tokens(prefix) > known

    def _end_of_chunk(self, prefix: Tokens, start: int) -> int:
        """At the end of a block, so that the next chunk leaves no unfinished one behind."""
        reach = start + self._pace.chunk(beside_decoding=False)
        blocks = max(reach // BLOCK_TOKENS, start // BLOCK_TOKENS + 1)
        return min(len(prefix), blocks * BLOCK_TOKENS)
