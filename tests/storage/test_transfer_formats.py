"""What becomes of other programs' conversations."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from storage.errors import ImportRefused
from storage.transfer.reading import found
from storage.transfer.schema import ExportedConversation, chosen_branch
from tests.storage.exports import (
    NOON,
    chatgpt,
    chatgpt_node,
    chatgpt_simple,
    llama_cpp,
    llama_lines,
    llama_message,
    open_webui,
    open_webui_message,
    zipped,
)


@pytest.fixture
def read(tmp_path: Path) -> Any:
    """The conversations of a file with this content."""

    def read(content: Any) -> list[ExportedConversation]:
        path = tmp_path / "file"
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return [each.read() for each in found(path) if not isinstance(each, ImportRefused)]

    return read


def said(conversation: ExportedConversation) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in chosen_branch(conversation)]


def test_chatgpt_branches_dates_and_the_chosen_one_are_kept(read: Any) -> None:
    mapping = {
        "root": chatgpt_node(None, None),
        "hidden": chatgpt_node("root", "system", "", metadata={"is_visually_hidden_from_conversation": True}),
        "ask": chatgpt_node("hidden", "user", "왜?", create_time=NOON + 1),
        "first": chatgpt_node("ask", "assistant", "No idea.", metadata={"model_slug": "gpt-4o"}),
        "second": chatgpt_node("ask", "assistant", "Because.", metadata={"model_slug": "o3"}),
        "more": chatgpt_node("second", "user", "Sure?"),
    }
    (chat,) = read([chatgpt(mapping, current="first")])
    assert (chat.origin, chat.title) == ("ChatGPT", "Trip")
    assert said(chat) == [("user", "왜?"), ("assistant", "No idea.")]
    assert {m.text: m.model for m in chat.messages if m.role == "assistant"} == {
        "No idea.": "gpt-4o",
        "Because.": "o3",
    }
    assert chat.created_at == datetime(2023, 11, 14, 22, 13, 20, 250_000, tzinfo=UTC)
    first, second = (message for message in chat.messages if message.role == "assistant")
    assert first.parent_id == second.parent_id == chat.messages[0].id
    assert first.created_at < second.created_at, "the order of branches is that of the file"


def test_chatgpt_tools_and_thoughts_become_one_reply(read: Any) -> None:
    mapping = {
        "ask": chatgpt_node(None, "user", "1+1?"),
        "context": chatgpt_node("ask", "user", content_type="user_editable_context", user_profile="x"),
        "think": chatgpt_node(
            "context",
            "assistant",
            content_type="thoughts",
            thoughts=[{"summary": "Adding", "content": "1+1"}],
        ),
        "recap": chatgpt_node(
            "think", "assistant", content_type="reasoning_recap", content="Thought for 2 s"
        ),
        "call": chatgpt_node("recap", "assistant", content_type="code", language="python", text="1 + 1"),
        "result": chatgpt_node("call", "tool", content_type="execution_output", text="2\n```\n"),
        "say": chatgpt_node("result", "assistant", "It is 2.", metadata={"model_slug": "gpt-4o"}),
    }
    (chat,) = read([chatgpt(mapping)])
    reply = chosen_branch(chat)[-1]
    assert [m.role for m in chat.messages] == ["user", "assistant"]
    assert reply.text == "```python\n1 + 1\n```\n\n````\n2\n```\n````\n\nIt is 2."
    assert (reply.reasoning, reply.model) == ("Adding\n1+1", "gpt-4o")


def test_chatgpt_pictures_recordings_and_files_leave_a_word_in_their_place(read: Any) -> None:
    picture = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://x"}
    sound = {"content_type": "audio_asset_pointer"}
    spoken = {"content_type": "audio_transcription", "text": "hello"}
    metadata = {"attachments": [{"name": "plan.pdf"}, None, {"id": 3}]}
    ask = chatgpt_node(
        None,
        "user",
        picture,
        "What is this?",
        None,
        sound,
        spoken,
        {"content_type": "new"},
        metadata=metadata,
    )
    (chat,) = read([chatgpt({"ask": ask})])
    assert chat.messages[0].text.split("\n\n") == [
        *("[image]", "What is this?", "[recording]", "hello", "[new]", "[file: plan.pdf]", "[file]")
    ]


def test_branches_after_one_tool_call_become_whole_replies(read: Any) -> None:
    mapping = {
        "ask": chatgpt_node(None, "user", "q"),
        "call": chatgpt_node("ask", "assistant", "looking"),
        "one": chatgpt_node("call", "assistant", "one"),
        "two": chatgpt_node("call", "assistant", "two"),
        "next": chatgpt_node("two", "user", "and?"),
    }
    (chat,) = read([chatgpt(mapping)])
    replies = [m.text for m in chat.messages if m.role == "assistant"]
    assert replies == ["looking\n\none", "looking\n\ntwo"]
    assert said(chat) == [("user", "q"), ("assistant", "looking\n\ntwo"), ("user", "and?")]


@pytest.mark.parametrize(
    ("mapping", "why"),
    [
        ({}, "no messages"),
        ({"a": chatgpt_node(None, "user", "")}, "no messages"),
        ({"a": chatgpt_node("b", "user", "x"), "b": chatgpt_node("a", "user", "y")}, "circle"),
        ({"a": {"message": 3}}, "mapping"),
    ],
)
def test_a_chatgpt_conversation_that_makes_no_sense_is_refused(
    tmp_path: Path, mapping: dict[str, Any], why: str
) -> None:
    path = tmp_path / "file"
    path.write_text(json.dumps([chatgpt_simple() | {"mapping": mapping}]))
    (each,) = found(path)
    assert not isinstance(each, ImportRefused)
    with pytest.raises(ImportRefused, match=why):
        each.read()


def test_half_a_character_and_impossible_dates_are_mended(read: Any) -> None:
    strange = chatgpt_simple(answer="cut \ud83d") | {"create_time": 1e300, "update_time": -5}
    strange["mapping"]["ask"]["message"]["create_time"] = 1_700_000_000_000
    (chat,) = read([strange])
    assert said(chat)[-1] == ("assistant", "cut \ufffd")
    assert chat.messages[0].created_at == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert chat.created_at == chat.messages[0].created_at


def test_an_open_webui_tree_is_read_with_reasoning_tools_and_files(read: Any) -> None:
    reply = (
        '<details type="reasoning" done="true" duration="2">\n<summary>Thought for 2 seconds</summary>\n'
        '> is 1 &lt; 2?\n> yes\n</details>\n<details type="tool_calls" name="search" result="x">\n'
        "<summary>Tool</summary>\n</details>\nYes."
    )
    messages = [
        open_webui_message("1", None, "user", "Is it?", files=[{"type": "image", "url": "data:,"}]),
        open_webui_message("2", "1", "assistant", reply, model="qwen3", timestamp=1_700_000_005),
        open_webui_message("3", "1", "assistant", [{"type": "text", "text": "No."}, {"type": "image_url"}]),
    ]
    (chat,) = read([open_webui(messages, "2", params={"system": "Be kind."})])
    assert (chat.origin, chat.title, chat.system_prompt) == ("Open WebUI", "W", "Be kind.")
    assert said(chat) == [("user", "Is it?\n\n[image]"), ("assistant", "[tool: search]\n\nYes.")]
    assert chosen_branch(chat)[-1].reasoning == "is 1 < 2?\nyes"
    assert [m.text for m in chat.messages][-1] == "No.\n\n[image]"


def test_older_open_webui_chats_are_lists(read: Any) -> None:
    spoken = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    system = {"role": "system", "content": "Be old."}
    chats = read(
        [{"chat": {"title": "one", "messages": [system, *spoken]}}, {"title": "two", "messages": spoken}]
    )
    assert [said(chat) for chat in chats] == [[("user", "q"), ("assistant", "a")]] * 2
    assert [chat.system_prompt for chat in chats] == ["Be old.", ""]
    assert chats[0].id != chats[1].id


LLAMA = llama_cpp(
    [
        llama_message("r", None, "system", "", type="root"),
        llama_message("s", "r", "system", "Be terse.", type="system"),
        llama_message(
            "q", "s", "user", "q", extra=[{"type": "TEXT", "name": "n.txt", "content": "all of it"}]
        ),
        llama_message(
            "c", "q", "assistant", "", reasoningContent="hm", toolCalls='[{"function": {"name": "date"}}]'
        ),
        llama_message("t", "c", "tool", "Monday"),
        llama_message("a", "t", "assistant", "On Monday.", model="gemma"),
        llama_message("b", "q", "assistant", "Never.", model="gemma"),
    ],
    "a",
)


@pytest.mark.parametrize(
    "content",
    [LLAMA, [LLAMA], llama_lines(LLAMA), llama_lines(LLAMA) + b"\n\n"],
    ids=["one", "array", "lines", "blank lines"],
)
def test_llama_cpp_conversations_are_read_in_every_form(read: Any, content: Any) -> None:
    (chat,) = read(content)
    assert (chat.origin, chat.title, chat.system_prompt) == ("llama.cpp", "L", "Be terse.")
    reply = chosen_branch(chat)[-1]
    assert said(chat)[0] == ("user", "q\n\n[file: n.txt]\n```\nall of it\n```")
    assert reply.text == "[tool: date]\n\n```\nMonday\n```\n\nOn Monday."
    assert (reply.reasoning, reply.model) == ("hm", "gemma")
    assert len(chat.messages) == 3


def test_older_llama_cpp_messages_have_numbers_for_ids(read: Any) -> None:
    messages = [
        llama_message(7, -1, "user", "q"),
        llama_message(8, 7, "assistant", "a"),
        llama_message(9, 8, "user", None),
    ]
    (chat,) = read(llama_cpp(messages, 9))
    assert said(chat) == [("user", "q"), ("assistant", "a")]


def test_several_formats_may_stand_in_one_file(read: Any) -> None:
    chats = read(
        [
            chatgpt_simple(),
            LLAMA,
            {"nothing": 1},
            open_webui([open_webui_message("1", None, "user", "q")], "1"),
        ]
    )
    assert [chat.origin for chat in chats] == ["ChatGPT", "llama.cpp", "Open WebUI"]


def test_of_a_zip_only_conversations_are_read(tmp_path: Path) -> None:
    shards = {f"export/conversations-{n:03}.json": json.dumps([chatgpt_simple(n)]).encode() for n in range(2)}
    others = {
        "chat.html": b"<html>",
        "user.json": b"{",
        "shared_conversations.json": b"{",
        "lines.jsonl": llama_lines(LLAMA),
    }
    zipped(tmp_path / "file", others | shards)
    chats = [each.read() for each in found(tmp_path / "file") if not isinstance(each, ImportRefused)]
    assert [chat.title for chat in chats] == ["L", "No. 0", "No. 1"]


def test_the_same_conversation_has_the_same_ids_every_time(read: Any) -> None:
    (one,), (two,) = read([chatgpt_simple(3)]), read([chatgpt_simple(3)])
    assert one == two
    (other,) = read([chatgpt_simple(4)])
    assert not {m.id for m in one.messages} & {m.id for m in other.messages}
