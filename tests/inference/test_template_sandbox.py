"""Chat templates that want to leave the sandbox, or to burn time and memory in it."""

from __future__ import annotations

import pytest

from inference.chat_template import ChatTemplate
from inference.errors import TemplateFailed, TemplateTooSlow
from inference.types import ChatMessage

CHAT = [ChatMessage("user", "x" * 100)]
DOUBLE = "{% set ns = namespace(x='ab') %}{% for i in range(99) %}"


def render(source: str) -> str:
    return ChatTemplate(source).render(CHAT, generation_prompt=True)


@pytest.mark.row(28)
@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{{ cycler.__init__.__globals__.os.system('true') }}",
        "{{ dict.mro() }}",
        "{{ namespace(__class__=1) }}",
        "{% set ns = namespace() %}{% set ns.__class__ = 1 %}",
        "{{ raise_exception('no') }}",
        "{{ nothing.here }}",
        "{% include 'x' %}",
        "{{ 'x'.encode() }}",
    ],
)
def test_a_template_cannot_leave_its_sandbox(source: str) -> None:
    with pytest.raises(TemplateFailed):
        render(source)


HOSTILE = {
    "loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "loops that write": "{% for a in range(99999) %}{% for b in range(99999) %}xxxxx{% endfor %}{% endfor %}",
    "a macro that calls itself": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "a macro that calls itself twice": (
        "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}"
    ),
    "a loop that calls itself": (
        "{% for a in [1, 2] recursive %}{{ loop([1, 2]) if loop.depth < 60 }}{% endfor %}"
    ),
    "a wide number": "{{ '%1000000000d' % 1 }}",
    "a wide number from outside": "{{ '%*d' % (1000000000, 1) }}",
    "a wide format": "{{ '{:1000000000}'.format(1) }}",
    "a nested format": "{{ '{:{}}'.format(1, 1000000000) }}",
    "many formats": "{{ ('%s' * 100000) % (('x' * 1000000),) }}",
    "the format filter": "{{ '%1000000000d' | format(1) }}",
    "center": "{{ 'x' | center(10**9) }}",
    "center, constant": "{{ 'x' | center(1000000000) }}",
    "center, as a method": "{{ 'x'.center(10**9) }}",
    "center, under another name": "{% set f = 'x'.ljust %}{{ f(10**9) }}",
    "center, many times": "{{ range(99999) | map('center', 9999) | list | length }}",
    "batch": "{{ [1] | batch(10**9, 'x') | list }}",
    "slice": "{{ [1] | slice(10**9) | list }}",
    "indent": "{{ ('x\\n' * 100000) | indent(9999) }}",
    "round": "{{ 1 | round(10**9, 'ceil') }}",
    "tojson": "{{ [[1]] | tojson(indent=10**9) }}",
    "repetition": "{{ 'x' * 10**9 }}",
    "repetition of a list": "{{ [1] * 10**9 }}",
    "power": "{{ 10**(10**10) }}",
    "product": DOUBLE.replace("'ab'", "10") + "{% set ns.x = ns.x * ns.x %}{% endfor %}",
    "doubling by ~": DOUBLE + "{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
    "doubling by +": DOUBLE + "{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}",
    "doubling by a block": DOUBLE + "{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}{% endfor %}{{ ns.x }}",
    "doubling by a list": DOUBLE + "{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
    "doubling by views": DOUBLE + "{% set ns.x = {1: ns.x, 2: ns.x}.items() %}{% endfor %}{{ ns.x }}",
    "doubling by dict": DOUBLE + "{% set ns.x = dict(a=ns.x, b=ns.x) %}{% endfor %}{{ ns.x }}",
    "doubling by replace": DOUBLE + "{% set ns.x = ns.x | replace('b', ns.x) %}{% endfor %}{{ ns.x }}",
    "doubling by join": DOUBLE + "{% set ns.x = ns.x.join('abc') %}{% endfor %}{{ ns.x }}",
    "replace": "{{ ('x' * 1000000).replace('x', 'y' * 1000000) }}",
    "translate": "{{ ('x' * 1000000).translate({120: 'y' * 1000000}) }}",
    "join": "{{ range(99999) | join('y' * 1000000) }}",
    "sum of lists": "{{ [[1]] | sum(start=[]) }}",
    "members of members": "{{ range(99999) | select('in', range(99999) | list | reverse | list) | list }}",
    "bytes": "{{ (1).to_bytes(10**10, 'big') }}",
    "lipsum": "{{ lipsum(n=10**6) }}",
    "depth": "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}"
    "{{ ns.x }}",
    "a deep source": "{{ " + "(" * 5_000 + "1" + ")" * 5_000 + " }}",
    "a long source": "x" * 1_000_001,
}


@pytest.mark.row(28)
@pytest.mark.parametrize("name", HOSTILE)
def test_a_template_that_burns_time_or_memory_is_ended(name: str) -> None:
    with pytest.raises(TemplateFailed):
        render(HOSTILE[name])


def test_a_template_that_takes_too_long_is_not_tried_again() -> None:
    template = ChatTemplate(HOSTILE["loops"])
    with pytest.raises(TemplateTooSlow) as first:
        _ = template.takes_system
    with pytest.raises(TemplateTooSlow) as second:
        _ = template.takes_repeats
    assert second.value is first.value


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("loops", "computed for over 2 s"),
        ("a wide number from outside", "would make a value of 1,000,000,0"),
        ("a nested format", "would make a value"),
        ("many formats", "would make a value"),
        ("doubling by replace", "would make a value"),
        ("replace", "would make a value"),
        ("join", "would make a value"),
        ("indent", "would make a value"),
        ("center", "`center` for 1,000,000,000; at most 10,000"),
        ("repetition", "1,000,000,000 characters; 8,000,000 are allowed"),
        ("power", "40,000,000,000 bits; 4,096 are allowed"),
        ("a long source", "1,000,001 characters; 1,000,000 are allowed"),
        ("a macro that calls itself", "calls itself without end"),
    ],
)
def test_the_reason_is_told_with_its_numbers(name: str, words: str) -> None:
    with pytest.raises(TemplateFailed, match=words):
        render(HOSTILE[name])


def test_an_unreadable_template_is_refused() -> None:
    with pytest.raises(TemplateFailed, match="cannot be read"):
        ChatTemplate("{% for %}")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ '%-4s|%03d' % ('a', 7) }}", "a   |007"),
        ("{{ '{:>3}{}'.format('a', 1700000000) }}", "  a1700000000"),
        ("{{ 'a,b'.split(',') | join('-') }}", "a-b"),
        ("{{ messages | map(attribute='role') | join(', ') }}", "user"),
        ("{{ {'b': [1, 'ä']} | tojson }}", '{"b": [1, "ä"]}'),
        ("{{ {'b': 1} | tojson(indent=2) }}", '{\n  "b": 1\n}'),
        ("{% for a, b in [(1, 2)] %}{{ loop.length }}{{ a + b }}{% endfor %}", "13"),
        ("{% for m in messages[::-1] %}{{ loop.last }}{% break %}{% endfor %}", "True"),
        ("{% generation %}{{ 2 ** 10 }}{% endgeneration %}", "1024"),
        ("{{ 'a' ~ 1 ~ none }}", "a1None"),
        ("{{ '  x ' | trim | indent(2, true) }}", "  x"),
        ("{{ 'x' * 3 }}{{ 'abc'[1:] }}{{ [3, 1] | sort | first }}", "xxxbc1"),
        ("{% set x %}{{ 'b' | upper }}{% endset %}{{ x | replace('B', 'c') }}", "c"),
    ],
)
def test_what_templates_usually_do_works(source: str, text: str) -> None:
    assert render(source) == text
