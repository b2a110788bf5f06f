"""Further replies to questions that are stored: another one, the same once more, and one that goes on. Event
loop; storage runs in pool threads.
"""

from __future__ import annotations

from dataclasses import replace

from starlette.concurrency import run_in_threadpool

from inference.model_loader import Tokenizing
from inference.types import SamplingParams
from storage.records import AskedContinuation, AskedReply, MessageRecord, NewContinuation, NewReply
from web.beginning import Beginnings, Begun, Prepared, client_id_of, not_found
from web.commands import Continue, Regenerate
from web.errors import Refused
from web.generation import Prior
from web.opening import as_kept
from web.prompts import Branch, Prompts, as_json, from_json, new_seed
from web.rereading import Rereading
from web.reuse import as_part


class FurtherReplies:
    """Begins replies beside others, and lets replies go on."""

    def __init__(self, beginnings: Beginnings, prompts: Prompts, rereading: Rereading) -> None:
        self._beginnings = beginnings
        self._prompts = prompts
        self._rereading = rereading

    async def regenerate(self, command: Regenerate, person: str) -> Begun:
        """Another reply to the same question, or the same one once more."""
        message = await self._beginnings.message(command.conversation_id, command.message_id)
        question = await self._question_of(message)
        asked = AskedReply(client_id_of(command.id, person), command.conversation_id, question.id)
        earlier = await self._beginnings.earlier(asked)
        if earlier is not None:
            return earlier
        await self._beginnings.refuse_while_written(command.conversation_id, message.id)
        if command.repeat:
            return await self._repeat(asked, message, person)
        tokenizing = self._prompts.tokenizing()
        branch = await self._prompts.branch(command.conversation_id, question.parent_id)
        params = self._params_of_another(command, tokenizing, branch)
        prepared = await self._beginnings.prepare(tokenizing, branch, question.text, params)
        return await self._begin(asked, prepared, prepared.cut_id(question.id), person)

    def _params_of_another(
        self, command: Regenerate, tokenizing: Tokenizing, branch: Branch
    ) -> SamplingParams:
        if command.params is not None:
            choices = replace(branch.choices, params=as_kept(command.params))
            return self._prompts.params(tokenizing, choices)
        # Whatever seed was chosen: with the same one it would be the same reply.
        return replace(self._prompts.params(tokenizing, branch.choices), seed=new_seed())

    async def _repeat(self, asked: AskedReply, reply: MessageRecord, person: str) -> Begun:
        """The same reply once more, as its record says that it came about. Raises `Refused` where that is
        not to be had.
        """
        if reply.role == "user":
            raise not_found(reply.id)
        tokenizing = self._prompts.tokenizing()
        reread = await run_in_threadpool(self._rereading.of, reply)
        if reply.params is None or reply.params.get("seed") is None:
            raise Refused("conflict", "With which seed this reply was written was not kept.")
        params = from_json(reply.params)
        prepared = await self._beginnings.prepare(tokenizing, reread.branch, reread.question.text, params)
        if prepared.fitted.prompt_ids != reread.prompt_ids:
            raise Refused(
                "conflict", "The window is smaller now: the model cannot read all that it read then."
            )
        reused = (reply.usage or {}).get("cached_tokens")
        request = replace(prepared.request, reuse_at_most=reused, reusable_tokens=0)
        context = prepared.context | {"left_out": list(reread.left_out), "repeats": reply.id}
        prepared = replace(prepared, request=request, context=context)
        return await self._begin(asked, prepared, reread.cut_id, person)

    async def _begin(self, asked: AskedReply, prepared: Prepared, cut_id: str | None, person: str) -> Begun:
        new = NewReply(
            client_id=asked.client_id,
            conversation_id=asked.conversation_id,
            question_id=asked.question_id,
            cut_id=cut_id,
            model=prepared.tokenizing.model.name,
            params=as_json(prepared.params),
            person_id=person,
        )
        begin = self._beginnings.conversations.begin_reply
        return await self._beginnings.begin(lambda: begin(new), prepared, person, asks=False)

    async def go_on(self, command: Continue, person: str) -> Begun:
        """Let a reply that broke off go on where it ended."""
        reply = await self._beginnings.message(command.conversation_id, command.message_id)
        if reply.role == "user":
            raise not_found(command.message_id)
        client_id = client_id_of(command.id, person)
        asked = AskedContinuation(client_id, command.conversation_id, reply.id)
        earlier = await self._beginnings.earlier(asked)
        if earlier is not None:
            return earlier
        await self._beginnings.refuse_while_written(command.conversation_id, reply.id)
        tokenizing = self._prompts.tokenizing()
        ids = _ids_to_continue(reply, tokenizing)
        question = await self._question_of(reply)
        branch = await self._prompts.branch(command.conversation_id, question.parent_id)
        params = self._prompts.params(tokenizing, branch.choices)
        params = replace(from_json(reply.params or as_json(params)), max_tokens=params.max_tokens)
        whole = replace(branch, messages=(*branch.messages, question, reply))
        prepared = await self._beginnings.prepare(
            tokenizing, branch, question.text, params, begun=ids, whole=whole
        )
        prepared.context["continued"] = [*(reply.context or {}).get("continued", ()), as_part(reply)]
        new = NewContinuation(
            client_id=client_id,
            conversation_id=command.conversation_id,
            reply_id=reply.id,
            cut_id=prepared.cut_id(question.id),
            context=prepared.context,
        )
        begin = self._beginnings.conversations.begin_continuation
        prior = await run_in_threadpool(Prior.of, reply)
        return await self._beginnings.begin(lambda: begin(new), prepared, person, asks=False, prior=prior)

    async def _question_of(self, message: MessageRecord) -> MessageRecord:
        """The message that a reply answers; a question is its own."""
        if message.role == "user" or message.parent_id is None:
            return message
        return await self._beginnings.message(message.conversation_id, message.parent_id)


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
