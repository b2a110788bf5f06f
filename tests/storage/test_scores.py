"""Scores of replies: kept, replaced, and gone with their reply."""

from __future__ import annotations

from datetime import timedelta

import pytest

from storage.branches import Branches
from storage.conversations import Conversations, utc_now
from storage.database import Database
from storage.errors import NotFound
from storage.listing import Listing
from storage.records import NewScores
from storage.scores import Scores
from tests.storage.examples import a_continuation, a_turn, an_end

SCORES = NewScores("Model", {"compute_dtype": "float32"}, 3, b"\0\1\2")


@pytest.fixture
def conversations(database: Database) -> Conversations:
    return Conversations(database)


def test_scores_are_kept_replaced_and_given_for_the_reply_as_it_was(
    database: Database, conversations: Conversations
) -> None:
    turn = conversations.begin_turn(a_turn())
    conversations.finish(turn.reply.id, an_end(finish_reason="length"))
    scores = Scores(database)
    assert scores.get(turn.reply.id) is None
    scores.keep(turn.reply.id, SCORES)
    scores.keep(turn.reply.id, NewScores("Other", {}, 3, b"\7"))
    kept = scores.get(turn.reply.id)
    assert kept is not None
    assert (kept.model, kept.tokens, kept.data) == ("Other", 3, b"\7")
    conversations.begin_continuation(a_continuation(turn))
    conversations.finish(turn.reply.id, an_end(token_ids=(1, 2, 3, 4)))
    assert scores.get(turn.reply.id) is None  # it has gone on


def test_scores_go_with_their_reply(database: Database, conversations: Conversations) -> None:
    turn = conversations.begin_turn(a_turn())
    conversations.finish(turn.reply.id, an_end())
    scores, branches = Scores(database), Branches(database, lambda messages: None)
    scores.keep(turn.reply.id, SCORES)
    branches.delete(turn.conversation.id, turn.reply.id)
    with pytest.raises(NotFound):
        scores.get(turn.reply.id)
    listing = Listing(database)
    listing.delete(turn.conversation.id)
    listing.purge(utc_now() + timedelta(seconds=1))
    with pytest.raises(NotFound):
        scores.keep(turn.reply.id, SCORES)
