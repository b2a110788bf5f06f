"""Where chat templates run: programs by strangers, kept away from Python and held to bounds. Any thread.

Jinja's immutable sandbox keeps a template from attributes that lead out of it, but lets it burn time and
memory. Here whatever can repeat work or make a large value passes one meter: every step of a loop, every
call, filter and test, every joined text, list, slice and captured block. Operations whose result can be far
larger than their operands (`*`, `**`, `%`, `replace`, `join`, widths) are judged before they run; everything
else makes at most the sum of what it was given, and is judged after. `inference.template_limits` measures.

What remains: the clock is read between operations and cannot interrupt one, and each works on values of up to
`MAX_VALUE`, so that sorting or comparing such lists may run some seconds longer than `MAX_SECONDS`. Parsing
and compiling are bounded by the length of the source alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
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

from inference.template_limits import (
    METER,
    PERCENT_WIDTH,
    formatted_size,
    judge,
    judge_power,
    judge_product,
)

MAX_SOURCE = 1_000_000
# The others make unforeseeable work or text that changes by itself, and no model's template needs them.
FILTERS = frozenset(
    ("abs", "attr", "batch", "capitalize", "center", "count", "d", "default", "dictsort", "e", "escape")
    + ("first", "float", "format", "groupby", "indent", "int", "items", "join", "last", "length", "list")
    + ("lower", "map", "max", "min", "reject", "rejectattr", "replace", "reverse", "round", "safe", "select")
    + ("selectattr", "slice", "sort", "string", "sum", "title", "trim", "truncate", "unique", "upper")
    + ("wordcount",)
)
# Bytes and tables of characters grow in ways of their own; `striptags` is quadratic.
NO_METHODS = frozenset(
    ("encode", "format_map", "from_bytes", "fromhex", "maketrans", "striptags", "to_bytes", "translate")
    + ("unescape",)
)


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
        meter = METER.get()
        meter.tick()
        method = getattr(__obj, "__wrapped__", __obj)  # the sandbox's own `format` wraps the text's
        owner = getattr(method, "__self__", None)
        if isinstance(owner, str):
            args = judge(meter, method.__name__, (owner, *args), kwargs)[1:]
        return meter.note(super().call(__context, __obj, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Compute an operator whose result may be larger than its operands."""
        meter = METER.get()
        meter.tick()
        if operator == "**":
            judge_power(left, right)
        elif operator == "*":
            judge_product(meter, left, right)
        elif operator == "%" and isinstance(left, str):
            arguments = right if isinstance(right, tuple) else (right,)
            meter.foresee(formatted_size(meter, left, "%", PERCENT_WIDTH, arguments))
        elif operator == "+":
            meter.foresee(meter.size_of(left) + meter.size_of(right))
        return meter.note(super().call_binop(context, operator, left, right))

    # What the parsed template calls in place of Jinja's own loops, literals and `~`

    def steps(self, iterable: Iterable[Any]) -> Iterator[Any]:
        """The members of what a loop goes over."""
        for member in iterable:
            METER.get().tick()
            yield member

    def joined(self, *values: Any) -> str:
        """`a ~ b ~ c`."""
        return self.joined_pieces([str(value) for value in values])

    def made(self, value: Any) -> Any:
        """A list, mapping, tuple or slice."""
        return value  # `call` has counted it

    def joined_pieces(self, pieces: Iterable[str]) -> str:
        """The text of a macro or a captured block."""
        pieces, meter = list(pieces), METER.get()
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
        meter = METER.get()
        meter.tick()
        given = judge(meter, name, args[taken:], kwargs)
        return meter.note(function(*args[:taken], *given, **kwargs))

    return run


def _metered_test(function: Any) -> Callable[..., Any]:
    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        METER.get().tick()
        return function(*args, **kwargs)

    return run


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
    meter, pieces = METER.get(), []
    for piece in encoder.iterencode(value):
        meter.tick()
        pieces.append(meter.note(piece))
    return "".join(pieces)
