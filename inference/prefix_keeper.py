"""Keeps the prefix cache and its copy on disk together, and knows why something is not cached any more.

The disk follows the tree: what is in it gets stored while the worker has nothing else to do, one block at a
time, and what left it is removed. `forget` may come from any thread, the rest is the worker's.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from inference.backends.base import Backend, KVBlock
from inference.block_files import StoredBlock, root_name
from inference.models.prepared import PreparedModel
from inference.ownership import NOBODY, conversation_of
from inference.prefix_cache import PrefixCache
from inference.prefix_store import PrefixStore
from inference.token_blocks import BLOCK_TOKENS, Node
from inference.types import GenerationRequest, ModelDescription

logger = logging.getLogger(__name__)

SAVE_AT_END_S = 2.0


class PrefixKeeper:
    """The prefix cache on its way to the disk and back."""

    def __init__(self, cache: PrefixCache, folder: Path | None) -> None:
        self._cache = cache
        self._store = PrefixStore(folder, cache.capacity_bytes) if folder else None
        self._backend: Backend | None = None
        self._key = ""
        self._served: set[str] = set()
        self._lock = threading.Lock()  # taken before the cache's own

    def restore(self, backend: Backend, prepared: PreparedModel) -> None:
        """Begin anew with what is stored for this model, as much as the cache takes."""
        with self._lock:
            self._key = cache_key(backend.description, prepared)
            self._cache.clear(root_name(self._key))
            if self._store is None:
                return
            try:
                self._store.capacity_bytes = self._cache.capacity_bytes
                self._store.open()
                self._read_back(self._store, backend)
                self._backend = backend
            except Exception as error:  # without a cache everything works, only later
                logger.warning("the prefix cache is not kept on disk: %s", error)

    def save_next(self) -> bool:
        """Bring the disk one block closer to the cache; False when nothing is left to do."""
        with self._lock:
            if self._store is None or self._backend is None:
                return False
            try:
                return self._save_next(self._store, self._backend)
            except Exception as error:
                logger.warning("the prefix cache is not kept on disk any more: %s", error)
                self._backend = None
                return False

    def save_rest(self, seconds: float = SAVE_AT_END_S) -> None:
        """Store what is not stored yet, as far as that time allows."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.save_next():
            pass

    def forget(self, conversation: str, keep: Sequence[tuple[int, ...]] = ()) -> None:
        """Remove from memory and disk every block that only this conversation used; with `keep`, except those
        that lie within these prompts.
        """
        with self._lock:
            if not keep:
                self._served.discard(conversation)
            self._cache.forget(conversation, keep)
            if self._store is None:
                return
            try:
                self._store.open()
                self._store.forget(conversation, self._cache.owners())
            except OSError as error:
                logger.warning("the stored prefix cache could not be tidied: %s", error)

    def conversations(self) -> set[str]:
        """The conversations that something on disk belongs to."""
        with self._lock:
            if self._store is None:
                return set()
            try:
                self._store.open()
            except OSError as error:
                logger.warning("the stored prefix cache cannot be read: %s", error)
            return {conversation_of(owner) for owner in self._store.owners() - {NOBODY}}

    def why_lost(self, request: GenerationRequest, cached: int) -> str | None:
        """Why fewer tokens are cached than an earlier turn computed, where that is so and known."""
        conversation = conversation_of(request.owner)
        served_before = conversation in self._served
        self._served.add(conversation)
        if cached >= min(request.reusable_tokens, len(request.prompt_ids) - 1):
            return None
        if self._cache.was_evicted(request.prompt_ids, request.reader):
            return "it was evicted to make room for other chats"
        return None if served_before else "the server was restarted"

    def _read_back(self, store: PrefixStore, backend: Backend) -> None:
        blocks = store.blocks_of(self._key)
        by_name = {block.name: block for block in blocks}
        wanted, room = [], self._cache.capacity_bytes
        for block in blocks:
            room -= block.nbytes
            if room < 0:
                break
            wanted.append(block)
        done: set[str] = set()
        for block in reversed(wanted):  # so that the cache, too, knows what was used last
            path: list[StoredBlock] = []
            step: StoredBlock | None = block
            while step is not None and step.name not in done:
                path.append(step)
                done.add(step.name)
                step = by_name.get(step.parent)
            for step in reversed(path):
                self._restore_block(store, backend, step)
        cached = self._cache.owners()
        store.remove([name for name in by_name if name not in cached])

    def _restore_block(self, store: PrefixStore, backend: Backend, block: StoredBlock) -> None:
        arrays = store.read(block)
        if arrays is None:
            return
        try:
            kv: KVBlock = backend.block_from_arrays(arrays)
        except ValueError as error:
            logger.warning("a stored block does not fit the model: %s", error)
            return
        if (kv.length, kv.nbytes) == (
            len(block.tokens),
            len(block.tokens) * backend.description.kv_bytes_per_token,
        ):
            self._cache.restore(block.parent, block.tokens, kv, set(store.owners_of(block.name)))

    def _save_next(self, store: PrefixStore, backend: Backend) -> bool:
        store.remove(self._cache.take_dropped())
        store.claim(self._cache.owners())
        node = self._cache.next_unstored()
        if node is None or node.parent is None:
            return False
        block = StoredBlock(self._key, node.parent.name, node.tokens)
        store.write(block, backend.block_to_arrays(node.block))
        node.stored = True
        if not node.children:
            store.touch(_names_up_from(node))
        return True


def cache_key(description: ModelDescription, prepared: PreparedModel) -> str:
    """All that keys and values depend on beside the tokens."""
    return json.dumps(
        {
            "model": description.name,
            "weights": prepared.identity,
            "quantization": description.quantization,
            "backend": f"{description.backend} {description.kernels}".strip(),
            "device": description.device,
            "dtype": description.compute_dtype,
            "block_tokens": BLOCK_TOKENS,
        }
    )


def _names_up_from(node: Node | None) -> list[str]:
    names = []
    while node is not None and node.parent is not None:
        names.append(node.name)
        node = node.parent
    return names
