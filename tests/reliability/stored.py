"""What lies in a data folder whose server is not there."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from storage.conversations import Conversations
from storage.database import Database
from storage.records import MessageRecord, NewTurn, ReplyEnd, Status

TURNS = 31
CHARS = 13_000


def fill(data_dir: Path, name: str = "fill") -> str:
    """A long conversation, more than a page shows at first; its id."""
    with closing(Database.open(data_dir)) as database:
        conversations = Conversations(database)
        conversation = parent = None
        for number in range(TURNS):
            turn = NewTurn(
                client_id=f"{name}-{number}",
                conversation_id=conversation,
                parent_id=parent,
                text="Go on.",
                title="Long",
                system_prompt="",
                cut_id=None,
                model="none",
                params={},
            )
            started = conversations.begin_turn(turn)
            conversation, parent = started.conversation.id, started.reply.id
            conversations.finish(parent, ReplyEnd("warm floor " * (CHARS // 11), (), Status.DONE, "stop"))
    assert conversation is not None
    return conversation


def branches(data_dir: Path) -> list[list[MessageRecord]]:
    """Every conversation, from its first message to its head."""
    with closing(Database.open(data_dir)) as database:
        conversations = Conversations(database)
        return [conversations.path(each.id) for each in conversations.list_recent(1_000)]


def replies(data_dir: Path) -> dict[str, MessageRecord]:
    """The last reply of every conversation, by the question."""
    return {branch[-2].text: branch[-1] for branch in branches(data_dir)}
