"""What the model read before a stored reply, put together again from the records, exactly or not at all.

Blocks: call it from a pool thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inference.model_loader import Tokenizing
from storage.conversations import Conversations
from storage.records import Choices, ConversationRecord, Json, MessageRecord
from web.errors import Refused
from web.prompts import Branch, Prompts, cut_of, prompt_hash
from web.reuse import reader_in, system_hash

NOT_KEPT = "What the model read before this reply was not kept."
OTHER_TEMPLATE = "The chat template is another one now than when this was written."
OTHER_SYSTEM = "The system text was changed since, and the one of that time was not kept."
OTHER_PROMPT = "What the model read before this reply cannot be put together again exactly."


@dataclass(frozen=True, slots=True)
class Reread:
    """A reply, its question, the messages that were read before that, and the ids of the whole prompt.

    `left_out` were not read, and `cut_id` is where reading began.
    """

    reply: MessageRecord
    question: MessageRecord
    branch: Branch
    left_out: tuple[str, ...]
    cut_id: str | None
    prompt_ids: tuple[int, ...]


class Rereading:
    """Puts prompts together again."""

    def __init__(self, conversations: Conversations, prompts: Prompts) -> None:
        self._conversations = conversations
        self._prompts = prompts

    def of(self, reply: MessageRecord) -> Reread:
        """Raises `Refused` where the prompt cannot be had as it was, and `NotFound`."""
        tokenizing = self._prompts.tokenizing()
        context = reply.context or {}
        if reply.parent_id is None or reply.usage is None or "left_out" not in context:
            raise Refused("conflict", NOT_KEPT)
        if reply.model != tokenizing.model.name:
            raise Refused(
                "conflict", f"{reply.model} wrote this reply, and {tokenizing.model.name} is loaded now."
            )
        if context.get("template_hash") != tokenizing.tokenizer.template_hash:
            raise Refused("conflict", OTHER_TEMPLATE)
        *earlier, question = self._conversations.path(reply.conversation_id, reply.parent_id)
        left_out = tuple(context["left_out"])
        read = [message for message in earlier if message.id not in left_out]
        choices = Choices({}, context.get("thinking"))
        conversation = self._conversations.get(reply.conversation_id)
        system_prompt = _system_prompt(conversation, context)
        branch = Branch(system_prompt, None, read, choices, reader_in(conversation))
        ids = self._exact_ids(tokenizing, branch, question, reply)
        cut_id = cut_of([*earlier, question, reply])
        return Reread(reply, question, branch, left_out, cut_id, ids)

    def _exact_ids(
        self, tokenizing: Tokenizing, branch: Branch, question: MessageRecord, reply: MessageRecord
    ) -> tuple[int, ...]:
        ids = self._prompts.whole_prompt(tokenizing, branch, question.text)
        if not _is_the_same(ids, reply):
            raise Refused("conflict", OTHER_PROMPT)
        return ids


def _system_prompt(conversation: ConversationRecord, context: Json) -> str:
    kept: str | None = context.get("system_prompt")
    if kept is not None:
        return kept
    if context.get("system_hash") != system_hash(conversation.system_prompt):
        raise Refused("conflict", OTHER_SYSTEM)
    return conversation.system_prompt


def _is_the_same(ids: Sequence[int], reply: MessageRecord) -> bool:
    """By the hash where one was kept; replies before that have at least the number of tokens."""
    context, usage = reply.context or {}, reply.usage or {}
    if "prompt_hash" in context:
        return bool(context["prompt_hash"] == prompt_hash(ids))
    return bool(len(ids) == usage["prompt_tokens"] - context.get("begun", 0))
