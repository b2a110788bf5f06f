"""Pygments for fenced code: short token classes, no inline style. Any thread.

The languages are listed, since a grammar that has not been tried with hostile text may take very long.
"""

from __future__ import annotations

from html import escape

from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexers import get_lexer_by_name

MAX_HIGHLIGHTED_CHARS = 20_000

LANGUAGES = frozenset(
    ["python", "py", "pycon", "bash", "sh", "shell", "zsh", "console", "javascript", "js", "jsx", "typescript", "ts", "tsx", "json", "yaml", "yml", "toml", "ini", "html", "xml", "css", "scss", "sql", "c", "cpp", "c++", "csharp", "c#", "java", "kotlin", "swift", "go", "golang", "rust", "rs", "ruby", "rb", "php", "perl", "lua", "r", "julia", "haskell", "hs", "scala", "dart", "elixir", "clojure", "powershell", "ps1", "bat", "docker", "dockerfile", "makefile", "cmake", "nginx", "diff", "latex", "tex", "matlab", "nix", "zig", "graphql", "protobuf", "nasm", "groovy"]
)


def highlighted(code: str, language: str) -> str | None:
    """`code` as HTML spans with Pygments' short classes; None where it is to be shown plain."""
    if language not in LANGUAGES or len(code) > MAX_HIGHLIGHTED_CHARS:
        return None
    lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    return highlight(code, lexer, HtmlFormatter(nowrap=True)).removesuffix("\n") + "\n" * code.endswith("\n")


def code_block(code: str, language: str, *, plain: bool = False) -> str:
    """A code block with its head, where the language is named and the page puts its buttons."""
    name = language.lower()
    body = None if plain else highlighted(code, name)
    opening = f'<code class="language-{name}">' if name in LANGUAGES else "<code>"
    return (
        f'<div class="code"><div class="code-head"><span class="code-lang">{escape(language)}</span></div>'
        f"<pre>{opening}{escape(code, quote=False) if body is None else body}</code></pre></div>\n"
    )
