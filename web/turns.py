"""What people ask, on its way in: fit, store, queue. Event loop; storage runs in pool threads.

Whatever these raise (`KNOWN_ERRORS` of `web.errors`), nothing was stored. A repeated command gives what it
gave before, even where a new one would be refused.
"""

from __future__ import annotations

import asyncio

from storage.records import NEW_MESSAGE, AskedTurn, NewTurn
from web.beginning import Beginnings, Begun, client_id_of, not_found
from web.commands import Begin, Continue, Count, Edit, Regenerate, Send
from web.further_replies import FurtherReplies
from web.prompts import Branch, Prompts, as_json
from web.protocol import ContextView

TITLE_LENGTH = 60


class Turns:
    """Begins turns and replies in conversations."""

    def __init__(self, beginnings: Beginnings, further: FurtherReplies, prompts: Prompts) -> None:
        self._beginnings = beginnings
        self._further = further
        self._prompts = prompts
        self._under_way: dict[str, asyncio.Task[Begun]] = {}

    async def begin(self, command: Begin, person: str) -> Begun:
        """Store what a person asked for and start its reply.

        It goes on where the socket that it came from is gone meanwhile. The same command from another socket
        waits until the first has been carried out: in between, its rows would be there without a reply that
        can be followed.
        """
        key = client_id_of(command.id, person)
        while (earlier := self._under_way.get(key)) is not None:
            await asyncio.wait([earlier])
        beginning = asyncio.create_task(self._begin(command, person))
        self._under_way[key] = beginning
        beginning.add_done_callback(lambda _: self._under_way.pop(key))
        return await asyncio.shield(beginning)

    async def _begin(self, command: Begin, person: str) -> Begun:
        match command:
            case Send():
                return await self._send(command, person)
            case Edit():
                return await self._edit(command, person)
            case Regenerate():
                return await self._further.regenerate(command, person)
            case Continue():
                return await self._further.go_on(command, person)

    async def count(self, command: Count, person: str) -> ContextView:
        """What the model would read if the person sent the text now."""
        branch = await self._branch(command, person)
        self._beginnings.refuse_unfinished(command.conversation_id, command.parent_id)
        return await self._prompts.count(branch, command.text)

    async def _branch(self, command: Send | Count, person: str) -> Branch:
        if command.conversation_id is None:
            return await self._prompts.before_the_first(command.opening, person)
        return await self._prompts.branch(command.conversation_id, command.parent_id)

    async def refuse_while_written(self, conversation_id: str, message_id: str) -> None:
        """Raises `Refused` while a reply is being written that is this message or comes after it."""
        await self._beginnings.refuse_while_written(conversation_id, message_id)

    async def _send(self, command: Send, person: str) -> Begun:
        client_id = client_id_of(command.id, person)
        asked = AskedTurn(client_id, command.conversation_id, command.parent_id, command.text)
        earlier = await self._beginnings.earlier(asked)
        if earlier is not None:
            return earlier
        self._beginnings.refuse_unfinished(command.conversation_id, command.parent_id)
        return await self._ask(asked, await self._branch(command, person), person)

    async def _edit(self, command: Edit, person: str) -> Begun:
        edited = await self._beginnings.message(command.conversation_id, command.message_id)
        if edited.role != "user":
            raise not_found(command.message_id)
        client_id = client_id_of(command.id, person)
        asked = AskedTurn(client_id, command.conversation_id, edited.parent_id, command.text)
        earlier = await self._beginnings.earlier(asked)
        if earlier is not None:
            return earlier
        await self._beginnings.refuse_while_written(command.conversation_id, edited.id)
        branch = await self._prompts.branch(command.conversation_id, edited.parent_id)
        return await self._ask(asked, branch, person)

    async def _ask(self, asked: AskedTurn, branch: Branch, person: str) -> Begun:
        tokenizing = self._prompts.tokenizing()
        params = self._prompts.params(tokenizing, branch.choices)
        prepared = await self._beginnings.prepare(tokenizing, branch, asked.text, params)
        turn = NewTurn(
            client_id=asked.client_id,
            conversation_id=asked.conversation_id,
            parent_id=asked.parent_id,
            text=asked.text,
            title=title_of(asked.text),
            system_prompt=branch.system_prompt,
            cut_id=prepared.cut_id(NEW_MESSAGE),
            model=tokenizing.model.name,
            params=as_json(params),
            choices=branch.choices,
            person_id=person,
        )
        begin = self._beginnings.conversations.begin_turn
        return await self._beginnings.begin(lambda: begin(turn), prepared, person, asks=True)


def title_of(text: str) -> str:
    """The first line of a conversation's first message, cut at a word: no model is asked."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "New chat")
    if len(line) <= TITLE_LENGTH:
        return line
    words = line[:TITLE_LENGTH].rpartition(" ")[0] or line[: TITLE_LENGTH - 1]
    return words.rstrip(",;:") + "…"
