"""How a reply begins once its request fits: store, and queue it in a place that is kept. Event loop; storage
runs in pool threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from starlette.concurrency import run_in_threadpool

from inference.context import QUESTION_KEY, ContextFit
from inference.engine import Engine
from inference.model_loader import Tokenizing
from inference.types import GenerationRequest, SamplingParams
from storage.conversations import Conversations
from storage.errors import NotFound
from storage.records import (
    OWNER,
    AskedContinuation,
    AskedReply,
    AskedTurn,
    MessageRecord,
    StartedTurn,
    Status,
)
from web.errors import Refused
from web.generation import Generation, Prior
from web.generations import Generations
from web.prompts import Branch, Prompts


@dataclass(frozen=True, slots=True)
class Begun:
    """A stored turn and its running reply; None when a repeated command's reply has already ended.

    `asks` whether the question came with the command, and not only its reply.
    """

    turn: StartedTurn
    generation: Generation | None
    asks: bool = True


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prompt that fits, and all that is to be asked and kept for its reply."""

    tokenizing: Tokenizing
    branch: Branch
    params: SamplingParams
    fitted: ContextFit
    request: GenerationRequest
    context: dict[str, Any]

    def cut_id(self, question_id: str) -> str | None:
        """The first message that is read; `question_id` stands for the question."""
        return question_id if self.fitted.cut_key == QUESTION_KEY else self.fitted.cut_key


class Beginnings:
    """Prepares, stores and starts replies, whatever they answer."""

    def __init__(
        self, engine: Engine, conversations: Conversations, generations: Generations, prompts: Prompts
    ) -> None:
        self.conversations = conversations
        self._engine = engine
        self._generations = generations
        self._prompts = prompts

    async def prepare(
        self,
        tokenizing: Tokenizing,
        branch: Branch,
        text: str,
        params: SamplingParams,
        *,
        begun: tuple[int, ...] = (),
        whole: Branch | None = None,
    ) -> Prepared:
        """What is to be asked of the model for a text after a branch. Raises `MessageTooLong`.

        `begun` are the reply's own tokens where it goes on; `whole` is then the branch with it.
        """

        def timed() -> tuple[ContextFit, float]:
            started = time.perf_counter()
            fitted = self._prompts.fit(tokenizing, branch, text, params, begun)
            return fitted, time.perf_counter() - started

        fitted, seconds = await run_in_threadpool(timed)
        request, context = self._prompts.request(tokenizing, whole or branch, fitted, params)
        context["tokenize_s"] = seconds
        return Prepared(tokenizing, branch, params, fitted, request, context)

    async def begin(
        self,
        store: Callable[[], StartedTurn],
        prepared: Prepared,
        person: str,
        *,
        asks: bool,
        prior: Prior | None = None,
    ) -> Begun:
        """Store with `store`, and start, for a person."""
        # A place in the queue is kept for the request, which what is stored gives its name.
        with self._engine.reserve(person) as place:
            started = await run_in_threadpool(store)
            reply_id, conversation_id = started.reply.id, started.conversation.id
            if started.repeated:
                return Begun(started, self._generations.get(reply_id), asks)
            request = replace(prepared.request, id=reply_id, person=person, owner=conversation_id)
            generation = self._generations.start(conversation_id, request, prepared.context, place, prior)
            return Begun(started, generation, asks)

    async def earlier(self, asked: AskedTurn | AskedReply | AskedContinuation) -> Begun | None:
        """What a repeated command gave before; None where its id is new. Raises `Conflict`."""
        earlier = await run_in_threadpool(self.conversations.earlier, asked)
        if earlier is None:
            return None
        running = self._generations.get(earlier.reply.id)
        if running is None and earlier.reply.status in (Status.PENDING, Status.RUNNING):
            # It ended since it was read: it is stored before it stops running.
            earlier = await run_in_threadpool(self.conversations.earlier, asked)
        return Begun(earlier, running, isinstance(asked, AskedTurn)) if earlier else None

    async def message(self, conversation_id: str, message_id: str) -> MessageRecord:
        """A stored message. Raises `NotFound`."""
        return await run_in_threadpool(self.conversations.message, message_id, conversation_id)

    async def refuse_while_written(self, conversation_id: str, message_id: str) -> None:
        """Raises `Refused` while a reply is being written that is this message or comes after it."""
        for running in self._generations.in_conversation(conversation_id):
            branch = await run_in_threadpool(self.conversations.path, conversation_id, running.reply_id)
            if any(message.id == message_id for message in branch):
                raise _still_written()

    def refuse_unfinished(self, conversation_id: str | None, parent_id: str | None) -> None:
        """Raises `Refused` while that message of the conversation is being written."""
        running = self._generations.get(parent_id or "")
        if running is not None and running.conversation_id == conversation_id:
            raise _still_written()


def client_id_of(command_id: str, person: str) -> str:
    """Under what the command is kept: ids are made by browsers, and each person's are their own."""
    return command_id if person == OWNER else f"{person}/{command_id}"


def _still_written() -> Refused:
    return Refused("busy", "The last reply is still being written. Wait for it, or stop it first.")


def not_found(message_id: str) -> NotFound:
    """What is said of a message that is not there, or that another kind of message would have to be."""
    return NotFound(f"There is no message {message_id}.")
