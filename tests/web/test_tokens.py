"""The page `/tokens`: by a form, by its script, and as a file."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

import httpx2
import pytest

from inference.text_pieces import TextPiece
from tests.inference.doubles import prepare_double
from tests.web.serving import Served
from web.token_table import LIMITS, MAX_SHOWN, harmless, piece_groups

Serve = Callable[..., Served]
KOREAN = {"Accept-Language": "ko"}


def post(served: Served, path: str, text: str, *models: str, **headers: str) -> httpx2.Response:
    body = urlencode({"text": text, "model": models}, doseq=True).encode()
    return httpx2.post(served.url + path, content=body, headers={"Origin": served.url, **headers})


def rows_of(served: Served, text: str, *models: str) -> list[dict[str, str]]:
    response = post(served, "/tokens.csv", text, *models)
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    assert "attachment" in response.headers["content-disposition"]
    assert response.content.startswith(b"\xef\xbb\xbf")
    return list(csv.DictReader(io.StringIO(response.content.decode("utf-8-sig"), newline="")))


def test_the_page_shows_an_example_and_what_was_written(serve: Serve) -> None:
    served = serve()
    served.ready_client()
    page = served.get("/tokens").text
    assert "오늘 저녁" in page
    assert "kimchi" in page
    answer = post(served, "/tokens", "ab\r\n\r\n배<b>").text
    assert ">ab\n\n배&lt;b&gt;</textarea>" in answer
    assert "<b>" not in answer
    fragment = post(served, "/tokens/rows", "ab\r\n\r\n배<b>").text
    assert "<html" not in fragment
    assert fragment.count('class="line"') == 2
    assert re.findall(r'class="byte">(\w+)<', fragment) == ["EB", "B0", "B0"]
    assert 'class="whole">배<' in fragment
    assert 'data-total="8"' in fragment  # one token a byte: two letters, three bytes, three letters
    assert "모두 6자" in post(served, "/tokens/rows", "ab\n배<b>", **KOREAN).text


def test_models_are_compared_and_none_is_read_by_a_path(serve: Serve, tmp_path: Path) -> None:
    prepare_double(tmp_path / "models" / "gguf-0123456789abcdef")
    secret = prepare_double(tmp_path / "secret").tokenizer_file
    served = serve()
    served.ready_client()
    both = rows_of(served, "hello", "gguf-0123456789abcdef", "Double")
    assert [row["model"] for row in both] == ["Double", "gguf-0123456789abcdef"]
    for name in (str(secret), "../secret", "nothing", ""):
        assert [row["model"] for row in rows_of(served, "hello", name)] == ["Double"]


def test_the_file_holds_every_piece_and_no_formula(serve: Serve) -> None:
    served = serve()
    served.ready_client()
    rows = rows_of(served, '=1+1\n배,"x"\n \n-5 degrees')
    assert [row["line"] for row in rows] == ["1", "2", "4"]
    assert [row["text"] for row in rows] == ["'=1+1", '배,"x"', "'-5 degrees"]
    assert rows[0]["characters"] == rows[0]["tokens"] == "4"
    assert rows[0]["pieces"] == '["=", "1", "+", "1"]'
    assert rows[1]["pieces"].startswith('["<0xEB>", "<0xB0>", "<0xB0>", ",", "\\""')
    assert rows[1]["tokens per character"] == "1.4"


@pytest.mark.parametrize("cell", ["=A1", "+1", "-1", "@x", "\t=1", "＝1", " =1", "\ufeff=1"])
def test_what_could_begin_a_formula_is_made_text(cell: str) -> None:
    assert harmless(cell) == f"'{cell}"
    assert harmless(f"a{cell}") == f"a{cell}"


def test_too_much_is_refused_with_both_numbers(serve: Serve) -> None:
    served = serve()
    served.ready_client()
    long, many = "배" * (LIMITS.characters + 1), "a\n" * LIMITS.lines
    page = post(served, "/tokens", long)
    assert page.status_code == 400
    assert "10,001 characters; up to 10,000" in page.text
    assert long in page.text  # what was written is not lost
    assert "101 lines; up to 100" in post(served, "/tokens/rows", many).text
    assert "10,001자예요" in post(served, "/tokens.csv", long, **KOREAN).json()["error"]
    assert post(served, "/tokens", "배" * 10 * LIMITS.characters).status_code == 413
    assert post(served, "/tokens", "배" * LIMITS.characters).status_code == 200
    assert served.post_bytes("/tokens", b"\xff\xfe").status_code == 400


def test_more_pieces_than_a_page_takes_are_counted_and_in_the_file(serve: Serve) -> None:
    served = serve()
    served.ready_client()
    text = "a" * (MAX_SHOWN + 10)
    fragment = post(served, "/tokens/rows", text).text
    assert fragment.count('class="piece"') == MAX_SHOWN
    assert "10 more" in fragment
    assert rows_of(served, text)[0]["pieces"].count('"a"') == MAX_SHOWN + 10


def test_another_site_s_form_is_refused(serve: Serve) -> None:
    served = serve()
    served.ready_client()
    for path in ("/tokens", "/tokens/rows", "/tokens.csv"):
        assert post(served, path, "x", Origin="http://evil.test").status_code == 403
        assert post(served, path, "x", Origin="null").status_code == 403


def test_pieces_of_one_character_stand_together() -> None:
    pieces = [TextPiece(n, parts) for n, parts in enumerate([("a",), (" ", b"\xeb"), (b"\xb0\xb0",), ("b",)])]
    assert [(len(group.pieces), group.whole) for group in piece_groups(pieces)] == [
        (1, ""),
        (2, "배"),
        (1, ""),
    ]
    (left,) = piece_groups([TextPiece(0, (b"\xeb",))])
    assert left.whole == ""
