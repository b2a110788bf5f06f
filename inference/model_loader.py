"""From a model's name to a worker that can serve it. Worker thread; what it finds is immutable."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from inference.backends.base import Backend
from inference.config import EngineConfig
from inference.errors import InferenceError
from inference.memory import MemoryPlan
from inference.models.prepared import PreparedModel, Progress
from inference.prefix_cache import PrefixCache
from inference.prefix_keeper import PrefixKeeper
from inference.scheduler import WaitingRoom
from inference.scoring import ScoringRoom
from inference.shared_prefixes import SharedPrefixes
from inference.tally import Tally
from inference.token_blocks import common_prefix
from inference.tokenization import ChatTokenizer
from inference.types import ChatMessage, ModelPhase, ModelStatus
from inference.worker import Close, Worker

logger = logging.getLogger(__name__)

Prepare: TypeAlias = Callable[[EngineConfig, Progress, threading.Event], PreparedModel]
LoadBackend: TypeAlias = Callable[[PreparedModel, EngineConfig, Progress], Backend]


@dataclass(frozen=True, slots=True)
class Tokenizing:
    """What is known of the model before its weights are loaded: enough to fit and accept messages."""

    model: PreparedModel
    tokenizer: ChatTokenizer


@dataclass(frozen=True, slots=True)
class ModelLoader:
    """Loads the configured model, as often as it is asked to."""

    config: EngineConfig
    prepare: Prepare
    load_backend: LoadBackend

    def tokenizing(self, progress: Progress, cancelled: threading.Event) -> Tokenizing:
        """Fetch what is not here yet, and read the tokenizer. Raises `ModelError`."""
        prepared = self.prepare(self.config, progress, cancelled)
        return Tokenizing(prepared, ChatTokenizer.load(prepared))

    def worker(
        self,
        tokenizing: Tokenizing,
        progress: Progress,
        waiting: WaitingRoom,
        cache: PrefixCache,
        keeper: PrefixKeeper,
        shared: SharedPrefixes,
        scoring: ScoringRoom,
        close: Close,
        tally: Tally,
    ) -> tuple[Worker, MemoryPlan]:
        """Load the weights, divide the memory, and compute what every conversation begins with."""
        prepared = tokenizing.model
        progress(ModelStatus(ModelPhase.LOADING, f"Loading {prepared.name}"))
        backend = self.load_backend(prepared, self.config, progress)
        plan = MemoryPlan.for_model(backend.description, self.config)
        cache.capacity_bytes = plan.prefix_cache_bytes
        keeper.restore(backend, prepared)
        worker = Worker(backend, plan, self.config, waiting, cache, keeper, close, tally, shared, scoring)
        prefix_of = partial(shared_prefix, tokenizing.tokenizer, thinking=self.config.thinking)
        own = prefix_of(self.config.system_prompt)
        worker.pin(own)
        shared.begin(prefix_of, own, backend.description.kv_bytes_per_token, plan.window)
        return worker, plan


def why_not_loaded(error: BaseException) -> str:
    """The sentence for a person; whatever a library raises has to reach them."""
    if isinstance(error, InferenceError):
        return str(error)
    logger.error("the model could not be loaded", exc_info=error)
    return f"The model could not be loaded: {type(error).__name__}: {error}"


def shared_prefix(
    tokenizer: ChatTokenizer, system_prompt: str, *, thinking: bool | None = None
) -> tuple[int, ...]:
    """The tokens that every conversation with this system prompt begins with. Raises `TemplateFailed`."""
    system = [ChatMessage("system", system_prompt)] if system_prompt else []
    chats = ([*system, ChatMessage("user", text)] for text in ("a", "1"))
    one, other = (
        tokenizer.encode_chat(chat, generation_prompt=False, thinking=thinking).ids for chat in chats
    )
    return one[: common_prefix(one, other)]
