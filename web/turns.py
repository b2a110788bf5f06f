"""A person's message on its way in: fit, store, queue; and the numbers while it is still being typed.

Event loop; tokenizing and storage run in pool threads.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from starlette.concurrency import run_in_threadpool

from inference.context import QUESTION_KEY, ContextFit, fit, measure, reserve_for
from inference.engine import Engine
from inference.model_loader import Tokenizing
from inference.types import MAX_SEED, ChatMessage, GenerationRequest, ModelPhase, SamplingParams
from storage.conversations import Conversations
from storage.records import (
    NEW_MESSAGE,
    AskedTurn,
    Choices,
    ConversationRecord,
    MessageRecord,
    NewTurn,
    StartedTurn,
)
from web.errors import Refused
from web.generation import Generation
from web.generations import Generations
from web.new_chats import NewChats
from web.opening import Opening, with_choices
from web.protocol import ContextView, Count, Send
from web.reuse import reusable_tokens, system_hash, why_lost

TITLE_LENGTH = 60


@dataclass(frozen=True, slots=True)
class Branch:
    """The messages that a new one follows, oldest first, and what the conversation has decided about them."""

    system_prompt: str
    cut_id: str | None
    messages: Sequence[MessageRecord]
    choices: Choices


@dataclass(frozen=True, slots=True)
class Begun:
    """A stored turn and its running reply; None when a repeated command's reply has already ended."""

    turn: StartedTurn
    generation: Generation | None


class Turns:
    """Begins turns in conversations."""

    def __init__(
        self,
        engine: Engine,
        conversations: Conversations,
        generations: Generations,
        new_chats: NewChats,
    ) -> None:
        self._engine = engine
        self._conversations = conversations
        self._generations = generations
        self._new_chats = new_chats

    async def send(self, command: Send) -> Begun:
        """Store the message and start its reply.

        Whatever it raises (`KNOWN_ERRORS` of `web.errors`), nothing was stored. A repeated command gives what
        it gave before, even where a new one would be refused.
        """
        asked = AskedTurn(command.id, command.conversation_id, command.parent_id, command.text)
        earlier = await run_in_threadpool(self._conversations.earlier_turn, asked)
        if earlier is not None:
            return Begun(earlier, self._generations.get(earlier.reply.id))
        tokenizing = self._tokenizing()
        branch = await self._branch(command)
        params = self._params(tokenizing, branch.choices)
        fitted = await run_in_threadpool(self._fit, tokenizing, branch, command.text, params)
        turn = NewTurn(
            client_id=command.id,
            conversation_id=command.conversation_id,
            parent_id=command.parent_id,
            text=command.text,
            title=title_of(command.text),
            system_prompt=branch.system_prompt,
            cut_id=NEW_MESSAGE if fitted.cut_key == QUESTION_KEY else fitted.cut_key,
            model=tokenizing.model.name,
            params=as_json(params),
            choices=branch.choices,
        )
        context = self._record(tokenizing, branch, fitted)
        reusable = reusable_tokens(branch.messages, context["reuse_lost"])
        request = GenerationRequest(
            "", fitted.prompt_ids, params, reusable_tokens=reusable, reasoning=fitted.reasoning
        )
        # What is stored is answered, even where the socket that asked for it has gone meanwhile.
        return await asyncio.shield(self._begin(turn, request, context))

    async def _begin(self, turn: NewTurn, request: GenerationRequest, context: dict[str, Any]) -> Begun:
        """Store the turn while a place in the queue is kept for its request, which it names."""
        with self._engine.reserve() as place:
            started = await run_in_threadpool(self._conversations.begin_turn, turn)
            reply_id, conversation_id = started.reply.id, started.conversation.id
            if started.repeated:
                return Begun(started, self._generations.get(reply_id))
            # Chats take turns: each is a client.
            request = replace(request, id=reply_id, client=conversation_id, owner=conversation_id)
            return Begun(started, self._generations.start(conversation_id, request, context, place))

    async def count(self, command: Count) -> ContextView:
        """What the model would read if the text were sent now."""
        tokenizing = self._tokenizing()
        branch = await self._branch(command)
        return await run_in_threadpool(self._measure, tokenizing, branch, command.text)

    async def context_of(
        self, conversation: ConversationRecord | None, opening: Opening | None = None
    ) -> ContextView | None:
        """The context bar over an empty draft; None before the tokenizer is there. `opening` is how a new
        chat is to be.
        """
        tokenizing = self._engine.tokenizing
        if tokenizing is None:
            return None
        head_id = conversation.head_id if conversation else None
        branch = await self._branch_at(conversation, head_id, opening)
        return await run_in_threadpool(self._measure, tokenizing, branch, "")

    def _tokenizing(self) -> Tokenizing:
        if self._engine.status.phase is ModelPhase.FAILED:
            raise Refused("model_failed", self._engine.status.message)
        if self._engine.tokenizing is None:
            raise Refused("model_loading", "The model is not here yet: " + self._engine.status.message)
        return self._engine.tokenizing

    async def _branch(self, command: Send | Count) -> Branch:
        """The branch that a new message would join. `Refused` while the end of it is being written."""
        conversation_id, parent_id = command.conversation_id, command.parent_id
        if parent_id is not None and self._generations.get(parent_id) is not None:
            raise Refused("busy", "The last reply is still being written. Wait for it, or stop it first.")
        if conversation_id is None:
            return await self._branch_at(None, None, command.opening)
        conversation = await run_in_threadpool(self._conversations.get, conversation_id)
        return await self._branch_at(conversation, parent_id)

    async def _branch_at(
        self, conversation: ConversationRecord | None, leaf_id: str | None, opening: Opening | None = None
    ) -> Branch:
        if conversation is None:
            opening = opening or await self._new_chats.opening()
            return Branch(opening.system_prompt, None, (), opening.choices)
        if leaf_id is None:
            return Branch(conversation.system_prompt, None, (), conversation.choices)
        messages = await run_in_threadpool(self._conversations.path, conversation.id, leaf_id)
        return Branch(conversation.system_prompt, conversation.cut_id, messages, conversation.choices)

    def _params(self, tokenizing: Tokenizing, choices: Choices) -> SamplingParams:
        """The model's defaults but for what was chosen, with a seed and a limit that the reply's record can
        name.
        """
        params = with_choices(tokenizing.model.defaults, choices)
        seed = secrets.randbelow(MAX_SEED) if params.seed is None else params.seed
        reserve = reserve_for(self._engine.window, params.max_tokens)
        return replace(params, seed=seed, max_tokens=reserve)

    def _thinking(self, choices: Choices) -> bool:
        return self._engine.config.thinking if choices.thinking is None else choices.thinking

    def _fit(self, tokenizing: Tokenizing, branch: Branch, text: str, params: SamplingParams) -> ContextFit:
        return fit(
            tokenizing.tokenizer,
            branch.system_prompt,
            as_history(branch.messages, tokenizing.model.name),
            text,
            window=self._engine.window,
            max_tokens=params.max_tokens,
            cut_key=branch.cut_id,
            thinking=self._thinking(branch.choices),
        )

    def _measure(self, tokenizing: Tokenizing, branch: Branch, text: str) -> ContextView:
        measured = measure(
            tokenizing.tokenizer,
            branch.system_prompt,
            as_history(branch.messages, tokenizing.model.name),
            text,
            window=self._engine.window,
            max_tokens=with_choices(tokenizing.model.defaults, branch.choices).max_tokens,
            cut_key=branch.cut_id,
            thinking=self._thinking(branch.choices),
        )
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

    def _record(self, tokenizing: Tokenizing, branch: Branch, fitted: ContextFit) -> dict[str, Any]:
        """What the reply keeps about its prompt."""
        record = {
            "window": fitted.window,
            "system": fitted.system,
            "pinned": fitted.pinned,
            "history": fitted.history,
            "question": fitted.question,
            "reserve": fitted.reserve,
            "left_out": list(fitted.left_out),
            "system_folded": fitted.system_folded,
            "thinking": self._thinking(branch.choices),
            "reuse_lost": fitted.reuse_lost,
            "template_hash": tokenizing.tokenizer.template_hash,
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


def as_json(params: SamplingParams) -> dict[str, Any]:
    """Sampling params as they are stored, every one of them."""
    return {**asdict(params), "stop": list(params.stop)}


def title_of(text: str) -> str:
    """The first line of a conversation's first message, cut at a word: no model is asked."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "New chat")
    if len(line) <= TITLE_LENGTH:
        return line
    words = line[:TITLE_LENGTH].rpartition(" ")[0] or line[: TITLE_LENGTH - 1]
    return words.rstrip(",;:") + "…"
