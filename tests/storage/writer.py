"""A process to be killed: writes turns for ever and says each one only after storage has acknowledged it.

Run as `python -m tests.storage.writer FOLDER [CHARACTERS]`: so many has a reply in the end. Each line is
`turn CLIENT_ID REPLY_ID`, or for N characters kept `checkpoint REPLY_ID N` or `finish REPLY_ID N`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from storage.conversations import Conversations
from storage.database import Database
from tests.storage.examples import a_turn, an_end, follow


def main(folder: Path, characters: int = 20_000) -> None:
    conversations = Conversations(Database.open(folder))
    turn = conversations.begin_turn(a_turn())
    while True:
        print("turn", turn.user.client_id, turn.reply.id, flush=True)
        for length in (characters // 200, characters // 2):
            conversations.checkpoint(turn.reply.id, "글" * length, (7,) * length)
            print("checkpoint", turn.reply.id, length, flush=True)
        conversations.finish(turn.reply.id, an_end("글" * characters))
        print("finish", turn.reply.id, characters, flush=True)
        turn = follow(conversations, turn)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
