"""Two people and one running place, over their sockets."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tests.web.serving import Served

Serve = Callable[..., Served]


def test_who_comes_to_a_house_that_another_fills_is_next_and_everybody_is_told(serve: Serve) -> None:
    pace = threading.Semaphore(1)  # for the system prompt
    served = serve(lan=True, pace=pace, engine={"max_sequences": 1, "max_waiting": 3})
    owner = served.owner()
    pages = [served.ready_client(owner) for _ in range(4)]
    running = pages[0].say("the first")
    pages[0].wait_for("prefill", message_id=running["reply_id"])
    waiting = [page.say(f"number {number}") for number, page in enumerate(pages[1:], start=2)]
    for position, (page, said) in enumerate(zip(pages[1:], waiting, strict=True), start=1):
        page.wait_for("queued", message_id=said["reply_id"], position=position)

    guest = served.ready_client(served.guest(), {"Accept-Language": "ko"})
    theirs = guest.say("the guest's first")
    guest.wait_for("queued", message_id=theirs["reply_id"], position=1)
    for position, (page, said) in enumerate(zip(pages[1:], waiting, strict=True), start=2):
        page.wait_for("queued", message_id=said["reply_id"], position=position)

    last = guest.say("the guest's second")
    refused = guest.wait_for("error", ref=guest.send("send", text="the guest's third"))
    assert (refused["code"], refused["waiting"], refused["limit"]) == ("busy", 2, 2)
    assert refused["message"].startswith("이미 2개가 차례를 기다리고 있어요.")
    refused = pages[0].wait_for("error", ref=pages[0].send("send", text="the owner's fifth"))
    assert refused["message"].startswith(
        "You have 3 in the queue already; while others wait too, 2 is the most."
    )

    pace.release(100_000)
    for page, said in zip(pages, [running, *waiting], strict=True):
        page.wait_for("finished", message_id=said["reply_id"], finish_reason="stop")
    guest.wait_for("finished", message_id=last["reply_id"], finish_reason="stop")
