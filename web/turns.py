"""What begins a reply, on its way in: fit, store, queue. Event loop; storage runs in pool threads.

Whatever these raise (`KNOWN_ERRORS` of `web.errors`), nothing was stored. A repeated command gives what it
gave before, even where a new one would be refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from starlette.concurrency import run_in_threadpool

from inference.context import QUESTION_KEY, ContextFit
from inference.engine import Engine
from inference.model_loader import Tokenizing
from inference.types import GenerationRequest
from storage.conversations import Conversations
from storage.errors import NotFound
from storage.records import (
    NEW_MESSAGE,
    AskedContinuation,
    AskedReply,
    AskedTurn,
    MessageRecord,
    NewContinuation,
    NewReply,
    NewTurn,
    StartedTurn,
)
from web.commands import Begin, Continue, Count, Edit, Regenerate, Send
from web.errors import Refused
from web.generation import Generation, Prior
from web.generations import Generations
from web.opening import Opening
from web.prompts import Prompts, as_json, from_json, new_seed
from web.protocol import ContextView
from web.reuse import as_part

TITLE_LENGTH = 60


@dataclass(frozen=True, slots=True)
class Begun:
    """A stored turn and its running reply; None when a repeated command's reply has already ended.

    `asks` whether the question came with the command, and not only its reply.
    """

    turn: StartedTurn
    generation: Generation | None
    asks: bool = True


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A request that fits, how to store what it answers, and what the reply keeps about its prompt."""

    begin: Callable[[], StartedTurn]
    request: GenerationRequest
    context: dict[str, Any]
    asks: bool
    prior: Prior | None = None


class Turns:
    """Begins turns and replies in conversations."""

    def __init__(
        self, engine: Engine, conversations: Conversations, generations: Generations, prompts: Prompts
    ) -> None:
        self._engine = engine
        self._conversations = conversations
        self._generations = generations
        self._prompts = prompts

    async def begin(self, command: Begin) -> Begun:
        """Store what was asked for and start its reply."""
        match command:
            case Send():
                return await self._send(command)
            case Edit():
                return await self._edit(command)
            case Regenerate():
                return await self._regenerate(command)
            case Continue():
                return await self._continue(command)

    async def count(self, command: Count) -> ContextView:
        """What the model would read if the text were sent now."""
        branch = await self._prompts.branch(command.conversation_id, command.parent_id, command.opening)
        self._refuse_unfinished(command.parent_id)
        return await self._prompts.count(branch, command.text)

    async def refuse_while_written(self, conversation_id: str, message_id: str) -> None:
        """Raises `Refused` while a reply is being written that is this message or comes after it."""
        for running in self._generations.in_conversation(conversation_id):
            branch = await run_in_threadpool(self._conversations.path, conversation_id, running.reply_id)
            if any(message.id == message_id for message in branch):
                raise _still_written()

    async def _send(self, command: Send) -> Begun:
        asked = AskedTurn(command.id, command.conversation_id, command.parent_id, command.text)
        earlier = await self._earlier(asked)
        if earlier is not None:
            return earlier
        self._refuse_unfinished(command.parent_id)
        return await self._ask(asked, command.opening)

    async def _edit(self, command: Edit) -> Begun:
        edited = await self._message(command.conversation_id, command.message_id)
        if edited.role != "user":
            raise _not_found(command.message_id)
        asked = AskedTurn(command.id, command.conversation_id, edited.parent_id, command.text)
        earlier = await self._earlier(asked)
        if earlier is not None:
            return earlier
        await self.refuse_while_written(command.conversation_id, edited.id)
        return await self._ask(asked)

    async def _ask(self, asked: AskedTurn, opening: Opening | None = None) -> Begun:
        tokenizing = self._prompts.tokenizing()
        branch = await self._prompts.branch(asked.conversation_id, asked.parent_id, opening)
        params = self._prompts.params(tokenizing, branch.choices)
        fitted = await run_in_threadpool(self._prompts.fit, tokenizing, branch, asked.text, params)
        turn = NewTurn(
            client_id=asked.client_id,
            conversation_id=asked.conversation_id,
            parent_id=asked.parent_id,
            text=asked.text,
            title=title_of(asked.text),
            system_prompt=branch.system_prompt,
            cut_id=_cut_id(fitted, NEW_MESSAGE),
            model=tokenizing.model.name,
            params=as_json(params),
            choices=branch.choices,
        )
        request, context = self._prompts.request(tokenizing, branch, fitted, params)
        begin = self._conversations.begin_turn
        return await self._begin(_Prepared(lambda: begin(turn), request, context, asks=True))

    async def _regenerate(self, command: Regenerate) -> Begun:
        message = await self._message(command.conversation_id, command.message_id)
        question = await self._question_of(message)
        asked = AskedReply(command.id, command.conversation_id, question.id)
        earlier = await self._earlier(asked)
        if earlier is not None:
            return earlier
        await self.refuse_while_written(command.conversation_id, message.id)
        tokenizing = self._prompts.tokenizing()
        branch = await self._prompts.branch(command.conversation_id, question.parent_id)
        # Whatever seed was chosen: with the same one it would be the same reply.
        params = replace(self._prompts.params(tokenizing, branch.choices), seed=new_seed())
        fitted = await run_in_threadpool(self._prompts.fit, tokenizing, branch, question.text, params)
        new = NewReply(
            client_id=command.id,
            conversation_id=command.conversation_id,
            question_id=question.id,
            cut_id=_cut_id(fitted, question.id),
            model=tokenizing.model.name,
            params=as_json(params),
        )
        request, context = self._prompts.request(tokenizing, branch, fitted, params)
        begin = self._conversations.begin_reply
        return await self._begin(_Prepared(lambda: begin(new), request, context, asks=False))

    async def _continue(self, command: Continue) -> Begun:
        reply = await self._message(command.conversation_id, command.message_id)
        if reply.role == "user":
            raise _not_found(command.message_id)
        asked = AskedContinuation(command.id, command.conversation_id, reply.id)
        earlier = await self._earlier(asked)
        if earlier is not None:
            return earlier
        await self.refuse_while_written(command.conversation_id, reply.id)
        tokenizing = self._prompts.tokenizing()
        ids = _ids_to_continue(reply, tokenizing)
        question = await self._question_of(reply)
        branch = await self._prompts.branch(command.conversation_id, question.parent_id)
        params = self._prompts.params(tokenizing, branch.choices)
        params = replace(from_json(reply.params or as_json(params)), max_tokens=params.max_tokens)
        fitted = await run_in_threadpool(self._prompts.fit, tokenizing, branch, question.text, params, ids)
        whole = replace(branch, messages=(*branch.messages, question, reply))
        request, context = self._prompts.request(tokenizing, whole, fitted, params)
        context["continued"] = [*(reply.context or {}).get("continued", ()), as_part(reply)]
        new = NewContinuation(
            client_id=command.id,
            conversation_id=command.conversation_id,
            reply_id=reply.id,
            cut_id=_cut_id(fitted, question.id),
            context=context,
        )
        begin = self._conversations.begin_continuation
        prior = await run_in_threadpool(Prior.of, reply)
        return await self._begin(_Prepared(lambda: begin(new), request, context, asks=False, prior=prior))

    async def _begin(self, prepared: _Prepared) -> Begun:
        # What is stored is answered, even where the socket that asked for it has gone meanwhile.
        return await asyncio.shield(self._store_and_start(prepared))

    async def _store_and_start(self, prepared: _Prepared) -> Begun:
        """Store while a place in the queue is kept for the request, which it names."""
        with self._engine.reserve() as place:
            started = await run_in_threadpool(prepared.begin)
            reply_id, conversation_id = started.reply.id, started.conversation.id
            if started.repeated:
                return Begun(started, self._generations.get(reply_id), prepared.asks)
            # Chats take turns: each is a client.
            request = replace(prepared.request, id=reply_id, client=conversation_id, owner=conversation_id)
            generation = self._generations.start(
                conversation_id, request, prepared.context, place, prepared.prior
            )
            return Begun(started, generation, prepared.asks)

    async def _earlier(self, asked: AskedTurn | AskedReply | AskedContinuation) -> Begun | None:
        earlier = await run_in_threadpool(self._conversations.earlier, asked)
        if earlier is None:
            return None
        return Begun(earlier, self._generations.get(earlier.reply.id), isinstance(asked, AskedTurn))

    async def _message(self, conversation_id: str, message_id: str) -> MessageRecord:
        return await run_in_threadpool(self._conversations.message, message_id, conversation_id)

    async def _question_of(self, message: MessageRecord) -> MessageRecord:
        """The message that a reply answers; a question is its own."""
        if message.role == "user" or message.parent_id is None:
            return message
        return await self._message(message.conversation_id, message.parent_id)

    def _refuse_unfinished(self, parent_id: str | None) -> None:
        if parent_id is not None and self._generations.get(parent_id) is not None:
            raise _still_written()


def _cut_id(fitted: ContextFit, question_id: str) -> str | None:
    return question_id if fitted.cut_key == QUESTION_KEY else fitted.cut_key


def _ids_to_continue(reply: MessageRecord, tokenizing: Tokenizing) -> tuple[int, ...]:
    """The reply's own tokens, where it can go on after them. Raises `Refused`."""
    if reply.finish_reason == "stop":
        raise Refused("conflict", "This reply came to its end: there is nothing to continue.")
    if not reply.token_ids:
        raise Refused("conflict", "Nothing of this reply was written yet: ask for another one instead.")
    if reply.model != tokenizing.model.name:
        raise Refused(
            "conflict",
            f"{reply.model} wrote this reply, and {tokenizing.model.name} is loaded now: "
            "ask for another one instead.",
        )
    if not tokenizing.tokenizer.knows(reply.token_ids):
        raise Refused(
            "conflict", "The tokens of this reply are not this model's: ask for another one instead."
        )
    return reply.token_ids


def _still_written() -> Refused:
    return Refused("busy", "The last reply is still being written. Wait for it, or stop it first.")


def _not_found(message_id: str) -> NotFound:
    return NotFound(f"There is no message {message_id}.")


def title_of(text: str) -> str:
    """The first line of a conversation's first message, cut at a word: no model is asked."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "New chat")
    if len(line) <= TITLE_LENGTH:
        return line
    words = line[:TITLE_LENGTH].rpartition(" ")[0] or line[: TITLE_LENGTH - 1]
    return words.rstrip(",;:") + "…"
