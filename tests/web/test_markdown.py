import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.web.hostile import BOMBS, HOSTILE, LATEX_BOMBS, RAW_HTML
from tests.web.hostile_grammar import hostile_texts
from tests.web.html_reading import Reader
from web.highlighting import MAX_HIGHLIGHTED_CHARS
from web.latex import MAX_LATEX_CHARS
from web.markdown import render, render_plain


@pytest.mark.row(24)
@pytest.mark.parametrize("source", HOSTILE)
def test_hostile_text_leaves_nothing_that_acts(source: str) -> None:
    for text in (source, f"> - {source}", f"before {source}\n\nafter"):
        page = Reader(render(text))
        assert page.faults == []
        assert "evil.example" not in "".join(link for link in page.links if "http" not in link)


@pytest.mark.row(24)
def test_two_thousand_hostile_texts_leave_nothing_that_acts_and_stay_readable() -> None:
    for hostile in hostile_texts(2_000):
        page = Reader(render(hostile.text))
        assert page.faults == [], hostile
        assert [word for word in hostile.words if word not in page.text] == [], hostile


@pytest.mark.parametrize("source", RAW_HTML)
def test_raw_html_is_shown_as_it_was_written(source: str) -> None:
    assert Reader(render(source)).text.strip() == source


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("[x](javascript:alert(1))", "javascript:alert(1)"),
        ("![x](http://evil.example/pixel.png)", "http://evil.example/pixel.png"),
        ("![x](data:image/svg+xml;base64,PHN2Zz4=)", "data:image/svg+xml;base64,PHN2Zz4="),
        ("[x]\n\n[x]: javascript:alert(1)", "[x]: javascript:alert(1)"),
        ("$\\href{javascript:alert(1)}{x}$", "$\\href{javascript:alert(1)}{x}$"),
        ("$\\text{<script>alert(1)</script>}$", "<script>alert(1)</script>"),
        ("$\\class{code}{x}$", "$\\class{code}{x}$"),
        ("```html\n<script>alert(1)</script>\n```", "<script>alert(1)</script>"),
    ],
)
def test_what_is_refused_stays_visible(source: str, shown: str) -> None:
    assert shown in Reader(render(source)).text


@pytest.mark.row(25)
@pytest.mark.parametrize("atom", BOMBS)
def test_endless_marks_are_rendered_and_visible(atom: str) -> None:
    page = Reader(render(atom * (100_000 // len(atom)) + "\n\n\nthe end"))
    assert page.faults == []
    if not any(mark in atom for mark in ("`", "- ", "1.", "> ", "$")):
        assert "the end" in page.text


@pytest.mark.parametrize("unit", ["> ", "- ", "1. ", "* ", "> - "])
def test_text_below_the_deepest_level_is_shown(unit: str) -> None:
    page = Reader(render(unit * 500 + "deep\n\nafter"))
    assert page.faults == []
    assert "deep" in page.text
    assert "after" in page.text


def test_nested_links_and_images_end() -> None:
    for opening, closing in (("[", "](http://a.example)"), ("![", "](http://a.example/p.png)")):
        page = Reader(render(opening * 500 + "x" + closing * 500))
        assert page.faults == []
        assert "x" in page.text


@pytest.mark.row(25)
@pytest.mark.parametrize("latex", LATEX_BOMBS)
def test_latex_that_cannot_be_converted_is_shown_as_source(latex: str) -> None:
    page = Reader(render(f"see $${latex}$$ there"))
    assert page.faults == []
    assert latex[:20] in page.text
    assert "there" in page.text


def test_a_very_long_formula_is_shown_as_source() -> None:
    html = render("$$\n" + "x+" * MAX_LATEX_CHARS + "x\n$$\n\nafter")
    assert '<code class="math-source">$$\nx+' in html
    assert "after" in html


@given(st.text(alphabet="<>&\"'`$*_[]()!\\#|:-~=\n\t aЖ한🙂/", max_size=80))
@settings(max_examples=300, deadline=None)
def test_any_text_renders_safely(text: str) -> None:
    assert Reader(render(text)).faults == []
    assert Reader(render(f"$\\text{{{text}}}$")).faults == []


@given(st.text(max_size=200).map(lambda text: text.replace("\r", "").replace("\0", "")))
@settings(max_examples=200, deadline=None)
def test_a_persons_text_is_shown_exactly(text: str) -> None:
    page = Reader(render_plain(text))
    assert page.tags == ["p"]
    assert page.text == text


def test_links_say_where_they_lead_and_leave_nothing_behind() -> None:
    assert render("[x](https://a.example/?q=1&b=2)") == (
        '<p><a href="https://a.example/?q=1&amp;b=2" title="https://a.example/?q=1&amp;b=2" '
        'target="_blank" rel="noopener noreferrer nofollow">x</a></p>\n'
    )


def test_an_image_becomes_its_text_and_target() -> None:
    html = render("![a *cat*](http://a.example/cat.png)")
    assert html == '<p><span class="image">a *cat* (http://a.example/cat.png)</span></p>\n'


def test_a_known_language_is_highlighted_by_class() -> None:
    html = render("```python\ndef f():\n    return 1\n```")
    assert html.startswith(
        '<div class="code"><div class="code-head"><span class="code-lang">python</span></div>'
        '<pre><code class="language-python"><span class="k">def</span>'
    )
    assert Reader(html).text == "pythondef f():\n    return 1\n\n"


@pytest.mark.parametrize("language", ["mermaid", "no-such-language", ""])
def test_an_unknown_language_is_shown_plain(language: str) -> None:
    html = render(f"```{language}\na < b\n```")
    assert f'<span class="code-lang">{language}</span></div><pre><code>a &lt; b\n</code></pre></div>' in html


def test_huge_code_is_shown_plain_and_whole() -> None:
    code = "x = 1\n" * (MAX_HIGHLIGHTED_CHARS // 6 + 1)
    html = render(f"```python\n{code}```")
    assert f'<code class="language-python">{code}</code>' in html


@pytest.mark.parametrize(("language", "atom"), [("c", "\n"), ("c", "//"), ("c#", "a\n"), ("java", "a\n")])
def test_code_that_a_grammar_chokes_on_is_still_shown(language: str, atom: str) -> None:
    code = atom * (MAX_HIGHLIGHTED_CHARS // len(atom) - 10)
    assert code.strip() in Reader(render(f"```{language}\n{code}\n```")).text


def test_tables_align_by_class() -> None:
    html = render("| a | b | c | d |\n|:--|:-:|--:|---|\n| 1 | 2 | 3 | 4 |")
    assert '<div class="table"><table>' in html
    for cell in (
        '<th class="align-left">a',
        '<td class="align-center">2',
        '<td class="align-right">3',
        "<td>4",
    ):
        assert cell in html


def test_task_lists_have_boxes_that_cannot_be_clicked() -> None:
    html = render("- [ ] a\n- [x] b\n  - c")
    assert html.count("disabled") == html.count('type="checkbox"') == 2
    assert html.count("checked") == 1
    assert '<ul class="contains-task-list">\n<li class="task-list-item"><label><input' in html
    assert html.count(" a</label>") == html.count(" b</label>") == 1
    assert "<ul>\n<li>c</li>\n</ul>" in html


def test_a_tasks_box_stands_before_its_text_and_is_named_by_it() -> None:
    html = render("- [ ] *loose*\n\n  more\n- [x] ```\n  code\n  ```\n")
    assert re.search("<p><label><input [^>]+> <em>loose</em></label></p>\n<p>more</p>", html)
    assert re.search('<li class="task-list-item">\n?\\[x\\] <div class="code">', html)


def test_money_is_not_mathematics() -> None:
    for text in ("$5 and $6", "US$5/$6", "$HOME:$PATH", "from $5 to $10, or 20$", "\\$x\\$"):
        assert "<math" not in render(text)


@pytest.mark.parametrize(
    "text", ["$x^2$", "값은$x$이다", "\\(x\\)", "\\[x\\]", "$$x$$", "$$\nx\n$$", "a\n\\[\nx\n\\]\nb"]
)
def test_mathematics_becomes_mathml(text: str) -> None:
    html = render(text)
    assert "<math" in html
    assert "<mi>x</mi>" in html
    assert "$" not in html
    assert Reader(html).faults == []


def test_an_unclosed_formula_is_a_paragraph() -> None:
    assert render("$$\nx <b>\n\n# Title\n") == "<p>$$<br>\nx &lt;b&gt;</p>\n<h1>Title</h1>\n"


def test_korean_emphasis_beside_marks_is_understood() -> None:
    assert (
        render("**“인용”**은 **(괄호)**를") == "<p><strong>“인용”</strong>은 <strong>(괄호)</strong>를</p>\n"
    )


@pytest.mark.parametrize("text", ["한글과 漢字", "👩‍👩‍👧‍👦 🏳️‍🌈", "e\u0301a\u0308", "ด้้้", "مرحبا"])
def test_every_script_comes_through_unchanged(text: str) -> None:
    assert render(text) == f"<p>{text}</p>\n"


def test_line_breaks_are_kept() -> None:
    assert render("a\nb") == "<p>a<br>\nb</p>\n"
