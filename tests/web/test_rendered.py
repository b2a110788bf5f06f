"""What is kept of rendered texts."""

from __future__ import annotations

import pytest

from web.rendered import MAX_CHARS, Rendered

TEXT = "warm *floor*"


@pytest.mark.row(38)
def test_long_texts_do_not_stay_in_memory_however_many_there_are() -> None:
    rendered = Rendered(max_chars=10_000)
    for number in range(200):
        assert f"<p>{number} warm" in rendered.html(f"{number} " + "warm " * 100)
        assert rendered.chars <= 10_000
    assert "<p>huge" in rendered.html("huge " * 5_000)
    assert rendered.chars == 0
    assert MAX_CHARS * 4 <= 32 * 2**20  # bytes of a character at most


def test_what_is_asked_for_again_is_rendered_once() -> None:
    rendered = Rendered()
    html = rendered.html(TEXT)
    for number in range(50):
        rendered.html(str(number))
    assert rendered.html(TEXT) is html
