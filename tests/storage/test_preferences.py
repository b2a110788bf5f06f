"""Presets, choices and pins: kept, changed, gone, and never more than what was chosen."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from storage.conversations import Conversations
from storage.database import Database
from storage.errors import NotFound
from storage.preferences import Preferences
from storage.presets import Presets
from storage.records import Choices, DefaultsRecord
from tests.storage.examples import a_turn, an_end, follow

CHOICES = Choices({"temperature": 0.3, "stop": ["끝"]}, thinking=False)


@pytest.fixture
def presets(database: Database) -> Presets:
    return Presets(database)


@pytest.fixture
def preferences(database: Database) -> Preferences:
    return Preferences(database)


def test_a_preset_is_kept_changed_and_deleted(presets: Presets) -> None:
    made = presets.save("p1", "Cook", "You cook.", shared=True)
    assert (presets.get("p1"), presets.list_for()) == (made, [made])
    changed = presets.save("p1", "Chef", "You cook well.", shared=False)
    assert changed.created_at == made.created_at
    assert (presets.list_for(), presets.list_shared()) == ([changed], [])
    assert presets.delete("p1")
    assert not presets.delete("p1")
    with pytest.raises(NotFound):
        presets.get("p1")


def test_others_see_shared_presets_only(presets: Presets) -> None:
    presets.save("mine", "Mine", "a", shared=False, person="minji")
    ours = presets.save("ours", "Ours", "b", shared=True, person="minji")
    assert [each.id for each in presets.list_for("minji")] == ["mine", "ours"]
    assert presets.list_for("jun") == [ours]


def test_nothing_is_chosen_until_somebody_does(preferences: Preferences) -> None:
    assert preferences.defaults_of() == DefaultsRecord(Choices({}, None), None)


def test_each_person_has_defaults_of_their_own_that_outlive_a_restart(
    folder: Path, database: Database, presets: Presets, preferences: Preferences
) -> None:
    presets.save("p1", "Cook", "You cook.", shared=True)
    preferences.keep_defaults(DefaultsRecord(Choices({"top_k": 1}), None), "minji")
    preferences.keep_defaults(DefaultsRecord(CHOICES, "p1"), "minji")
    database.close()
    with closing(Database.open(folder)) as again:
        assert Preferences(again).defaults_of("minji") == DefaultsRecord(CHOICES, "p1")
        assert Preferences(again).defaults_of("jun") == DefaultsRecord()


def test_a_deleted_preset_is_nobodys_default_any_more(presets: Presets, preferences: Preferences) -> None:
    presets.save("p1", "Cook", "You cook.", shared=True)
    preferences.keep_defaults(DefaultsRecord(CHOICES, "p1"))
    presets.delete("p1")
    assert preferences.defaults_of() == DefaultsRecord(CHOICES, None)


def test_a_conversation_begins_with_choices_and_they_can_be_replaced(
    conversations: Conversations, preferences: Preferences
) -> None:
    begun = conversations.begin_turn(a_turn(choices=CHOICES)).conversation
    assert conversations.get(begun.id).choices == CHOICES
    changed = preferences.choose(begun.id, "Be long.", Choices())
    assert changed == conversations.get(begun.id)
    assert (changed.system_prompt, changed.choices) == ("Be long.", Choices({}, None))
    assert changed.updated_at == begun.updated_at
    with pytest.raises(NotFound):
        preferences.choose("gone", "", Choices())


def test_a_pin_stays_with_its_message_alone(conversations: Conversations, preferences: Preferences) -> None:
    first = conversations.begin_turn(a_turn())
    follow(conversations, first)
    assert preferences.pin(first.user.id, True).pinned
    assert [m.pinned for m in conversations.path(first.conversation.id)] == [True, False, False, False]
    conversations.finish(first.reply.id, an_end())
    preferences.pin(first.reply.id, True)
    assert not preferences.pin(first.user.id, False).pinned
    assert [m.pinned for m in conversations.path(first.conversation.id)] == [False, True, False, False]
    with pytest.raises(NotFound):
        preferences.pin("gone", True)
