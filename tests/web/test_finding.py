"""The list in pieces, and search, over HTTP."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

from storage.bulk import Whole, keep_all
from storage.conversations import Conversations, utc_now
from storage.listing import Listing
from storage.people import People
from storage.records import OWNER, ConversationRecord, MessageRecord, Status
from tests.web.serving import Served
from web.listing import PAGE, read_page

Serve = Callable[..., Served]

ROW = re.compile(r'class="row" data-conversation-id="(\w+)"')
MORE = re.compile(r'class="list-more" data-url="([^"]+)"')
FOUND = re.compile(r'class="found-message" href="([^"]+)"')


def a_whole(name: str, at: datetime, *texts: str, model: str = "m", **changes: bool) -> Whole:
    said = [
        MessageRecord(
            f"{name}m{place}",
            name,
            f"{name}m{place - 1}" if place else None,
            None,
            "assistant" if place % 2 else "user",
            text,
            Status.DONE,
            at + timedelta(seconds=place),
            model=model if place % 2 else None,
        )
        for place, text in enumerate(texts)
    ]
    return Whole(ConversationRecord(name, f"title {name}", "", said[-1].id, None, at, at, **changes), said)  # type: ignore[arg-type]


def text_of(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html)).strip()


def links(html: str) -> list[str]:
    return [address.replace("&amp;", "&") for address in FOUND.findall(html)]


def test_the_list_comes_in_pieces_that_miss_and_repeat_nothing(serve: Serve) -> None:
    served = serve()
    now = utc_now()
    keep_all(
        served.database, [a_whole(f"c{n}", now - timedelta(hours=n), "hello") for n in range(2 * PAGE + 9)]
    )
    seen, address = [], "/conversations"
    while True:
        html = served.get(address).text
        assert len(ROW.findall(html)) <= PAGE
        seen += ROW.findall(html)
        following = MORE.search(html)
        if following is None:
            break
        address = following[1].replace("&amp;", "&")
    assert seen == [f"c{n}" for n in range(2 * PAGE + 9)]
    place = parse_qs(urlsplit(address).query)["before"][0]
    whole = served.get(f"/conversations?until={place}").text
    assert ROW.findall(whole) == seen[: 2 * PAGE]


def test_a_change_of_the_list_is_told_with_its_first_piece_alone(serve: Serve) -> None:
    served = serve()
    now = utc_now()
    keep_all(served.database, [a_whole(f"c{n}", now - timedelta(hours=n), "hello") for n in range(3 * PAGE)])
    client = served.ready_client()
    assert served.post("/api/conversations/c120/pin", {"on": True}).status_code == 204
    html = client.wait_for("conversations")["html"]
    assert ROW.findall(html) == ["c120", *(f"c{n}" for n in range(PAGE))]
    assert served.post("/api/conversations/c3/archive", {"on": True}).status_code == 204
    assert "c3" not in ROW.findall(client.wait_for("conversations")["html"])
    assert ROW.findall(served.get("/conversations?archived=1").text) == ["c3"]


def test_a_bad_place_or_switch_is_refused_with_a_sentence(serve: Serve) -> None:
    served = serve()
    for address in (
        "/conversations?before=x",
        "/conversations?until=9999999999999999999999-a",
        "/search?q=ab&from=x",
    ):
        assert served.get(address).status_code == 400
    for address in ("/search?q=ab&before=-", "/search?q=ab&to=9999-12-31"):
        assert served.get(address).status_code == 400
    keep_all(served.database, [a_whole("c1", utc_now(), "hello")])
    assert served.post("/api/conversations/c1/pin", {"on": 3}).status_code == 400
    for verb in ("pin", "archive"):
        assert served.post(f"/api/conversations/x/{verb}", {"on": True}).status_code == 404
    assert served.post("/api/conversations/x/restore", {}).status_code == 404


def zone_where_it_is(hour: int) -> str:
    ahead = (hour - datetime.now(UTC).hour + 12) % 24 - 12
    return f"Etc/GMT{-ahead:+}"  # signs are the other way round in these names


def test_headings_are_by_the_day_where_the_browser_is(serve: Serve) -> None:
    served = serve()
    keep_all(served.database, [a_whole("c", utc_now() - timedelta(hours=10), "hello")])
    for hour, heading in ((20, "Today"), (4, "Yesterday")):
        cookie = f"ondol_zone={zone_where_it_is(hour)}"
        assert text_of(served.get("/conversations", Cookie=cookie).text).startswith(heading)
        client = served.ready_client(headers={"Cookie": cookie})
        served.post("/api/conversations/c/rename", {"title": "again"})
        assert text_of(client.wait_for("conversations")["html"]).startswith(heading)
    for hostile in ("../../etc/passwd", "Nowhere/Town", "%00", "A" * 3_000):
        assert served.get("/conversations", Cookie=f"ondol_zone={hostile}").status_code == 200


def test_months_are_headings_and_go_on_in_the_next_piece_without_another(serve: Serve) -> None:
    served = serve()
    at = datetime(2024, 2, 20, 12, tzinfo=UTC)
    keep_all(served.database, [a_whole(f"c{n}", at - timedelta(hours=n), "hello") for n in range(PAGE + 2)])
    first = served.get("/conversations").text
    assert text_of(first).count("February 2024") == 1
    following = MORE.search(first)
    assert following
    assert "February 2024" not in text_of(served.get(following[1].replace("&amp;", "&")).text)


def test_a_deleted_conversation_can_be_brought_back_with_its_stopped_reply(serve: Serve) -> None:
    pace = threading.Semaphore(12)
    served = serve(lambda prompt: "abcdefghij" * 40, pace=pace)
    client = served.ready_client()
    accepted = client.say("go")
    client.wait_for("delta")
    chat = accepted["conversation_id"]
    assert served.post(f"/api/conversations/{chat}/delete", {}).status_code == 204
    assert client.wait_for("conversation_deleted")["deleted"]
    pace.release(1_000)
    client.wait_for("error", ref=accepted["reply_id"])
    assert served.get(f"/c/{chat}").status_code == 404
    client.send("send", text="on", conversation_id=chat, parent_id=accepted["reply_id"])
    client.wait_for("error", code="not_found")
    assert served.post(f"/api/conversations/{chat}/restore", {}).status_code == 204
    assert not client.wait_for("conversation_deleted")["deleted"]
    kept = Conversations(served.database).path(chat)
    assert kept[1].status is Status.DONE
    assert "abcdefghij".startswith(kept[1].text[:10])
    assert served.get(f"/c/{chat}").status_code == 200


def test_what_is_found_is_shown_with_marks_and_a_way_to_it(serve: Serve) -> None:
    served = serve()
    at = datetime(2026, 1, 2, 3, tzinfo=UTC)
    keep_all(
        served.database,
        [
            a_whole("c1", at, "어디 앉을까?", "따뜻한 <b>바닥</b>에 앉자", archived=True),
            a_whole("c2", at + timedelta(days=9), "바닥 이야기", "yes", model="other"),
        ],
    )
    page = served.get("/search?q=바닥").text
    assert links(page) == [
        "/c/c2?at=c2m0&find=%EB%B0%94%EB%8B%A5#mc2m0",
        "/c/c1?at=c1m1&find=%EB%B0%94%EB%8B%A5#mc1m1",
    ]
    assert "&lt;b&gt;<mark>바닥</mark>&lt;/b&gt;" in page
    assert page.count("found-archived") == 1
    assert len(links(served.get("/search?q=바닥&model=other").text)) == 1
    assert links(served.get("/search?q=바닥&to=2026-01-05").text) == links(page)[1:]
    assert links(served.get("/search?q=바닥&from=2026-01-05").text) == links(page)[:1]
    assert links(served.get("/search/quick?q=바닥").text) == links(page)
    assert "at least two letters" in text_of(served.get("/search?q=a").text)
    assert "at least two letters" in text_of(served.get("/search/quick?q=a").text)
    assert links(served.get("/search").text) == []


def test_results_come_in_pages(serve: Serve) -> None:
    served = serve()
    now = utc_now()
    keep_all(served.database, [a_whole(f"c{n}", now - timedelta(hours=n), "warm floor") for n in range(70)])
    seen, address = [], "/search?q=floor"
    while address:
        page = served.get(address).text
        seen += links(page)
        older = re.search(r'class="found-more"><a class="button" href="([^"]+)"', page)
        address = older[1].replace("&amp;", "&") if older else ""
    assert [link.partition("?")[0] for link in seen] == [f"/c/c{n}" for n in range(70)]


def test_a_message_far_up_comes_with_its_page_and_the_rest_in_pieces(serve: Serve) -> None:
    served = serve()
    keep_all(served.database, [a_whole("c", utc_now(), *(f"said {n}" for n in range(300)))])
    page = served.get("/c/c?at=cm50").text
    shown = [int(n) for n in re.findall(r'data-message-id="cm(\d+)"', page)]
    assert shown == [*range(30, 70), *range(240, 300)]
    before, between = (
        u.replace("&amp;", "&") for u in re.findall(r'class="earlier" data-url="([^"]+)"', page)
    )
    while between:
        piece = served.get(between).text
        shown = [int(n) for n in re.findall(r'data-message-id="cm(\d+)"', piece)] + shown
        following = re.search(r'class="earlier" data-url="([^"]+)"', piece)
        between = following[1].replace("&amp;", "&") if following else ""
    assert sorted(shown) == list(range(30, 300))
    assert re.findall(r'data-message-id="cm(\d+)"', served.get(before).text) == [str(n) for n in range(30)]
    for near_the_end in (235, 250, 299):
        page = served.get(f"/c/c?at=cm{near_the_end}").text
        shown = [int(n) for n in re.findall(r'data-message-id="cm(\d+)"', page)]
        assert shown == list(range(240 if near_the_end >= 240 else near_the_end - 20, 300))
    assert served.get("/c/c?at=nowhere").status_code == 200


def test_the_page_of_another_branch_moves_the_head_only_when_asked(serve: Serve) -> None:
    served = serve()
    client = served.ready_client()
    first, _ = client.say_and_wait("hello")
    chat = first["conversation_id"]
    client.send("edit", conversation_id=chat, message_id=first["user_id"], text="other")
    client.wait_for("finished")
    head = Conversations(served.database).get(chat).head_id
    page = served.get(f"/c/{chat}?at={first['user_id']}").text
    assert "data-elsewhere" in page
    assert f'data-message-id="{first["reply_id"]}"' in page
    assert Conversations(served.database).get(chat).head_id == head
    assert "data-elsewhere" not in served.get(f"/c/{chat}?at={head}").text


def test_a_running_conversation_is_marked_wherever_it_is_listed(serve: Serve) -> None:
    served = serve()
    keep_all(
        served.database, [a_whole("c1", utc_now(), "hello", pinned=True), a_whole("c2", utc_now(), "hello")]
    )
    listing, people = Listing(served.database), People(served.database)
    page = asyncio.run(read_page(listing, lambda chat: chat == "c1", people, OWNER, None))
    assert [[(i.id, i.running) for i in group.items] for group in page.groups] == [
        [("c1", True)],
        [("c2", False)],
    ]
