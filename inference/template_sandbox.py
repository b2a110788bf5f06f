"""Where chat templates run: programs by strangers, kept away from Python and held to bounds. Any thread.

Jinja's immutable sandbox keeps a template from attributes that lead out of it, but lets it burn time and
memory. Here whatever can repeat work or make a large value passes one meter: every step of a loop, every
call, filter and test, every joined text, list, slice and captured block. Operations whose result can be far
larger than their operands (`*`, `**`, `%`, `replace`, `join`, widths) are judged before they run; everything
else makes at most the sum of what it was given, and is judged after. Text is measured in characters, a list
or mapping by all that it holds, shared parts counted as often as they would be written.

What remains: the clock is read between operations and cannot interrupt one, and each works on values of up to
`MAX_VALUE`, so that sorting or comparing such lists may run some seconds longer than `MAX_SECONDS`. Parsing
and compiling are bounded by the length of the source alone.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, NoReturn, cast

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from inference.errors import TemplateFailed, TemplateTooSlow

MAX_SECONDS = 2.0
"""Processor time of the rendering thread."""
MAX_VALUE = 8_000_000
MAX_MADE = 256_000_000
MAX_SOURCE = 1_000_000
MAX_WIDTH = 10_000
MAX_BITS = 4_096

# The others make unforeseeable work or text that changes by itself, and no model's template needs them.
FILTERS = frozenset(
    ("abs", "attr", "batch", "capitalize", "center", "count", "d", "default", "dictsort", "e", "escape")
    + ("first", "float", "format", "groupby", "indent", "int", "items", "join", "last", "length", "list")
    + ("lower", "map", "max", "min", "reject", "rejectattr", "replace", "reverse", "round", "safe", "select")
    + ("selectattr", "slice", "sort", "string", "sum", "title", "trim", "truncate", "unique", "upper")
    + ("wordcount",)
)
TAKES_WIDTH = frozenset(
    ("batch", "center", "expandtabs", "indent", "ljust", "rjust", "round", "slice", "tojson", "truncate")
    + ("zfill",)
)
# Bytes and tables of characters grow in ways of their own; `striptags` is quadratic.
NO_METHODS = frozenset(
    ("encode", "format_map", "from_bytes", "fromhex", "maketrans", "striptags", "to_bytes", "translate")
    + ("unescape",)
)
OTHER_SIZE = 32
_ALLOWED = f"{MAX_VALUE:,} are allowed."
_COLLECTIONS = (list, tuple, Mapping, KeysView, ValuesView, ItemsView)
_PERCENT_WIDTH = re.compile(r"%(?:\([^)]*\))?[-+ #0]*(\*|\d*)(?:\.(\*|\d*))?")
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


_meter: ContextVar[Meter] = ContextVar("template_meter")


@contextmanager
def metered() -> Iterator[None]:
    """Whatever runs in this block, in this thread, has the bounds of one rendering."""
    token = _meter.set(Meter())
    try:
        yield
    finally:
        _meter.reset(token)


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    """Jinja as transformers gives it to chat templates, within bounds. Use it inside `metered`.

    It has the same options, filters and functions (`transformers.utils.chat_template_utils`), without the
    filters that are not in `FILTERS`, and without a clock or chance: text that changes by itself would make
    the prefix cache useless.
    """

    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, cache_size=0, extensions=[loopcontrols, _GenerationTag]
        )
        allowed = {name: self.filters[name] for name in FILTERS} | {"tojson": _to_json}
        self.filters = {name: _metered_filter(name, function) for name, function in allowed.items()}
        self.tests = {name: _metered_test(function) for name, function in self.tests.items()}
        self.globals.pop("lipsum")
        self.globals |= {"raise_exception": _raise, "dict": _new_dict, "namespace": _Namespace}
        self.concat = self.joined_pieces  # type: ignore[method-assign]

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree: nodes.Template = _Funnel().visit(super()._parse(source, name, filename))
        tree.set_environment(self)
        return tree

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Jinja's own judgement, less what grows or burns unseen."""
        return attr not in NO_METHODS and super().is_safe_attribute(obj, attr, value)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a function, macro or method of the template's."""
        meter = _meter.get()
        meter.tick()
        method = getattr(__obj, "__wrapped__", __obj)  # the sandbox's own `format` wraps the text's
        owner = getattr(method, "__self__", None)
        if isinstance(owner, str):
            args = _judge(meter, method.__name__, (owner, *args), kwargs)[1:]
        return meter.note(super().call(__context, __obj, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Compute an operator whose result may be larger than its operands."""
        meter = _meter.get()
        meter.tick()
        if operator == "**":
            _judge_power(left, right)
        elif operator == "*":
            _judge_product(meter, left, right)
        elif operator == "%" and isinstance(left, str):
            arguments = right if isinstance(right, tuple) else (right,)
            meter.foresee(_formatted_size(meter, left, "%", _PERCENT_WIDTH, arguments))
        elif operator == "+":
            meter.foresee(meter.size_of(left) + meter.size_of(right))
        return meter.note(super().call_binop(context, operator, left, right))

    # What the parsed template calls in place of Jinja's own loops, literals and `~`

    def steps(self, iterable: Iterable[Any]) -> Iterator[Any]:
        """The members of what a loop goes over."""
        for member in iterable:
            _meter.get().tick()
            yield member

    def joined(self, *values: Any) -> str:
        """`a ~ b ~ c`."""
        return self.joined_pieces([str(value) for value in values])

    def made(self, value: Any) -> Any:
        """A list, mapping, tuple or slice."""
        return value  # `call` has counted it

    def joined_pieces(self, pieces: Iterable[str]) -> str:
        """The text of a macro or a captured block."""
        pieces, meter = list(pieces), _meter.get()
        meter.foresee(sum(map(len, pieces)))
        text: str = meter.note("".join(pieces))
        return text


class _Funnel(NodeTransformer):
    """Leads loops, literals, slices and `~` through methods of the environment."""

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.generic_visit(node)
        node.iter = _through("steps", node, [cast(nodes.Expr, node.iter)])
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _through("joined", node, node.nodes)

    def visit_List(self, node: nodes.List) -> nodes.Node:
        self.generic_visit(node)
        return _through("made", node, [node])

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:
        self.generic_visit(node)
        return _through("made", node, [node])

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:
        self.generic_visit(node)
        return _through("made", node, [node]) if node.ctx == "load" else node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        return _through("made", node, [node]) if isinstance(node.arg, nodes.Slice) else node


def _through(name: str, node: nodes.Node, arguments: list[nodes.Expr]) -> nodes.Call:
    function = nodes.EnvironmentAttribute(name, lineno=node.lineno)
    return nodes.Call(function, arguments, [], None, None, lineno=node.lineno)


class _GenerationTag(Extension):
    """`{% generation %}` marks replies for training and means nothing here."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Namespace(Namespace):
    """A template's variables. No private names, and no way to write out namespaces within namespaces."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        self, *rest = args
        values = dict(*rest, **kwargs)
        Namespace.__init__(self)
        for name, value in values.items():
            self[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        if str(name).startswith("_"):
            raise SecurityError(f"a namespace holds no {name!r}")
        super().__setitem__(name, value)

    def __repr__(self) -> str:
        return "<namespace>"


def _metered_filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    taken = 1 if hasattr(function, "jinja_pass_arg") else 0  # the context or environment comes first

    @wraps(function)  # which also copies what Jinja has noted on it
    def run(*args: Any, **kwargs: Any) -> Any:
        meter = _meter.get()
        meter.tick()
        given = _judge(meter, name, args[taken:], kwargs)
        return meter.note(function(*args[:taken], *given, **kwargs))

    return run


def _metered_test(function: Any) -> Callable[..., Any]:
    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        _meter.get().tick()
        return function(*args, **kwargs)

    return run


def _judge(meter: Meter, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
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
        size = _formatted_size(meter, text, "%", _PERCENT_WIDTH, (*args[1:], *named))
        meter.foresee(max(size, _formatted_size(meter, text, "{", _BRACE_WIDTH, (*args[1:], *named))))
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


def _judge_power(left: Any, right: Any) -> None:
    if isinstance(left, int) and isinstance(right, int):
        _judge_bits(left.bit_length() * right)


def _judge_product(meter: Meter, left: Any, right: Any) -> None:
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


def _formatted_size(
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


def _raise(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _new_dict(*args: Any, **kwargs: Any) -> dict[Any, Any]:
    return dict(*args, **kwargs)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON without the escapes for HTML that Jinja's own filter makes."""
    encoder = json.JSONEncoder(
        ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    meter, pieces = _meter.get(), []
    for piece in encoder.iterencode(value):
        meter.tick()
        pieces.append(meter.note(piece))
    return "".join(pieces)
