"""What the server is to have stored, as plain dictionaries: commands in, and the code that refuses each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal, TypeAlias

Code: TypeAlias = Literal["not_found", "busy", "conflict"]


@dataclass
class Said:
    """A message. `at` is its moment: a question and the reply that came with it have the same."""

    id: str
    chat: str
    parent: str | None
    mine: bool
    text: str
    at: int
    client_id: str | None = None
    reason: str | None = None
    deleted: bool = False
    running: bool = False
    interrupted: bool = False

    @property
    def status(self) -> str:
        return "running" if self.running else "interrupted" if self.interrupted else "done"


@dataclass
class Talk:
    """A conversation. `at` is when its last turn began."""

    id: str
    title: str
    head: str | None
    at: int
    pinned: bool = False
    archived: bool = False
    deleted: bool = False


@dataclass
class StoreModel:
    """Everything. A reply in `writing` has not ended, though its message may be gone."""

    chats: dict[str, Talk] = field(default_factory=dict)
    messages: dict[str, Said] = field(default_factory=dict)
    continued: dict[str, str] = field(default_factory=dict)
    writing: dict[str, str] = field(default_factory=dict)
    moments: Iterator[int] = field(default_factory=lambda: count(1))

    def branch(self, message_id: str | None) -> list[Said]:
        """From the first message to this one."""
        branch: list[Said] = []
        while message_id is not None:
            branch.insert(0, self.messages[message_id])
            message_id = branch[0].parent
        return branch

    def shown(self, chat_id: str) -> list[Said]:
        """What a page of the conversation shows."""
        return self.branch(self.chats[chat_id].head)

    def chat(self, chat_id: str | None) -> Talk | None:
        found = self.chats.get(chat_id or "")
        return None if found is None or found.deleted else found

    def known(self, chat_id: str, message_id: str | None) -> Said | None:
        """The message, whether or not its branch was deleted."""
        found = self.messages.get(message_id or "")
        return found if found and found.chat == chat_id and self.chat(chat_id) else None

    def live(self, chat_id: str, message_id: str | None) -> Said | None:
        found = self.known(chat_id, message_id)
        return None if found is None or any(m.deleted for m in self.branch(found.id)) else found

    def following(self, message_id: str) -> list[Said]:
        """The message and all that come after it."""
        after = [self.messages[message_id]]
        for message in after:
            after += [m for m in self.messages.values() if m.parent == message.id]
        return after

    def _newest_leaf(self, message: Said) -> str:
        live = [m for m in self.following(message.id) if self.live(m.chat, m.id)]
        return max(live, key=lambda m: (m.at, len(self.branch(m.id)))).id

    def written(self, chat_id: str, message_id: str) -> bool:
        """Whether a reply is being written that is this message or comes after it."""
        running = [id for id, chat in self.writing.items() if chat == chat_id and id in self.messages]
        return any(message_id == m.id for id in running for m in self.branch(id))

    # what is refused

    def refuses_send(self, chat_id: str | None, parent: str | None) -> Code | None:
        if chat_id is None:
            return "not_found" if parent else None
        if self.chat(chat_id) is None or (parent and not self.live(chat_id, parent)):
            return "not_found"
        return "busy" if parent in self.writing else None

    def refuses_edit(self, chat_id: str, message_id: str) -> Code | None:
        found = self.live(chat_id, message_id)
        if found is None or not found.mine:
            return "not_found"
        return "busy" if self.written(chat_id, message_id) else None

    def refuses_regenerate(self, chat_id: str, message_id: str) -> Code | None:
        if self.live(chat_id, message_id) is None:
            return "not_found"
        return "busy" if self.written(chat_id, message_id) else None

    def refuses_continue(self, chat_id: str, message_id: str) -> Code | None:
        found = self.live(chat_id, message_id)
        if found is None or found.mine:
            return "not_found"
        if self.written(chat_id, message_id):
            return "busy"
        ended = found.reason == "stop" or not found.text
        return "conflict" if ended or len(self.following(message_id)) > 1 else None

    def refuses_delete(self, chat_id: str, message_id: str) -> Code | None:
        found = self.known(chat_id, message_id)
        if found is None or not (found.deleted or self.live(chat_id, message_id)):
            return "not_found"
        return "busy" if self.written(chat_id, message_id) else None

    def refuses_restore(self, chat_id: str, message_id: str) -> Code | None:
        found = self.known(chat_id, message_id)
        above = found and found.parent
        return None if found and (above is None or self.live(chat_id, above)) else "not_found"

    def answers_repeated(
        self, kind: str, command: Mapping[str, Any], first: Mapping[str, Any]
    ) -> Code | Literal["anew"] | None:
        """How the command is refused when it comes again; None: as it was answered `first`, and `anew` where
        nothing that it made is left.
        """
        made = first["user_id"] if kind in ("send", "edit") else first["reply_id"]
        if made not in self.messages:
            return "anew"
        chat_id = first["conversation_id"]
        if kind != "send" and self.live(chat_id, command["message_id"]) is None:
            return "not_found"
        if self.chat(chat_id) is None or first["reply_id"] not in self.messages:
            return "not_found"
        return None

    # what is done

    def turn(self, user: Said, reply_id: str, title: str) -> None:
        """A question, and the reply that came with it."""
        if user.chat not in self.chats:
            self.chats[user.chat] = Talk(user.chat, title, None, 0)
        self.messages[user.id] = user
        self.reply(Said(reply_id, user.chat, user.id, False, "", user.at))

    def reply(self, reply: Said) -> None:
        """A reply that begins."""
        self.messages[reply.id] = reply
        self.go_on(reply.id, reply.at)

    def go_on(self, reply_id: str, at: int) -> None:
        reply = self.messages[reply_id]
        reply.running, reply.interrupted, reply.reason = True, False, None
        self.writing[reply_id] = reply.chat
        self.chats[reply.chat].head, self.chats[reply.chat].at = reply_id, at

    def switch(self, message_id: str) -> None:
        found = self.messages[message_id]
        self.chats[found.chat].head = self._newest_leaf(found)

    def delete_branch(self, message_id: str) -> None:
        gone = self.messages[message_id]
        if gone.deleted:
            return
        looked_at = gone.id in [m.id for m in self.shown(gone.chat)]
        gone.deleted = True
        if not looked_at:
            return
        family = [m for m in self.messages.values() if (m.chat, m.parent) == (gone.chat, gone.parent)]
        family.sort(key=lambda m: (m.at, m.id))
        place = family.index(gone)
        nearest = [m for m in (*reversed(family[:place]), *family[place:]) if not m.deleted]
        self.chats[gone.chat].head = self._newest_leaf(nearest[0]) if nearest else gone.parent

    def restore_branch(self, message_id: str) -> None:
        self.messages[message_id].deleted = False
        self.switch(message_id)

    def purge(self) -> None:
        """What is deleted is gone for good."""
        gone = {m.id for chat in self.chats.values() if chat.deleted for m in self.in_chat(chat.id)}
        for message in [m for m in self.messages.values() if m.deleted]:
            gone |= {m.id for m in self.following(message.id)}
        for message_id in gone:
            del self.messages[message_id]
        self.chats = {id: chat for id, chat in self.chats.items() if not chat.deleted}
        self.continued = {id: reply for id, reply in self.continued.items() if reply in self.messages}

    def in_chat(self, chat_id: str) -> list[Said]:
        return [m for m in self.messages.values() if m.chat == chat_id]
