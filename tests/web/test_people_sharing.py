"""What a person shares: who may read it, who may write in it, and whose it stays."""

from __future__ import annotations

from typing import Any

from storage.conversations import Conversations
from storage.people import People
from tests.web.house import BODIES, SECRET, House, nothing_changes


def test_what_is_shared_to_be_read_can_be_read_and_no_more(house: House) -> None:
    house.share("read")
    his = house.served.ready_client(house.jun)
    assert SECRET in house.get(f"/c/{house.conversation}", house.jun).text
    assert house.conversation in house.get("/search?q=spare", house.jun).text
    assert "Minji" in house.get("/conversations", house.jun).text
    place = {"conversation_id": house.conversation}
    his.send("watch", **place)
    assert SECRET in his.wait_for("snapshot")["html"]
    commands: list[tuple[str, dict[str, Any]]] = [
        ("send", {"text": "mine", "parent_id": house.reply}),
        ("edit", {"text": "mine", "message_id": house.question}),
        ("regenerate", {"message_id": house.reply}),
        ("continue", {"message_id": house.reply}),
        ("switch", {"message_id": house.reply}),
        ("delete_branch", {"message_id": house.reply}),
        ("restore_branch", {"message_id": house.reply}),
    ]
    with nothing_changes(house):
        for name, fields in commands:
            error = his.wait_for("error", ref=his.send(name, **place, **fields))
            assert error["code"] == "not_allowed"
            assert "Minji" in error["message"]
        for action in ("rename", "pin", "archive", "share", "settings", "delete", "restore"):
            address = f"/api/conversations/{house.conversation}/{action}"
            assert house.post(address, BODIES.get(action, {}), house.jun).status_code == 403
        assert house.post(f"/api/messages/{house.reply}/pin", {"pinned": True}, house.jun).status_code == 403


def test_who_may_read_what_was_deleted_is_told_when_it_is_back(house: House) -> None:
    house.share("read")
    house.delete()
    his = house.served.ready_client(house.jun)
    answer = his.wait_for("conversation_deleted", ref=his.send("watch", conversation_id=house.conversation))
    assert answer["deleted"]
    house.post(f"/api/conversations/{house.conversation}/restore", {}, house.minji)
    assert not his.wait_for("conversation_deleted")["deleted"]


def test_what_is_shared_to_be_written_in_belongs_to_its_person_still(house: House) -> None:
    house.share("write")
    house.go_on.release(500)
    his, hers = house.served.ready_client(house.jun), house.served.ready_client(house.minji)
    hers.send("watch", conversation_id=house.conversation)
    hers.wait_for("snapshot")
    his.say_and_wait("and where is the stone", conversation_id=house.conversation, parent_id=house.reply)
    told = hers.wait_for("accepted")
    assert "Jun" in told["user_html"]
    record = Conversations(house.served.database).get(house.conversation)
    assert People(house.served.database).names()[record.person_id] == "Minji"
    deleted = house.post(f"/api/conversations/{house.conversation}/delete", {}, house.jun)
    assert deleted.status_code == 403
    error = his.wait_for(
        "error", ref=his.send("delete_branch", conversation_id=house.conversation, message_id=house.reply)
    )
    assert error["code"] == "not_allowed"


def test_who_may_only_read_cannot_stop_a_reply_and_a_writer_can(house: House) -> None:
    address = f"/api/conversations/{house.running_in}/share"
    his = house.served.ready_client(house.jun)
    house.post(address, {"shared": "read"}, house.minji)
    assert his.wait_for("error", ref=his.send("stop", message_id=house.running))["code"] == "not_allowed"
    house.post(address, {"shared": "write"}, house.minji)
    his.send("watch", conversation_id=house.running_in)
    his.wait_for("snapshot")
    his.send("stop", message_id=house.running)
    his.settle()
    house.go_on.release(500)
    assert his.wait_for("finished", message_id=house.running)["finish_reason"] == "abort"


def test_hiding_a_conversation_again_closes_it_on_every_page(house: House) -> None:
    house.share("write")
    his = house.served.ready_client(house.jun)
    his.send("watch", conversation_id=house.conversation)
    his.wait_for("snapshot")
    house.share(None)
    assert his.wait_for("right")["right"] == "none"
    his.wait_for_list(hiding=house.conversation)
    house.go_on.release(500)
    house.served.ready_client(house.minji).say_and_wait(
        "the key moved to the shed", conversation_id=house.conversation, parent_id=house.reply
    )
    his.settle()
    assert "shed" not in str(his.frames)
    assert house.get(f"/c/{house.conversation}", house.jun).status_code == 404


def test_a_shared_preset_is_changed_by_its_person_only(house: House) -> None:
    shared = {"name": "Ours", "text": "Speak as a sailor.", "shared": True}
    house.post("/api/presets/ours", shared, house.minji)
    assert "Speak as a sailor." in house.get("/api/settings", house.jun).text
    for path, body in (("/api/presets/ours", shared | {"text": "x"}), ("/api/presets/ours/delete", {})):
        assert house.post(path, body, house.jun).status_code == 403
    assert "Speak as a sailor." in house.get("/api/settings", house.jun).text
