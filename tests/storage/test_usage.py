from __future__ import annotations

from datetime import UTC, datetime, timedelta

from storage.conversations import Conversations
from storage.database import Database
from storage.records import UsageTotals
from storage.usage import Usage
from tests.storage.examples import a_turn, an_end

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)


def test_usage_is_summed_over_all_replies_and_over_those_since_a_moment(database: Database) -> None:
    now = NOON - timedelta(days=1)
    conversations = Conversations(database, clock=lambda: now)
    assert Usage(database).totals() == UsageTotals(0, 0, 0, 0)
    for read, reused, at in ((100, 0, NOON - timedelta(days=1)), (150, 120, NOON), (60, 50, NOON)):
        now = at
        turn = conversations.begin_turn(a_turn())
        usage = {"prompt_tokens": read, "cached_tokens": reused, "completion_tokens": 7}
        conversations.finish(turn.reply.id, an_end(usage=usage))
    conversations.begin_turn(a_turn())  # a reply that has not ended counts for nothing
    unmeasured = conversations.begin_turn(a_turn())
    conversations.finish(unmeasured.reply.id, an_end(usage=None))
    assert Usage(database).totals() == UsageTotals(3, 310, 170, 21)
    assert Usage(database).totals(since=NOON) == UsageTotals(2, 210, 170, 14)
    assert Usage(database).totals(since=NOON + timedelta(seconds=1)) == UsageTotals(0, 0, 0, 0)
