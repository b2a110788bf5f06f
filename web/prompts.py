"""What the model would read of a branch: fitted into its window, counted, and put on record.

Event loop; tokenizing and storage run in pool threads.
"""

from __future__ import annotations

import secrets
import struct
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import Any

from starlette.concurrency import run_in_threadpool

from inference.context import ContextFit, fit, measure, reserve_for
from inference.engine import Engine
from inference.model_loader import Tokenizing
from inference.types import ChatMessage, GenerationRequest, ModelPhase, SamplingParams
from storage.conversations import Conversations
from storage.records import Choices, ConversationRecord, Json, MessageRecord
from web.errors import Refused
from web.new_chats import NewChats
from web.opening import Opening, with_choices
from web.protocol import ContextView
from web.reuse import reusable_tokens, system_hash, why_lost
from web.settings_view import EXACT_IN_BROWSERS


@dataclass(frozen=True, slots=True)
class Branch:
    """The messages that a new one follows, oldest first, and what the conversation has decided about them."""

    system_prompt: str
    cut_id: str | None
    messages: Sequence[MessageRecord]
    choices: Choices


class Prompts:
    """Makes prompts of what is stored."""

    def __init__(self, engine: Engine, conversations: Conversations, new_chats: NewChats) -> None:
        self._engine = engine
        self._conversations = conversations
        self._new_chats = new_chats

    def tokenizing(self) -> Tokenizing:
        """The model's tokenizer. Raises `Refused` while it is not there."""
        if self._engine.status.phase is ModelPhase.FAILED:
            raise Refused("model_failed", self._engine.status.message)
        if self._engine.tokenizing is None:
            raise Refused("model_loading", f"The model is not here yet: {self._engine.status.message}")
        return self._engine.tokenizing

    async def before_the_first(self, opening: Opening | None, person: str) -> Branch:
        """The branch of a conversation that has not begun. `opening` is how it is to be; None: as that person
        likes theirs.
        """
        opening = opening or await self._new_chats.opening(person)
        return Branch(opening.system_prompt, None, (), opening.choices)

    async def branch(self, conversation_id: str, leaf_id: str | None) -> Branch:
        """The branch that ends in a message; None: before the first. Raises `NotFound`."""
        conversation = await run_in_threadpool(self._conversations.get, conversation_id)
        return await run_in_threadpool(self._branch_at, conversation, leaf_id)

    def _branch_at(self, conversation: ConversationRecord, leaf_id: str | None) -> Branch:
        if leaf_id is None:
            return Branch(conversation.system_prompt, None, (), conversation.choices)
        messages = self._conversations.path(conversation.id, leaf_id)
        # The conversation's own cut is that of the branch that is looked at.
        cut_id = conversation.cut_id if leaf_id == conversation.head_id else cut_of(messages)
        return Branch(conversation.system_prompt, cut_id, messages, conversation.choices)

    async def count(self, branch: Branch, text: str) -> ContextView:
        """The context bar with a draft after the branch."""
        return await run_in_threadpool(self._measure, self.tokenizing(), branch, text)

    async def context_of(self, at: ConversationRecord | Opening) -> ContextView | None:
        """The context bar over an empty draft, of a conversation or of a new chat; None before the tokenizer
        is there.
        """
        tokenizing = self._engine.tokenizing
        if tokenizing is None:
            return None
        if isinstance(at, Opening):
            branch = Branch(at.system_prompt, None, (), at.choices)
        else:
            branch = await run_in_threadpool(self._branch_at, at, at.head_id)
        return await run_in_threadpool(self._measure, tokenizing, branch, "")

    def prompt_ids(self, conversation: ConversationRecord, leaf_id: str) -> tuple[int, ...]:
        """What the next message after a branch would be read after. Blocks; empty without a tokenizer."""
        tokenizing = self._engine.tokenizing
        if tokenizing is None:
            return ()
        branch = self._branch_at(conversation, leaf_id)
        return self._measured(tokenizing, branch, "").prompt_ids

    def params(self, tokenizing: Tokenizing, choices: Choices) -> SamplingParams:
        """The model's defaults but for what was chosen, with a seed and a limit that the reply's record can
        name.
        """
        params = with_choices(tokenizing.model.defaults, choices)
        seed = new_seed() if params.seed is None else params.seed
        return replace(params, seed=seed, max_tokens=reserve_for(self._engine.window, params.max_tokens))

    def _thinking(self, choices: Choices) -> bool:
        return self._engine.config.thinking if choices.thinking is None else choices.thinking

    def fit(
        self,
        tokenizing: Tokenizing,
        branch: Branch,
        text: str,
        params: SamplingParams,
        begun: tuple[int, ...] = (),
    ) -> ContextFit:
        """What the model reads before it answers `text`. Blocks; raises `PromptTooLong`."""
        return fit(
            tokenizing.tokenizer,
            branch.system_prompt,
            as_history(branch.messages, tokenizing.model.name),
            text,
            window=self._engine.window,
            max_tokens=params.max_tokens,
            cut_key=branch.cut_id,
            begun=begun,
            thinking=self._thinking(branch.choices),
        )

    def whole_prompt(self, tokenizing: Tokenizing, branch: Branch, text: str) -> tuple[int, ...]:
        """The ids of a prompt of which nothing is left out, however long it is. Blocks."""
        return measure(
            tokenizing.tokenizer,
            branch.system_prompt,
            as_history(branch.messages, tokenizing.model.name),
            text,
            window=sys.maxsize,
            thinking=self._thinking(branch.choices),
        ).prompt_ids

    def _measure(self, tokenizing: Tokenizing, branch: Branch, text: str) -> ContextView:
        measured = self._measured(tokenizing, branch, text)
        return ContextView(
            window=measured.window,
            system=measured.system,
            pinned=measured.pinned,
            history=measured.history,
            draft=measured.question if text else 0,
            reserve=measured.reserve,
            warm=self._engine.cached_tokens(measured.prompt_ids),
            left_out=len(measured.left_out),
            excess=measured.excess,
        )

    def _measured(self, tokenizing: Tokenizing, branch: Branch, text: str) -> ContextFit:
        return measure(
            tokenizing.tokenizer,
            branch.system_prompt,
            as_history(branch.messages, tokenizing.model.name),
            text,
            window=self._engine.window,
            max_tokens=with_choices(tokenizing.model.defaults, branch.choices).max_tokens,
            cut_key=branch.cut_id,
            thinking=self._thinking(branch.choices),
        )

    def request(
        self, tokenizing: Tokenizing, branch: Branch, fitted: ContextFit, params: SamplingParams
    ) -> tuple[GenerationRequest, dict[str, Any]]:
        """What the engine is asked for, still without a name, and what the reply keeps about it."""
        context = self._record(tokenizing, branch, fitted)
        request = GenerationRequest(
            "",
            fitted.prompt_ids,
            params,
            reusable_tokens=reusable_tokens(branch.messages, context["reuse_lost"]),
            reasoning=fitted.reasoning,
            begun=fitted.begun,
        )
        return request, context

    def _record(self, tokenizing: Tokenizing, branch: Branch, fitted: ContextFit) -> dict[str, Any]:
        """What the reply keeps about its prompt."""
        record = {
            "window": fitted.window,
            "system": fitted.system,
            "pinned": fitted.pinned,
            "history": fitted.history,
            "question": fitted.question,
            "begun": fitted.begun,
            "reserve": fitted.reserve,
            "left_out": list(fitted.left_out),
            "system_folded": fitted.system_folded,
            "thinking": self._thinking(branch.choices),
            "reuse_lost": fitted.reuse_lost,
            "template_hash": tokenizing.tokenizer.template_hash,
            "template_sha256": tokenizing.tokenizer.template_sha256,
            "prompt_hash": prompt_hash(fitted.prompt_ids[: len(fitted.prompt_ids) - fitted.begun]),
            "system_prompt": branch.system_prompt,
            "system_hash": system_hash(branch.system_prompt),
        }
        return {**record, "reuse_lost": why_lost(branch.messages, tokenizing.model.name, record)}


def as_history(messages: Sequence[MessageRecord], model: str) -> list[ChatMessage]:
    """Stored messages as the chat template takes them; ids count only for the model that made them."""
    return [
        ChatMessage(
            message.role,
            message.text,
            message.token_ids if message.model == model else None,
            pinned=message.pinned,
            key=message.id,
            reasoning=message.reasoning,
            thinking=message.context.get("thinking") if message.context else None,
        )
        for message in messages
        if message.role == "user" or message.text
    ]


def new_seed() -> int:
    """A seed that nobody chose: one that a browser can show, and be given again, to its last digit."""
    return secrets.randbelow(EXACT_IN_BROWSERS)


def prompt_hash(ids: Sequence[int]) -> str:
    """The SHA-256 of token ids as little-endian int32."""
    return sha256(struct.pack(f"<{len(ids)}i", *ids)).hexdigest()


def as_json(params: SamplingParams) -> dict[str, Any]:
    """Sampling params as they are stored, every one of them."""
    return {**asdict(params), "stop": list(params.stop)}


def from_json(params: Json) -> SamplingParams:
    """What `as_json` was given."""
    return SamplingParams(**{**params, "stop": tuple(params["stop"])})


def cut_of(messages: Sequence[MessageRecord]) -> str | None:
    """The first message that the model read for the last reply of a branch; None: from the beginning."""
    contexts = (message.context for message in reversed(messages) if message.context)
    left_out = next((set(context["left_out"]) for context in contexts if "left_out" in context), set())
    last = max((index for index, message in enumerate(messages) if message.id in left_out), default=None)
    if last is None:
        return None
    return next((message.id for message in messages[last + 1 :] if message.role == "user"), None)
