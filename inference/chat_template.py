"""Chat templates: Jinja programs that come with a model and are run in a sandbox. Torch-free, thread-safe.

What a family of models wants is not known by its name but found by rendering probes: whether there is a
system role, whether roles must alternate, whether thinking can be switched, and what marks reasoning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import cached_property
from typing import Any

from jinja2 import UndefinedError

from inference.errors import TemplateFailed, TemplateTooSlow
from inference.folding import Folded
from inference.reasoning import ReasoningFormat, format_around, format_spelled_in
from inference.template_limits import MAX_VALUE, metered
from inference.template_sandbox import MAX_SOURCE, TemplateEnvironment
from inference.types import ChatMessage

THINKING_SWITCHES = ("enable_thinking", "thinking")
_MARK = "\ue000"
_PROBE = "\ue000probe\ue000"


class ChatTemplate:
    """Renders messages as the text that the model was trained on.

    Wherever `thinking` is taken, it is whether the model is to reason before it answers: it matters only to
    templates that have a switch for it, and None leaves theirs as it is.

    There is no clock: text that changes by itself would make the prefix cache useless. A template that will
    not do without one is given the day on which it was loaded, kept in `day` from then on.
    """

    def __init__(self, source: str, *, bos_token: str = "", eos_token: str = "") -> None:
        if len(source) > MAX_SOURCE:
            raise TemplateFailed(
                f"The model's chat template has {len(source):,} characters; {MAX_SOURCE:,} are allowed."
            )
        self.source = source
        self.day: date | None = None
        self._too_slow: TemplateTooSlow | None = None
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}
        try:
            with metered():
                self._template = TemplateEnvironment().from_string(source)
        except TemplateFailed:
            raise
        except Exception as error:  # parsers fail in many ways on what a stranger wrote
            raise TemplateFailed(f"The model's chat template cannot be read: {_reason(error)}.") from None

    def render(
        self, messages: Sequence[ChatMessage], *, generation_prompt: bool, thinking: bool | None = None
    ) -> str:
        """The rendered text. Raises `TemplateFailed` with the template's own words."""
        turns = [folded.message for folded in self.fold(messages)]
        return self._render(turns, generation_prompt, thinking)

    def fold(self, messages: Sequence[ChatMessage]) -> list[Folded]:
        """The chat as the template takes it: without a system role, that text heads the first user turn;
        where roles must alternate, neighbours of one role become one.
        """
        folded: list[Folded] = []
        for index, message in enumerate(messages):
            if folded and self._joins(folded[-1].message, message):
                folded[-1] = folded[-1].then(index, message)
            else:
                folded.append(Folded(message, (index,), (message.text,)))
        if folded and folded[0].message.role == "system" and not self.takes_system:
            folded[0] = replace(folded[0], message=replace(folded[0].message, role="user"))
        return folded

    def _joins(self, last: ChatMessage, message: ChatMessage) -> bool:
        if last.role == "system":
            return not self.takes_system and message.role == "user"
        return last.role == message.role and not self.takes_repeats

    @cached_property
    def takes_system(self) -> bool:
        """Whether a system message is accepted and appears in the text."""
        probe = [ChatMessage("system", _PROBE), ChatMessage("user", "x")]
        return _PROBE in (self._try(probe, True) or "")

    @cached_property
    def takes_repeats(self) -> bool:
        """Whether two user messages may follow each other, as they do around a reply that never came."""
        once = [ChatMessage("user", "x")]
        return self._try(once, True) is None or self._try([*once, *once], True) is not None

    @cached_property
    def suffixes(self) -> Mapping[str, str]:
        """The text that closes a message of each role, such as `<|im_end|>` and a newline in ChatML."""
        chat = [ChatMessage("system", _MARK), ChatMessage("user", _MARK), ChatMessage("assistant", _MARK)]
        suffixes = {}
        for count, role in enumerate(("system", "user", "assistant"), start=1):
            rendered = self._try([folded.message for folded in self.fold(chat[:count])], False)
            suffixes[role] = rendered.rpartition(_MARK)[2] if rendered is not None else ""
        return suffixes

    @cached_property
    def thinking_switch(self) -> str | None:
        """The variable that switches thinking on and off; None where nothing does."""
        chat = [ChatMessage("user", "x")]
        for name in THINKING_SWITCHES:
            if self._try(chat, True, {name: True}) != self._try(chat, True, {name: False}):
                return name
        return None

    def reasoning(self, thinking: bool | None = None) -> ReasoningFormat | None:
        """How a reply marks its reasoning; None where the model has none."""
        return self._reasoning[thinking]

    def default_system(self, thinking: bool | None = None) -> str:
        """System text that the template adds by itself when a chat has none; "" where it adds nothing."""
        return self._default_system[thinking]

    @cached_property
    def _reasoning(self) -> Mapping[bool | None, ReasoningFormat | None]:
        return {thinking: self._probe_reasoning(thinking) for thinking in (None, True, False)}

    @cached_property
    def _default_system(self) -> Mapping[bool | None, str]:
        return {thinking: self._probe_default_system(thinking) for thinking in (None, True, False)}

    def _probe_reasoning(self, thinking: bool | None) -> ReasoningFormat | None:
        marks = self._reasoning_marks
        if marks is None:
            return None
        chat = [ChatMessage("user", "x")]
        bare = self._try(chat, False, self._switched(thinking)) or ""
        prompt = (self._try(chat, True, self._switched(thinking)) or "").removeprefix(bare)
        _, found, after = prompt.rpartition(marks.opening)
        opened = bool(found) and marks.closing not in after
        return ReasoningFormat(marks.opening, marks.closing, opened)

    @cached_property
    def _reasoning_marks(self) -> ReasoningFormat | None:
        """From a reply with reasoning where the template writes that out, else from its own words."""
        reply = ChatMessage("assistant", _MARK, reasoning=_PROBE)
        rendered = self._try([ChatMessage("user", "x"), reply], False, self._switched(True)) or ""
        before, found, after = rendered.partition(_PROBE)
        marks = format_around(before, after) if found else None
        return marks or format_spelled_in(self.source)

    def _probe_default_system(self, thinking: bool | None) -> str:
        given = self._try([ChatMessage("system", _MARK)], False, self._switched(thinking))
        none = self._try([ChatMessage("user", _MARK)], False, self._switched(thinking))
        if given is None or none is None or not self.takes_system:
            return ""
        opening, head = given.partition(_MARK)[0], none.partition(_MARK)[0]
        text, closing, _ = head.rpartition(self.suffixes["system"] or _MARK)
        return text.removeprefix(opening) if closing and opening and text.startswith(opening) else ""

    def _switched(self, thinking: bool | None) -> dict[str, bool]:
        switch = self.thinking_switch
        return {} if thinking is None or switch is None else {switch: thinking}

    def _try(
        self,
        messages: Sequence[ChatMessage],
        generation_prompt: bool,
        variables: Mapping[str, bool] | None = None,
    ) -> str | None:
        """A probe: None where the template refuses it. One that takes too long is the last."""
        if self._too_slow is not None:
            raise self._too_slow
        try:
            return "".join(self._pieces(messages, generation_prompt, variables or {}))
        except TemplateTooSlow as error:
            self._too_slow = error
            raise
        except TemplateFailed:
            return None

    def _render(self, messages: Sequence[ChatMessage], generation_prompt: bool, thinking: bool | None) -> str:
        return "".join(self._pieces(messages, generation_prompt, self._switched(thinking)))

    def _pieces(
        self, messages: Sequence[ChatMessage], generation_prompt: bool, variables: Mapping[str, bool]
    ) -> list[str]:
        pieces, length = [], 0
        given: dict[str, Any] = {"add_generation_prompt": generation_prompt, **self._tokens, **variables}
        given["messages"] = [_as_dict(message) for message in messages]
        if self.day is not None:
            given["strftime_now"] = self.day.strftime
        try:
            with metered():
                for piece in self._template.generate(given):
                    length += len(piece)
                    if length > MAX_VALUE:
                        raise TemplateFailed(f"The chat template made over {MAX_VALUE:,} characters.")
                    pieces.append(piece)
        except TemplateFailed:
            raise
        except UndefinedError as error:
            if self.day is None and "'strftime_now' is undefined" in str(error):
                self.day = date.today()
                return self._pieces(messages, generation_prompt, variables)
            raise TemplateFailed(f"The model's chat template failed: {_reason(error)}.") from None
        except Exception as error:  # a stranger's program may raise anything
            raise TemplateFailed(f"The model's chat template failed: {_reason(error)}.") from None
        return pieces


def _as_dict(message: ChatMessage) -> dict[str, Any]:
    turn = {"role": message.role, "content": message.text}
    return turn if message.reasoning is None else turn | {"reasoning_content": message.reasoning}


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it calls itself without end"
    return (str(error) or type(error).__name__).rstrip(".")
