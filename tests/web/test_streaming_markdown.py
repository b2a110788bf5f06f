import random
import re
from html import escape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.web.hostile_grammar import hostile_texts
from tests.web.html_reading import Reader
from web.markdown import render, render_unfinished
from web.streaming_markdown import Change, Mark, StreamingMarkdown

# fmt: off
ATOMS = [
    "# h\n", "\n", "\n\n", "para ", "- a\n", "  - b\n", "1. x\n", "   y\n", "> q\n", ">\n",
    "```py\n", "```\n", "~~~\n", "  ```\n", "   ```sh\n", "````\n", "`", "``", "$$\n", "$$", "$x$",
    "\\[\n", "\\]\n", "\\[", "\\begin{align}\n", "\\end{align}\n", "| a | b |\n", "|---|:-:|\n",
    "a|b\n", "-|-\n", "---\n", "===\n", "***\n", "**", "*", "_", "    code\n", "\t", "\r\n", "\r",
    "[a](http://x.y)", "![i](http://y.z)", "[a]: http://z.y\n", "<b>", "</code>", "한글 ", "e\u0301",
    "👩‍👩‍👧", "- [ ] t\n", "- ```\n", "  x\n", " ", "-", "1. ```js\n", "> ```\n", "  $$\n", "\0",
    "&lt;", "<!--", "\\", "$", "word\n", "x = 1\n", "   \n", "<script>",
]
# fmt: on

documents = st.lists(st.sampled_from(ATOMS), max_size=14).map("".join)


class Page:
    """What a watcher's page shows: the frames applied as the browser applies them."""

    def __init__(self) -> None:
        self.blocks: list[str] = []
        self.tail = ""
        self.mark: Mark | None = None

    def apply(self, change: Change) -> None:
        self.blocks += change.blocks
        if change.tail is not None:
            self.tail = change.tail
        if change.code is not None:
            before, after = self.tail.rsplit("</code>", 1)
            self.tail = f"{before}{escape(change.code, quote=False)}</code>{after}"
        self.mark = change.mark

    @property
    def html(self) -> str:
        return visual("".join(self.blocks) + self.tail)


def visual(html: str) -> str:
    return re.sub(r">\s+<", "><", html).strip()


def stream(text: str, cuts: list[int]) -> Page:
    streaming, page = StreamingMarkdown(), Page()
    for cut in [*cuts, len(text)]:
        streaming.update(text[:cut])
        page.apply(streaming.since(page.mark))
        assert page.blocks == streaming.blocks
        assert page.tail == streaming.tail
        assert page.mark == streaming.mark()
        check_prefix(page, text[:cut])
    assert streaming.finish() == render(text)
    page.apply(streaming.since(page.mark))
    return page


def check_prefix(page: Page, text: str) -> None:
    """It shows the whole prefix, but for characters held back at the end of open code."""
    shown, whole = Reader("".join(page.blocks) + page.tail), Reader(render_unfinished(text))
    assert shown.faults == []
    before, after = "".join(shown.text.split()), "".join(whole.text.split())
    assert after.startswith(before)
    assert set(after[len(before) :]) <= {"`", "~"}


@given(documents)
@settings(max_examples=250, deadline=None)
@pytest.mark.row(24)
def test_split_at_every_character_it_ends_as_the_whole(text: str) -> None:
    assert stream(text, list(range(1, len(text)))).html == visual(render(text))


@given(documents, st.lists(st.integers(0, 100), max_size=4))
@settings(max_examples=250, deadline=None)
def test_split_anywhere_it_ends_as_the_whole(text: str, cuts: list[int]) -> None:
    assert stream(text, sorted(cut for cut in cuts if cut < len(text))).html == visual(render(text))


@pytest.mark.row(24)
def test_two_thousand_hostile_texts_stream_as_the_whole(long: bool) -> None:
    chance = random.Random(25)
    for number, hostile in enumerate(hostile_texts(20_000 if long else 2_000)):
        length = len(hostile.text)
        every = number % 40 == 0
        cuts = range(1, length) if every else sorted(chance.choices(range(1, length), k=2))
        assert stream(hostile.text, list(cuts)).html == visual(render(hostile.text)), hostile


@given(documents, st.integers(0, 100))
@settings(max_examples=100, deadline=None)
def test_a_late_watcher_sees_the_same(text: str, cut: int) -> None:
    streaming, page = StreamingMarkdown(), Page()
    streaming.update(text[:cut])
    streaming.update(text)
    page.apply(streaming.since(None))
    assert page.html == visual("".join(streaming.blocks) + streaming.tail)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Title\n", "===\n"),
        ("- a\n\n", "- b\n"),
        ("> a\n", "lazy\n"),
        ("| a | b |\n", "|---|---|\n| 1 | 2 |\n"),
        ("```\na\n\n# not a heading\n", "```\n"),
        ("$$\nx\n# y\n", "$$\n"),
        ("para\n#", "hash\n"),
        ("1. a\n\n   ```sh\n   ls\n", "   ```\n2. b\n"),
        ("    code\n\n\n", "    more\n"),
    ],
)
def test_a_block_that_text_may_still_change_is_not_frozen(before: str, after: str) -> None:
    streaming = StreamingMarkdown()
    streaming.update(before)
    assert streaming.blocks == []
    streaming.update(before + after)
    assert visual("".join(streaming.blocks) + streaming.tail) == visual(render(before + after))


def test_a_block_is_frozen_once_the_next_has_begun() -> None:
    streaming, page = StreamingMarkdown(), Page()
    streaming.update("one\n\ntwo\n\nthr")
    page.apply(streaming.since(None))
    assert page.blocks == ["<p>one</p>\n"]
    streaming.update("one\n\ntwo\n\nthree\n")
    change = streaming.since(page.mark)
    assert change.blocks == ("<p>two</p>\n",)
    assert change.tail == "<p>three</p>\n"


@pytest.mark.parametrize("opening", ["```python\n", "1. do:\n\n   ```sh\n"])
def test_an_open_fence_grows_by_text_alone(opening: str) -> None:
    streaming, page = StreamingMarkdown(), Page()
    text = f"Here:\n\n{opening}"
    streaming.update(text)
    page.apply(streaming.since(None))
    parsed = streaming.parsed_chars
    for number in range(20_000):
        text += f" {'   ' if number % 10 == 0 else ''}<{number}>" + "\n" * (number % 10 == 9)
        streaming.update(text)
        change = streaming.since(page.mark)
        assert change.tail is None
        assert change.blocks == ()
        page.mark = change.mark
    assert streaming.parsed_chars == parsed
    streaming.update(text + "\n   ```\n\nafter\n\nend\n")
    assert streaming.parsed_chars < 4 * len(text)
    assert "&lt;19999&gt;" in streaming.blocks[1]


def test_a_line_that_may_close_the_fence_is_held_back() -> None:
    streaming = StreamingMarkdown()
    streaming.update("```\nab\n``")
    mark = streaming.mark()
    assert Reader(streaming.tail).text.strip() == "ab"
    streaming.update("```\nab\n``c")
    assert streaming.since(mark).code == "``c"


def test_nothing_new_is_no_change() -> None:
    streaming = StreamingMarkdown()
    streaming.update("a **b")
    mark = streaming.mark()
    streaming.update("a **b")
    assert not streaming.since(mark)


@pytest.mark.parametrize("unit", ["- an item in a long list of items\n", "words and words "])
def test_one_endless_block_costs_linear_work(unit: str) -> None:
    def work(units: int) -> int:
        streaming = StreamingMarkdown()
        text = ""
        for _ in range(units):
            text += unit
            streaming.update(text)
        return streaming.parsed_chars

    size = 8_000 // len(unit)
    assert work(2 * size) < 3 * work(size)
