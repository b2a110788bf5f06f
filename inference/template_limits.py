"""What one rendering of a chat template may use: time, and the size of what it makes. Any thread.

Text is measured in characters, a list or mapping by all that it holds, shared parts counted as often as they
would be written. Operations whose result can be far larger than their operands are judged before they run.
"""

from __future__ import annotations

import re
import time
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from inference.errors import TemplateFailed, TemplateTooSlow

MAX_SECONDS = 2.0
"""Processor time of the rendering thread."""
MAX_VALUE = 8_000_000
MAX_MADE = 256_000_000
MAX_WIDTH = 10_000
MAX_BITS = 4_096

TAKES_WIDTH = frozenset(
    ("batch", "center", "expandtabs", "indent", "ljust", "rjust", "round", "slice", "tojson", "truncate")
    + ("zfill",)
)
OTHER_SIZE = 32
_ALLOWED = f"{MAX_VALUE:,} are allowed."
_COLLECTIONS = (list, tuple, Mapping, KeysView, ValuesView, ItemsView)
PERCENT_WIDTH = re.compile(r"%(?:\([^)]*\))?[-+ #0]*(\*|\d*)(?:\.(\*|\d*))?")
_BRACE_WIDTH = re.compile(r":[^{}\d]*(\d+)(?:\.(\d+))?")


class Meter:
    """What one rendering has used. Raises `TemplateFailed` where it is too much."""

    def __init__(self) -> None:
        self._deadline = time.thread_time() + MAX_SECONDS
        self._made = 0
        self._sizes: dict[int, tuple[Any, int]] = {}  # by id, with the value itself so that the id stays its

    def tick(self) -> None:
        """Look at the clock."""
        if time.thread_time() > self._deadline:
            raise TemplateTooSlow(f"The chat template computed for over {MAX_SECONDS:g} s and was ended.")

    def foresee(self, size: int) -> None:
        """Refuse what would become too large."""
        if size > MAX_VALUE:
            raise TemplateFailed(f"The chat template would make a value of {size:,} characters; {_ALLOWED}")

    def note(self, value: Any) -> Any:
        """Count a value that was just made, and give it back."""
        size = self.size_of(value)
        if size > MAX_VALUE:
            raise TemplateFailed(f"The chat template made a value of {size:,} characters; {_ALLOWED}")
        self._made += size if isinstance(value, str) else len(value) if isinstance(value, list) else 1
        if self._made > MAX_MADE:
            raise TemplateFailed(f"The chat template made over {MAX_MADE:,} characters and was ended.")
        return value

    def size_of(self, value: Any) -> int:
        """Characters of a text; of a collection, those of everything in it, and one for each member."""
        if isinstance(value, str):
            return len(value)
        if isinstance(value, int):
            return 1 + value.bit_length() // 3
        if not isinstance(value, _COLLECTIONS):
            return OTHER_SIZE
        known = self._sizes.get(id(value))
        if known is None:
            parts: Iterable[Any] = value
            if isinstance(value, Mapping):
                parts = (part for pair in value.items() for part in pair)
            known = (value, 1 + sum(1 + self.size_of(part) for part in parts))
            self._sizes[id(value)] = known
        return known[1]


METER: ContextVar[Meter] = ContextVar("template_meter")


@contextmanager
def metered() -> Iterator[None]:
    """Whatever runs in this block, in this thread, has the bounds of one rendering."""
    token = METER.set(Meter())
    try:
        yield
    finally:
        METER.reset(token)


def judge(meter: Meter, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The positional arguments of a filter or of a text's method, once they are known to be harmless.

    `args` begins with the value that it is applied to; an iterator to be joined comes back as a list.
    """
    named = [value for key, value in kwargs.items() if not key.startswith("_")]
    if name in TAKES_WIDTH:
        _judge_width(meter, name, args, named)
    elif name == "replace" and len(args) + len(named) >= 3:
        text, *rest = (str(each) for each in args)
        old, new = [*rest, *(str(kwargs[key]) for key in ("old", "new") if key in kwargs)][:2]
        meter.foresee(len(text) + text.count(old) * max(0, len(new) - len(old)))
    elif name == "join" and args:
        return _judge_join(meter, args, named)
    elif name == "format" and args:
        text = str(args[0])
        size = formatted_size(meter, text, "%", PERCENT_WIDTH, (*args[1:], *named))
        meter.foresee(max(size, formatted_size(meter, text, "{", _BRACE_WIDTH, (*args[1:], *named))))
    elif name == "sum" and any(isinstance(start, list | tuple | str) for start in (*args[2:], *named[-1:])):
        raise TypeError("only numbers can be summed")
    return args


def _judge_width(meter: Meter, name: str, args: tuple[Any, ...], named: list[Any]) -> None:
    numbers = [value for value in (*args[1:], *named) if isinstance(value, int)]
    width = max(map(abs, numbers), default=4)
    if width > MAX_WIDTH:
        raise TemplateFailed(
            f"The chat template asks `{name}` for {width:,}; at most {MAX_WIDTH:,} is allowed."
        )
    text = str(args[0]) if name in ("expandtabs", "indent") else ""
    inserted = max([width, *(len(value) for value in (*args[1:], *named) if isinstance(value, str))])
    meter.foresee(len(text) + (1 + text.count("\t") + len(text.splitlines())) * inserted)


def _judge_join(meter: Meter, args: tuple[Any, ...], named: list[Any]) -> tuple[Any, ...]:
    """For the filter as for the method: one argument is the separator, the other what is joined."""
    given = [list(value) if isinstance(value, Iterator) else value for value in args]
    between = max([0, *(len(value) for value in (*given, *named) if isinstance(value, str))])
    parts = next((value for value in given if not isinstance(value, str)), given[-1])
    size, count = meter.size_of(parts), len(parts) if hasattr(parts, "__len__") else 1
    if isinstance(parts, str):
        size = between = max(map(len, given[:2]))
        count = min(map(len, given[:2])) if len(given) > 1 else 1
    meter.foresee(size + count * between)
    return tuple(given)


def judge_power(left: Any, right: Any) -> None:
    if isinstance(left, int) and isinstance(right, int):
        _judge_bits(left.bit_length() * right)


def judge_product(meter: Meter, left: Any, right: Any) -> None:
    for value, times in ((left, right), (right, left)):
        if isinstance(value, str | list | tuple) and isinstance(times, int):
            meter.foresee(meter.size_of(value) * times)
    if isinstance(left, int) and isinstance(right, int):
        _judge_bits(left.bit_length() + right.bit_length())


def _judge_bits(bits: int) -> None:
    if bits > MAX_BITS:
        raise TemplateFailed(
            f"The chat template would make a number of {bits:,} bits; {MAX_BITS:,} are allowed."
        )


def formatted_size(
    meter: Meter, text: str, mark: str, widths: re.Pattern[str], arguments: tuple[Any, ...]
) -> int:
    """The most that a format string can become: every field as wide as the widest."""
    spelled = [number for found in widths.findall(text) for number in found if number]
    numbers = [int(number) if len(number) < 12 else 10**12 for number in spelled if number != "*"]
    nested = "*" in spelled or re.search(r":[^{}]*\{", text)
    if nested:  # a width may come from any of the arguments
        values = [v for each in arguments for v in (each.values() if isinstance(each, Mapping) else (each,))]
        numbers += [abs(value) for value in values if isinstance(value, int)]
    longest = max((meter.size_of(argument) for argument in arguments), default=0)
    return len(text) + text.count(mark) * (max(numbers, default=0) + longest)
