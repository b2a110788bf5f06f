"""A server that rests between requests and is right all the same."""

from __future__ import annotations

import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime

from tests.web.serving import Served


def test_every_answer_has_the_date_of_its_moment(serve: Callable[..., Served]) -> None:
    served = serve()
    served.get("/health")
    time.sleep(1.1)  # into another second than the first answer's
    before = int(time.time())
    date = parsedate_to_datetime(served.get("/health").headers["date"]).timestamp()
    assert before <= date <= time.time()
