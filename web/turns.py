"""What begins a reply, on its way in: fit, store, queue. Event loop; storage runs in pool threads.

Whatever these raise (`KNOWN_ERRORS` of `web.errors`), nothing was stored. A repeated command gives what it
gave before, even where a new one would be refused.
"""

from __future__ import annotations

import asyncio
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
from web.opening import Opening, as_kept
from web.prompts import Branch, Prompts, as_json, from_json, new_seed
from web.protocol import ContextView
from web.rereading import Rereading
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
        self,
        engine: Engine,
        conversations: Conversations,
        generations: Generations,
        prompts: Prompts,
        rereading: Rereading,
    ) -> None:
        self._engine = engine
        self._conversations = conversations
        self._generations = generations
        self._prompts = prompts
        self._rereading = rereading

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
        fitted, tokenize_s = await self._fit(tokenizing, branch, asked.text, params)
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
        context["tokenize_s"] = tokenize_s
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
        if command.repeat:
            return await self._repeat(command, message)
        tokenizing = self._prompts.tokenizing()
        branch = await self._prompts.branch(command.conversation_id, question.parent_id)
        params = self._params_of_another(command, tokenizing, branch)
        fitted, tokenize_s = await self._fit(tokenizing, branch, question.text, params)
        new = NewReply(
            client_id=command.id,
            conversation_id=command.conversation_id,
            question_id=question.id,
            cut_id=_cut_id(fitted, question.id),
            model=tokenizing.model.name,
            params=as_json(params),
        )
        request, context = self._prompts.request(tokenizing, branch, fitted, params)
        context["tokenize_s"] = tokenize_s
        begin = self._conversations.begin_reply
        return await self._begin(_Prepared(lambda: begin(new), request, context, asks=False))

    def _params_of_another(
        self, command: Regenerate, tokenizing: Tokenizing, branch: Branch
    ) -> SamplingParams:
        if command.params is not None:
            choices = replace(branch.choices, params=as_kept(command.params))
            return self._prompts.params(tokenizing, choices)
        # Whatever seed was chosen: with the same one it would be the same reply.
        return replace(self._prompts.params(tokenizing, branch.choices), seed=new_seed())

    async def _repeat(self, command: Regenerate, reply: MessageRecord) -> Begun:
        """The same reply once more, as its record says that it came about. Raises `Refused` where that is
        not to be had.
        """
        if reply.role == "user":
            raise _not_found(reply.id)
        tokenizing = self._prompts.tokenizing()
        reread = await run_in_threadpool(self._rereading.of, reply)
        if reply.params is None or reply.params.get("seed") is None:
            raise Refused("conflict", "With which seed this reply was written was not kept.")
        params = from_json(reply.params)
        fitted, tokenize_s = await self._fit(tokenizing, reread.branch, reread.question.text, params)
        if fitted.prompt_ids != reread.prompt_ids:
            raise Refused(
                "conflict", "The window is smaller now: the model cannot read all that it read then."
            )
        fitted = replace(fitted, left_out=reread.left_out)
        new = NewReply(
            client_id=command.id,
            conversation_id=command.conversation_id,
            question_id=reread.question.id,
            cut_id=reread.cut_id,
            model=tokenizing.model.name,
            params=as_json(params),
        )
        request, context = self._prompts.request(tokenizing, reread.branch, fitted, params)
        reused = (reply.usage or {}).get("cached_tokens")
        request = replace(request, reuse_at_most=reused, reusable_tokens=0)
        context |= {"tokenize_s": tokenize_s, "repeats": reply.id}
        begin = self._conversations.begin_reply
        return await self._begin(_Prepared(lambda: begin(new), request, context, asks=False))

    async def _fit(
        self,
        tokenizing: Tokenizing,
        branch: Branch,
        text: str,
        params: SamplingParams,
        begun: tuple[int, ...] = (),
    ) -> tuple[ContextFit, float]:
        """What the model reads, and the seconds that it took to tokenize it."""

        def timed() -> tuple[ContextFit, float]:
            started = time.perf_counter()
            fitted = self._prompts.fit(tokenizing, branch, text, params, begun)
            return fitted, time.perf_counter() - started

        return await run_in_threadpool(timed)

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
        fitted, tokenize_s = await self._fit(tokenizing, branch, question.text, params, ids)
        whole = replace(branch, messages=(*branch.messages, question, reply))
        request, context = self._prompts.request(tokenizing, whole, fitted, params)
        context["tokenize_s"] = tokenize_s
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
