"""Pygments for fenced code: short token classes, no inline style. Any thread.

The languages are listed, since a grammar that has not been tried with hostile text may take very long.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from io import StringIO
from time import monotonic
from typing import Any

from pygments.formatters.html import HtmlFormatter
from pygments.lexers import get_lexer_by_name

MAX_HIGHLIGHTED_CHARS = 10_000
# Several grammars take quadratic time on hostile text, token by token. Those that do so within one token
# (ini, matlab) are not listed.
MAX_SECONDS = 0.5

_NAMES = """
bash bat c c# c++ clojure cmake cpp csharp css dart diff docker dockerfile elixir go golang graphql groovy
haskell hs html java javascript js json jsx julia kotlin latex lua makefile nasm nginx nix perl php
powershell protobuf ps1 py python r rb rs ruby rust scala scss sh shell sql swift tex toml ts tsx typescript
xml yaml yml zig zsh
"""
LANGUAGES = frozenset(_NAMES.split())


class _TooSlow(Exception):
    pass


def highlighted(code: str, language: str) -> str | None:
    """`code` as HTML spans with Pygments' short classes; None where it is to be shown plain."""
    if language not in LANGUAGES or len(code) > MAX_HIGHLIGHTED_CHARS:
        return None
    lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    html = StringIO()
    try:
        HtmlFormatter(nowrap=True).format(_in_time(lexer.get_tokens(code)), html)
    except _TooSlow:
        return None
    return html.getvalue().removesuffix("\n") + "\n" * code.endswith("\n")


def _in_time(tokens: Iterator[Any]) -> Iterator[Any]:
    deadline = monotonic() + MAX_SECONDS
    for token in tokens:
        if monotonic() > deadline:
            raise _TooSlow
        yield token


def code_block(code: str, language: str, *, plain: bool = False) -> str:
    """A code block with its head, where the language is named and the page puts its buttons."""
    name = language.lower()
    body = None if plain else highlighted(code, name)
    opening = f'<code class="language-{name}">' if name in LANGUAGES else "<code>"
    return (
        f'<div class="code"><div class="code-head"><span class="code-lang">{escape(language)}</span></div>'
        f"<pre>{opening}{escape(code, quote=False) if body is None else body}</code></pre></div>\n"
    )
