"""Chat templates: Jinja programs that come with a model and are run in a sandbox. Torch-free, thread-safe."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NoReturn

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from inference.errors import TemplateFailed
from inference.types import ChatMessage

MAX_RENDERED_CHARACTERS = 8_000_000


class ChatTemplate:
    """Renders messages as the text that the model was trained on.

    The environment has the same options, filters and functions that transformers gives to chat templates
    (`transformers.utils.chat_template_utils`), but no clock: text that changes by itself would make the
    prefix cache useless.
    """

    def __init__(self, source: str, *, bos_token: str = "", eos_token: str = "") -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise
        self.source = source
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateError as error:
            raise TemplateFailed(f"The model's chat template cannot be read: {error}.") from None

    def render(self, messages: Sequence[ChatMessage], *, generation_prompt: bool) -> str:
        """The rendered text. Raises `TemplateFailed` with the template's own words."""
        turns = messages if self.takes_system else fold_system(messages)
        return self._render(turns, generation_prompt)

    @cached_property
    def takes_system(self) -> bool:
        """Whether a system message is accepted and appears in the text; else it is folded into the first
        turn.
        """
        probe = [ChatMessage("system", "\ue000probe\ue000"), ChatMessage("user", "x")]
        try:
            return "\ue000probe\ue000" in self._render(probe, True)
        except TemplateFailed:
            return False

    @cached_property
    def suffixes(self) -> Mapping[str, str]:
        """The text that closes a message of each role, such as `<|im_end|>` and a newline in ChatML."""
        chat = [
            ChatMessage("system", "\ue000"),
            ChatMessage("user", "\ue000"),
            ChatMessage("assistant", "\ue000"),
        ]
        suffixes = {}
        for count, role in enumerate(("system", "user", "assistant"), start=1):
            try:
                suffixes[role] = self.render(chat[:count], generation_prompt=False).rpartition("\ue000")[2]
            except TemplateFailed:
                suffixes[role] = ""
        return suffixes

    @cached_property
    def default_system(self) -> str:
        """System text that the template adds by itself when a chat has none; "" where it adds nothing."""
        mark = "\ue000"
        try:
            opening = self.render([ChatMessage("system", mark)], generation_prompt=False).partition(mark)[0]
            head = self.render([ChatMessage("user", mark)], generation_prompt=False).partition(mark)[0]
        except TemplateFailed:
            return ""
        text, closing, _ = head.rpartition(self.suffixes["system"] or mark)
        return text.removeprefix(opening) if closing and opening and text.startswith(opening) else ""

    def _render(self, messages: Sequence[ChatMessage], generation_prompt: bool) -> str:
        turns = [{"role": message.role, "content": message.text} for message in messages]
        pieces, length = [], 0
        try:
            for piece in self._template.generate(
                messages=turns, add_generation_prompt=generation_prompt, **self._tokens
            ):
                length += len(piece)
                if length > MAX_RENDERED_CHARACTERS:
                    raise TemplateFailed(
                        f"The chat template made over {MAX_RENDERED_CHARACTERS:,} characters and was ended."
                    )
                pieces.append(piece)
        except (jinja2.TemplateError, TypeError, ValueError, ArithmeticError, LookupError) as error:
            raise TemplateFailed(f"The model's chat template failed: {error}.") from None
        return "".join(pieces)


def fold_system(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """The same chat with the system text at the head of the first user turn, for templates without that
    role.
    """
    if not messages or messages[0].role != "system":
        return list(messages)
    system, *rest = messages
    if not rest:
        return [ChatMessage("user", system.text, key=system.key)]
    first = rest[0]
    return [
        ChatMessage(first.role, f"{system.text}\n\n{first.text}", None, first.pinned, first.key),
        *rest[1:],
    ]


def _raise(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)
