"""Whose keys and values a cached block holds, and who may reuse it.

What of a prompt is cached is shown, and felt in the time it takes: it would tell, token by token, what
somebody else's conversation says. So a reader finds what is everybody's and what their own conversations
computed, and nothing of others; not even that it is there.

An owner is a conversation with the person whose it is, `person/conversation`; those of the server's owner
have no person in front. A reader is a person, or one conversation `alone`: in one that several people see,
reuse shows nothing of its person's others. None reads only what is everybody's. Ids have no slash and no
equals sign in them.
"""

from __future__ import annotations

from collections.abc import Iterable

NOBODY = ""
"""The owner of what belongs to no conversation, and is everybody's."""

UNNAMED = ""
"""The person whose conversations are owners by their ids alone."""


def owner_of(person: str, conversation: str) -> str:
    """The name under which a conversation of that person owns what it computed."""
    return f"{person}/{conversation}" if person != UNNAMED else conversation


def person_of(owner: str) -> str:
    """Whose conversation an owner is."""
    return owner.rpartition("/")[0]


def conversation_of(owner: str) -> str:
    """Which conversation an owner is."""
    return owner.rpartition("/")[2]


def alone(owner: str) -> str:
    """The reader who reuses only what that conversation computed itself."""
    return f"={owner}"


def may_reuse(reader: str | None, owners: Iterable[str]) -> bool:
    """Whether a reader sees what these own."""
    return any(owner == NOBODY or reader in (person_of(owner), alone(owner)) for owner in owners)
