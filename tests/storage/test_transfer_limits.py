"""Files that are cut, hostile or too large."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from storage.errors import ImportRefused
from storage.transfer.reading import Found, found
from storage.transfer.schema import document
from storage.transfer.splitting import CHUNK, CUT_SHORT
from tests.storage.bombs import BOMBS, outcomes
from tests.storage.exports import chatgpt_simple, llama_cpp, llama_lines, llama_message, zipped

ROOT = Path(__file__).parents[2]
GROWTH_KIB = 50 * 1_024


@pytest.mark.row(27)
def test_bombs_are_refused_in_a_sentence_and_take_no_memory(tmp_path: Path) -> None:
    folder = tmp_path / "bombs"
    folder.mkdir()
    for name, write in BOMBS.items():
        write(folder / name)
    command = [sys.executable, "-m", "tests.storage.bombs", str(folder)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    told = json.loads(result.stdout)
    assert told.keys() == BOMBS.keys()
    assert len(told) >= 20
    for name, (said, grew) in told.items():
        assert 0 < len(said) < 3, name
        for sentence in said:
            assert sentence.endswith("."), name
            assert len(sentence) < 300, name
            assert str(tmp_path) not in sentence, name
        assert grew < GROWTH_KIB, name


NOTHING = "There is no conversation in this file."


def parts(path: Path) -> list[Found]:
    """The conversations that are taken."""
    taken = []
    with suppress(ImportRefused):
        for each in found(path):
            if isinstance(each, Found):
                taken.append(each)
    return taken


FILES = {
    "chatgpt": json.dumps([chatgpt_simple(n) for n in range(3)]).encode(),
    "spread out": json.dumps([chatgpt_simple(n) for n in range(3)], indent=1).encode(),
    "llama.cpp lines": b"\n".join(
        llama_lines(llama_cpp([llama_message("q", None, "user", f"q{n}")], "q")) for n in range(3)
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_of_a_cut_file_whole_conversations_alone_are_taken(tmp_path: Path, name: str) -> None:
    content, path = FILES[name], tmp_path / "file"
    path.write_bytes(content)
    whole = [each.read() for each in found(path) if not isinstance(each, ImportRefused)]
    assert len(whole) == 3
    for cut in range(1, len(content), max(1, len(content) // 60)):
        path.write_bytes(content[:cut])
        each_one = list(outcomes(path))
        assert each_one[-1] in (CUT_SHORT, NOTHING, ""), each_one
        taken = [each.read() for each in parts(path)]
        assert taken == whole[: len(taken)]
        assert taken == whole[: each_one.count("")]


def test_chunks_may_end_anywhere(tmp_path: Path) -> None:
    path, answer = tmp_path / "file", 'q"\\\\" {[' * 20 + "끝"
    for shift in range(0, 60, 7):
        padding = "x" * (CHUNK - 500 + shift)
        path.write_text(json.dumps([chatgpt_simple(0, padding, answer), chatgpt_simple(1, answer, padding)]))
        chats = [each.read() for each in found(path) if not isinstance(each, ImportRefused)]
        assert [message.text for chat in chats for message in chat.messages] == [
            padding,
            answer,
            answer,
            padding,
        ]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "empty"),
        (b"hello", "no JSON"),
        (b"\xff\xfe[\x00", "no JSON"),
        (b"[]", "no conversation"),
        (b'["a", 1, [{}]]', "no conversation"),
        (b'{"format":"ondol","version":2,"conversations":[{}]}', "newer"),
        (b"PK\3\4 and so on", "damaged"),
    ],
)
def test_what_holds_no_conversation_is_refused_as_a_whole(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ImportRefused, match=why):
        list(found(path))


def test_one_bad_conversation_does_not_keep_the_others_out(tmp_path: Path) -> None:
    deep = b'{"mapping":' + b"[" * 99 + b"]" * 99 + b"}"
    good = json.dumps(chatgpt_simple()).encode()
    (tmp_path / "file").write_bytes(b"[" + b",".join([good, deep, b'{"mapping":{{}}}', b"{}", good]) + b"]")
    said = list(outcomes(tmp_path / "file"))
    assert [bool(sentence) for sentence in said] == [False, True, True, True, False]


def test_an_empty_export_is_read_and_has_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"".join(document([])))
    with pytest.raises(ImportRefused, match="no conversation"):
        list(found(tmp_path / "file"))


@pytest.mark.row(26)
def test_names_in_a_zip_are_never_paths(tmp_path: Path) -> None:
    steps = ("../", "../../", "/", "/etc/", "C:\\", "..\\", "a/../../", "%00/", "~/", "//host/share/", "./")
    names = [f"{step * n}conversations.json" for step in steps for n in range(1, 24)]
    names += [f"{step}{n}.jsonl" for step in steps for n in range(23)]
    assert len(names) > 500
    inside = tmp_path / "a" / "b"
    inside.mkdir(parents=True)
    lines = llama_lines(llama_cpp([llama_message("q", None, "user", "q")], "q"))
    zipped(inside / "file", dict.fromkeys(names, lines))
    assert set(outcomes(inside / "file")) == {""}
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == [inside / "file"]
