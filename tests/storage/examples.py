"""Values for the tests of storage."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from storage.conversations import Conversations
from storage.migrate import migrate
from storage.migrations import FOLDER, REVISIONS
from storage.records import NewContinuation, NewReply, NewTurn, ReplyEnd, StartedTurn, Status
from storage.sqlite import load_library


def a_turn(**changes: Any) -> NewTurn:
    values: dict[str, Any] = {
        "client_id": uuid4().hex,
        "conversation_id": None,
        "parent_id": None,
        "text": "안녕하세요",
        "title": "Greetings",
        "system_prompt": "Be brief.",
        "cut_id": None,
        "model": "scripted",
        "params": {"temperature": 0.0, "stop": ["\n"]},
    }
    return NewTurn(**(values | changes))


def a_reply(turn: StartedTurn, **changes: Any) -> NewReply:
    """Another reply to the turn's question."""
    values: dict[str, Any] = {
        "client_id": uuid4().hex,
        "conversation_id": turn.conversation.id,
        "question_id": turn.user.id,
        "cut_id": None,
        "model": "scripted",
        "params": {"seed": 2},
    }
    return NewReply(**(values | changes))


def a_continuation(turn: StartedTurn, **changes: Any) -> NewContinuation:
    """The turn's reply is to go on."""
    values: dict[str, Any] = {
        "client_id": uuid4().hex,
        "conversation_id": turn.conversation.id,
        "reply_id": turn.reply.id,
        "cut_id": None,
        "context": {"continued": [{"usage": None}]},
    }
    return NewContinuation(**(values | changes))


def an_end(text: str = "네.", **changes: Any) -> ReplyEnd:
    values: dict[str, Any] = {
        "text": text,
        "token_ids": (1, 2, 2**31 - 1),
        "status": Status.DONE,
        "finish_reason": "stop",
        "usage": {"prompt_tokens": 3},
        "timings": {"ttft": 0.25},
        "context": {"dropped": []},
    }
    return ReplyEnd(**(values | changes))


def follow(conversations: Conversations, turn: StartedTurn, **changes: Any) -> StartedTurn:
    """A further turn of the same conversation, after the reply of `turn`."""
    values = {"conversation_id": turn.conversation.id, "parent_id": turn.reply.id}
    return conversations.begin_turn(a_turn(**(values | changes)))


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of the folder, byte for byte."""
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def make_first_schema(path: Path) -> None:
    """A database without rows, as the first version made it."""
    later = [f"{revision}_*" for revision in REVISIONS[1:]]
    with TemporaryDirectory() as scratch:
        scripts = Path(scratch) / "scripts"
        shutil.copytree(FOLDER, scripts, ignore=shutil.ignore_patterns("__pycache__", *later))
        migrate(path, load_library(), None, scripts)
