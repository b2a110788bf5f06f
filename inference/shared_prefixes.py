"""What many new chats begin with, beside the configured system prompt: computed ahead, kept, and let go.

`replace` may come from any thread; the worker does the rest while nobody waits for it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from inference.errors import InferenceError
from inference.prefix_cache import PrefixCache
from inference.token_blocks import Tokens

logger = logging.getLogger(__name__)

PINNED_SHARE = 2
"""Of the prefix cache, one part in so many is for shared prefixes; the rest stays for chats."""

PrefixOf: TypeAlias = Callable[[str], Tokens]
"""The tokens that every conversation with this system prompt begins with."""


@dataclass(slots=True)
class _Model:
    """What the loaded model makes of system prompts. `most_tokens`: of all shared prefixes together."""

    prefix_of: PrefixOf
    own: Tokens
    most_tokens: int
    window: int
    wanted: list[Tokens] = field(default_factory=list)


class SharedPrefixes:
    """The shared system prompts, in the order of their importance: the first one goes last."""

    def __init__(self, cache: PrefixCache, wake: Callable[[], None]) -> None:
        self._cache = cache
        self._wake = wake
        self._prompts: Sequence[str] | None = None
        self._changed = False
        self._model: _Model | None = None
        self._lock = threading.Lock()

    def replace(self, system_prompts: Iterable[str]) -> None:
        """These are shared from now on, and no others."""
        with self._lock:
            self._prompts, self._changed = tuple(system_prompts), True
        self._wake()

    def begin(self, prefix_of: PrefixOf, own: Tokens, kv_bytes_per_token: int, window: int) -> None:
        """A model was loaded; `own` is what it keeps in any case."""
        most_tokens = self._cache.capacity_bytes // PINNED_SHARE // max(1, kv_bytes_per_token)
        with self._lock:
            self._model = _Model(prefix_of, own, most_tokens, window)
            self._changed = self._prompts is not None

    def due(self) -> Tokens | None:
        """The prefix to be computed next; None when all that fit are there."""
        with self._lock:
            model, prompts, changed = self._model, self._prompts, self._changed
            self._changed = False
        if model is None or prompts is None:
            return None
        if changed:
            model.wanted = _affordable(model, prompts)
            self._cache.repin([model.own, *model.wanted])
        pinned = self._cache.pinned_tokens
        return next((prefix for prefix in model.wanted if pinned(prefix) < len(prefix)), None)

    def give_up(self, prefix: Tokens) -> None:
        """This one cannot be had: it is not due again before the prompts change."""
        if self._model is not None and prefix in self._model.wanted:
            self._model.wanted.remove(prefix)


def _affordable(model: _Model, prompts: Sequence[str]) -> list[Tokens]:
    """The prefixes of the first prompts that fit together into the part of the cache that is for them."""
    prefixes, room = [], model.most_tokens - len(model.own)
    for prompt in prompts:
        try:
            prefix = model.prefix_of(prompt)
        except InferenceError as error:  # chats with it will be told
            logger.warning("a shared system prompt cannot be computed ahead: %s", error)
            continue
        if len(prefix) > room or len(prefix) >= model.window:
            logger.info("a shared system prompt of %d tokens is not computed ahead: no room", len(prefix))
            continue
        prefixes.append(prefix)
        room -= len(prefix)
    return prefixes
