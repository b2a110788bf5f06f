"""Hostile and broken text without end, from pieces: the same list for the same seed.

In a piece, WORD stands for text that a reader must still see, HOST for a server that must never be asked, and
CALL for a script that must never run.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

SCRIPTS = [
    "<script>CALL</script>WORD",
    "<script src=//HOST/x.js>WORD</script>",
    "<script\n>CALL</script\n>WORD",
    "<<script>CALL//<</script>WORD",
    "<svg><script>CALL</script>WORD</svg>",
    "<svg><script href=data:,CALL />WORD",
    "<math><annotation-xml encoding=text/html><script>CALL</script></annotation-xml>WORD</math>",
    "<math><mtext><table><mglyph><style><img src=x onerror=CALL>WORD",
    "<noscript><p title='</noscript><script>CALL</script>'>WORD",
    "<template><script>CALL</script></template>WORD",
    "<textarea></textarea><script>CALL</script>WORD</textarea>",
    "<title><!--</title><script>CALL</script>WORD-->",
    "<!--><script>CALL</script>-->WORD",
    "<![CDATA[<script>CALL</script>]]>WORD",
    "<?xml version=1?><script>CALL</script>WORD",
    "<xss style=behavior:url(//HOST/x.htc)>WORD",
    "</code></pre></div></article><script>CALL</script>WORD",
]
HANDLERS = [
    "<img src=x onerror=CALL>WORD",
    "<img/src=x/onerror=CALL>WORD",
    "<b onmouseover=CALL onclick=CALL>WORD</b>",
    "<svg/onload=CALL>WORD",
    "<svg><animate onbegin=CALL attributeName=x dur=1s>WORD",
    "<body onload=CALL>WORD",
    "<details open ontoggle=CALL><summary>WORD",
    "<input autofocus onfocus=CALL>WORD",
    "<video><source onerror=CALL>WORD",
    "<a href=x onfocus=CALL tabindex=1 id=x>WORD</a>",
    '<p title="x" onpointerenter="CALL">WORD',
    "<marquee onstart=CALL>WORD",
    '![WORD" onerror="CALL](http://HOST/p.png)',
    '[WORD](http://HOST/"onmouseover="CALL)',
    "[WORD](http://HOST/ \"' onclick='CALL\")",
    '```js" onclick="CALL\nWORD\n```',
    "``` <img src=x onerror=CALL>\nWORD\n```",
]
LINKS = [
    "[WORD](SCHEMECALL)",
    "[WORD](<SCHEMECALL>)",
    "[WORD]( SCHEMECALL 'title')",
    "<SCHEMECALL> WORD",
    "[WORD][r]\n\n[r]: SCHEMECALL",
    "[![WORD](SCHEMECALL)](SCHEMECALL)",
    "[**WORD**](SCHEMECALL)",
    "![WORD](SCHEMECALL)",
    "<a href='SCHEMECALL'>WORD</a>",
    "<a href=SCHEMECALL>WORD",
    "<form action=SCHEMECALL><button formaction=SCHEMECALL>WORD",
    "<svg><a xlink:href=SCHEMECALL><text>WORD</text></a></svg>",
    "<math href=SCHEMECALL>WORD</math>",
    "$\\href{SCHEMECALL}{x}$ WORD",
]
SCHEMES = [
    "javascript:",
    "JaVaScRiPt:",
    "java\tscript:",
    "javascript&colon;",
    "javascript&#58;",
    "&#106;avascript:",
    "&#x6A&#x61vascript:",
    "\x01javascript:",
    "\u00a0javascript:",
    "javascript:/*http://a.example*/",
    "http:javascript:",
    "http:/api/conversations/x/delete?",
    "java\u200bscript:",
    "data:text/html,<script>",
    "data:text/html;base64,PHNjcmlwdD4=",
    "vbscript:",
    "blob:http://HOST/",
    "file:///etc/passwd?",
    "view-source:http://HOST/",
    "//HOST/",
    "\\\\HOST\\",
    "?next=",
    "/c/",
    "#",
]
REMOTE = [
    "![WORD](http://HOST/pixel.png)",
    "![WORD](//HOST/pixel.png 'title')",
    "![WORD][p]\n\n[p]: http://HOST/pixel.png",
    "[![WORD](http://HOST/a.png)](http://HOST/)",
    "<img src=http://HOST/a.png srcset='http://HOST/b.png 2x'>WORD",
    "<picture><source srcset=//HOST/a.webp><img>WORD</picture>",
    "<video src=//HOST/v poster=//HOST/p.png autoplay>WORD</video>",
    "<audio src=//HOST/a autoplay>WORD",
    "<object data=//HOST/o><param name=x>WORD</object>",
    "<embed src=//HOST/e>WORD",
    "<iframe src=//HOST/ srcdoc='<script>CALL</script>'>WORD</iframe>",
    "<frameset><frame src=//HOST/>WORD",
    "<svg><image href=http://HOST/i.png /><use href=//HOST/s.svg#x />WORD</svg>",
    "<input type=image src=//HOST/i.png>WORD",
    "<table background=//HOST/t.png><td>WORD",
    "<bgsound src=//HOST/s>WORD",
    "<link rel=stylesheet href=//HOST/s.css>WORD",
    "<link rel=preconnect href=http://HOST>WORD<link rel=dns-prefetch href=//HOST>",
    "<link rel=prefetch href=http://HOST/p>WORD",
]
NAVIGATIONS = [
    "<meta http-equiv=refresh content='0;url=http://HOST/'>WORD",
    "<META HTTP-EQUIV='Refresh' CONTENT='0; URL=SCHEMECALL'>WORD",
    "<base href=http://HOST/>WORD",
    "<base target=_top>WORD",
    "<form action=http://HOST/ id=f></form><button form=f autofocus>WORD",
    "<a href=http://HOST/ download ping=http://HOST/ping>WORD</a>",
    "<isindex action=//HOST/>WORD",
    "<portal src=//HOST/>WORD",
]
STYLES = [
    "<style>*{display:none;background:url(//HOST/b)}</style>WORD",
    "<style>@import '//HOST/i.css';WORD",
    "</style><style>body{visibility:hidden}</style>WORD",
    "<p style='position:fixed;inset:0;z-index:99'>WORD</p>",
    "<div style=background:url(http://HOST/b.png)>WORD",
    "<font color=red size=99>WORD</font>",
    "<svg><style>@import url(//HOST/s.css)</style>WORD</svg>",
    "<p hidden>WORD</p><p class='scroller visually-hidden' id=composer>WORD",
    "<dialog open>WORD",
    "$\\color{red;position:fixed}{x}$ WORD",
    "$\\style{position:fixed;inset:0}{x} \\class{composer}{y} \\cssId{message}{z}$ WORD",
    "$\\rule{9999em}{9999em}$ $\\hspace{9999em}$ $\\kern9999em x$ WORD",
]
FENCES = [
    "```\nWORD",
    "```python\nprint('WORD')",
    "~~~~html\n<script>CALL</script>WORD\n~~~",
    "````md\n```\nWORD\n```",
    "- ```sh\n  WORD",
    "> ```\n> WORD",
    "1. a\n   ```\n   WORD\n",
    "```\n</code></pre><script>CALL</script>\nWORD",
    "`WORD",
    "``WORD`",
    "    WORD <script>CALL</script>",
    '```mermaid\nclick A href "javascript:CALL" WORD\n```',
    "```svg\n<svg onload=CALL>WORD",
    "```html\n<!-- WORD",
]
LATEX = [
    "$\\text{<script>CALL</script>WORD}$",
    "$$\\text{</math><img src=x onerror=CALL>WORD}$$",
    "\\(\\mbox{<svg onload=CALL>WORD}\\)",
    "\\[\\fbox{<b>WORD}\\]",
    "$\\unicode{x3c}script\\unicode{x3e}$ WORD",
    "$&lt;img src=x onerror=CALL&gt;$ WORD",
    "$$\nWORD <b>",
    "\\[\nWORD",
    "$\\frac{WORD",
    "\\begin{align}\nWORD &= 1",
    "\\begin{align}x &= 1 \\\\ y\\end{align} WORD",
    "$\\newcommand{\\a}{\\a\\a}\\a$ WORD",
    "$\\def\\a{\\a\\a}\\a$ WORD",
    "$\\mathrm{<style>}$ $<iframe>$ WORD",
    "$\\sqrt[<script>]{\\href{javascript:CALL}{x}}$ WORD",
    "$\\begin{matrix}<td>&<script>CALL</script>\\end{matrix}$ WORD",
    "$\\left(\\left[\\left\\{ x$ WORD",
    "$\\includegraphics{http://HOST/i.png} \\url{http://HOST/}$ WORD",
    "$^^^^__{{}}$ WORD",
    "$5 and $6 are WORD and \\$x\\$",
]
BROKEN = [
    "<div\nWORD",
    "<a href='x\nWORD",
    "[WORD](",
    "![WORD](http://HOST",
    '[WORD]( "',
    "**WORD",
    "~~*WORD**_",
    "| a | b |\n|---|---|\n| <img src=x onerror=CALL> | WORD |",
    "| WORD |\n|:-:|\n| `</td><script>CALL</script>` |",
    "- [ ] WORD <input onfocus=CALL autofocus>",
    "- [x] [WORD](javascript:CALL)",
    "# <h1 onclick=CALL>WORD",
    "WORD\n===<script>CALL</script>",
    "&lt;script&gt;CALL&lt;/script&gt;WORD",
    "&#60;img src=x onerror=CALL&#62;WORD",
    "\\<script>CALL\\</script>WORD",
    "\u202eWORD\u202c \u2066x",
    "\0WORD\0<scr\0ipt>CALL</script>",
    "\ufeff\u2028WORD\u2029",
    "WORD e\u0301\u0301\u0301\u0301 👩\u200d👩 \ud7a3",
    "\r\rWORD\r\n\r",
    "<\u0073cript>CALL</\u017fcript>WORD",
    "[WORD]: http://HOST\n[^1]: <script>CALL</script>",
]
KINDS = [SCRIPTS, HANDLERS, LINKS, REMOTE, NAVIGATIONS, STYLES, FENCES, LATEX, BROKEN]
JOINS = ["\n\n", "\n", " ", ""]
WRAPS: list[Callable[[str], str]] = [
    lambda text: text,
    lambda text: text,
    lambda text: "> " + text.replace("\n", "\n> "),
    lambda text: "- " + text.replace("\n", "\n  "),
    lambda text: "> 1. " + text.replace("\n", "\n>    "),
]
NOISE = "<>\"'`&$\\[]()*_~|#!-\n\t \0=/:"


@dataclass(frozen=True)
class Hostile:
    """A text, and the words of it that a reader must see."""

    text: str
    words: tuple[str, ...]


def hostile_texts(count: int, *, seed: int = 24, host: str = "evil.example") -> list[Hostile]:
    """`count` texts, all different; every piece is in them if they are many enough."""
    chance = random.Random(seed)
    pieces = [piece for kind in KINDS for piece in kind]
    return [_one(chance, number, pieces, host) for number in range(count)]


def _one(chance: random.Random, number: int, pieces: list[str], host: str) -> Hostile:
    chosen = [pieces[number % len(pieces)], *chance.choices(pieces, k=chance.randrange(3))]
    chance.shuffle(chosen)
    broken = chance.random() < 0.4
    words, parts = [], []
    for place, piece in enumerate(chosen):
        words.append(f"w{number}p{place}")
        parts.append(_filled(chance, piece, words[-1], host))
    text = "".join(part + (chance.choice(JOINS) if broken else "\n\n") for part in parts)
    if broken:  # then only what stands before and behind is sure to be seen
        words = []
        for _ in range(chance.randrange(1, 5)):
            at = chance.randrange(len(text))
            text = text[:at] + chance.choice(NOISE) * chance.randrange(3) + text[at + chance.randrange(2) :]
    wrapped = chance.choice(WRAPS)(text)
    return Hostile(f"w{number}a\n\n{wrapped}\n\nw{number}z", (f"w{number}a", *words, f"w{number}z"))


def _filled(chance: random.Random, piece: str, word: str, host: str) -> str:
    piece = piece.replace("SCHEME", chance.choice(SCHEMES))
    if chance.random() < 0.3:
        piece = "".join(c.upper() if c.islower() and chance.random() < 0.5 else c for c in piece)
        piece = piece.replace("http", "HTTP")
    return piece.replace("WORD", word).replace("HOST", host).replace("CALL", "canary()")
