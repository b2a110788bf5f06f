"""What was chosen: for a conversation, by a person for new ones, and which messages are pinned.

Every method is one transaction and blocks: call it from a pool thread. Any may raise `StorageError`, and then
nothing was changed.
"""

from __future__ import annotations

from storage.database import Database
from storage.lookup import find_conversation, find_message
from storage.people_tables import Defaults
from storage.records import OWNER, Choices, ConversationRecord, DefaultsRecord, MessageRecord


class Preferences:
    """The preferences of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def defaults_of(self, person: str = OWNER) -> DefaultsRecord:
        """What this person's new chats begin with."""
        with self._database.read() as session:
            defaults = session.get(Defaults, person)
            return DefaultsRecord() if defaults is None else defaults.record()

    def keep_defaults(self, defaults: DefaultsRecord, person: str = OWNER) -> None:
        """This person's new chats begin so from now on."""
        with self._database.write() as session:
            row = session.get(Defaults, person) or Defaults(person=person)
            row.params = dict(defaults.choices.params)
            row.thinking = defaults.choices.thinking
            row.preset_id = defaults.preset_id
            session.add(row)

    def choose(self, conversation_id: str, system_prompt: str, choices: Choices) -> ConversationRecord:
        """Every further turn of the conversation is so. Its place in the list stays. Raises `NotFound`."""
        with self._database.write() as session:
            conversation = find_conversation(session, conversation_id)
            conversation.system_prompt = system_prompt
            conversation.params = dict(choices.params)
            conversation.thinking = choices.thinking
            return conversation.record()

    def pin(self, message_id: str, pinned: bool) -> MessageRecord:
        """Trimming leaves out a pinned message never. Raises `NotFound`."""
        with self._database.write() as session:
            message = find_message(session, message_id)
            message.pinned = pinned
            return message.record()
