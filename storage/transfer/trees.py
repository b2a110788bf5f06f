"""From other programs' trees to ours: no hidden or empty messages, and user and reply in turn.

Elsewhere one answer may be several messages: thoughts, calls of tools, their results, the text. Here it is
one reply. So messages of one side that follow each other become one, branch by branch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec

from storage.errors import ImportRefused
from storage.records import Role
from storage.tables import TITLE_LENGTH
from storage.transfer.importing import derived_id
from storage.transfer.limits import MAX_CONTAINERS, MAX_CONVERSATION_BYTES
from storage.transfer.schema import ExportedConversation, ExportedMessage

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TITLE_CHARS = 60
IN_A_CIRCLE = "Its messages follow each other in a circle."
NO_MESSAGES = "It has no messages."
TOO_MUCH_TEXT = "Written out branch by branch its text is too long."


@dataclass(frozen=True, slots=True)
class Node:
    """A message as another program keeps it. Without `text` and `reasoning` it is passed over: what follows
    it follows what it followed.
    """

    id: str
    parent_id: str | None
    role: Role
    text: str = ""
    created_at: datetime | None = None
    model: str | None = None
    reasoning: str = ""

    @property
    def is_shown(self) -> bool:
        return bool(self.text.strip() or self.reasoning.strip())


@dataclass(frozen=True, slots=True)
class Source:
    """A conversation as another program keeps it. `head_id` is the node that was looked at last."""

    origin: str
    id: str
    title: str
    nodes: Sequence[Node]
    head_id: str | None = None
    system_prompt: str = ""
    created_at: datetime | None = None
    updated_at: datetime | None = None


def moment(seconds: float | None) -> datetime | None:
    """A time in seconds, or in thousandths of them up to billionths, as programs write it; else None."""
    if seconds is None or not 0 < seconds < 1e19:
        return None
    while seconds > 1e11:
        seconds /= 1_000
    return EPOCH + timedelta(seconds=round(seconds, 6))


def converted(source: Source) -> ExportedConversation:
    """The conversation as we keep it. Raises `ImportRefused`."""
    nodes = _in_order(source.nodes)
    above = _shown_above(nodes)
    shown = [node for node in nodes if node.is_shown]
    if not shown:
        raise ImportRefused(NO_MESSAGES)
    ends = _ends(shown, above)
    conversation_id = derived_id(source.origin, source.id)
    times = _times(shown, above, source.created_at or _earliest(shown))
    runs = _runs((node for node in shown if node.id in ends), above)
    messages = tuple(_message(conversation_id, run, above, times) for run in runs)
    title = _clean(source.title.strip()) or _title_from(shown)
    created_at = source.created_at or messages[0].created_at
    return ExportedConversation(
        id=conversation_id,
        title=title[:TITLE_LENGTH],
        origin=source.origin,
        created_at=created_at,
        updated_at=source.updated_at or max(message.created_at for message in messages),
        system_prompt=_clean(source.system_prompt),
        head_id=derived_id(conversation_id, _head(source, nodes, shown, above)),
        messages=_apart(messages),
    )


def _in_order(nodes: Sequence[Node]) -> list[Node]:
    """Every node after its parent. One whose parent is not there is a first one."""
    known = {node.id for node in nodes}
    children: dict[str | None, list[Node]] = {}
    for node in nodes:
        children.setdefault(node.parent_id if node.parent_id in known else None, []).append(node)
    ordered, waiting = [], list(reversed(children.get(None, ())))
    while waiting:
        node = waiting.pop()
        ordered.append(node)
        waiting.extend(reversed(children.pop(node.id, ())))
    if len(ordered) < len(nodes):
        raise ImportRefused(IN_A_CIRCLE)
    return ordered


def _shown_above(nodes: Sequence[Node]) -> dict[str, Node | None]:
    """Of each node the nearest one above it that is shown."""
    by_id = {node.id: node for node in nodes}
    above: dict[str, Node | None] = {}
    for node in nodes:
        parent = by_id.get(node.parent_id or "")
        above[node.id] = parent if parent is None or parent.is_shown else above[parent.id]
    return above


def _runs(ends: Iterable[Node], above: Mapping[str, Node | None]) -> Iterator[list[Node]]:
    """Of each node those of its side that lead to it without the other between, and itself."""
    nodes, characters = 0, 0
    for node in ends:
        run = [node]
        while (before := above[run[-1].id]) is not None and before.role == node.role:
            run.append(before)
            characters += len(before.text) + len(before.reasoning)
            nodes += 1
            if nodes > MAX_CONTAINERS or characters > MAX_CONVERSATION_BYTES:
                raise ImportRefused(TOO_MUCH_TEXT)
        yield run[::-1]


def _ends(shown: Sequence[Node], above: Mapping[str, Node | None]) -> set[str]:
    """The nodes at which a run ends: nothing follows, or the other side does."""
    goes_on: set[str] = set()
    answered: set[str] = set()
    for node in shown:
        before = above[node.id]
        if before is not None:
            goes_on.add(before.id)
            if before.role != node.role:
                answered.add(before.id)
    return {node.id for node in shown if node.id in answered or node.id not in goes_on}


def _times(
    shown: Sequence[Node], above: Mapping[str, Node | None], beginning: datetime
) -> dict[str, datetime]:
    """When each was said; where that is not known, when what it follows was said."""
    times: dict[str, datetime] = {}
    for node in shown:
        before = above[node.id]
        times[node.id] = node.created_at or (times[before.id] if before else beginning)
    return times


def _earliest(shown: Sequence[Node]) -> datetime:
    times = [node.created_at for node in shown if node.created_at]
    return min(times) if times else datetime.now(UTC)


def _message(
    conversation_id: str,
    run: Sequence[Node],
    above: Mapping[str, Node | None],
    times: Mapping[str, datetime],
) -> ExportedMessage:
    last, before = run[-1], above[run[0].id]
    is_reply = last.role == "assistant"
    reasoning = "\n\n".join(_clean(node.reasoning.strip()) for node in run if node.reasoning.strip())
    return ExportedMessage(
        id=derived_id(conversation_id, last.id),
        parent_id=None if before is None else derived_id(conversation_id, before.id),
        role=last.role,
        text="\n\n".join(_clean(node.text.strip("\n")) for node in run if node.text.strip()),
        created_at=times[run[0].id],
        model=next((_clean(node.model)[:200] for node in reversed(run) if node.model), None)
        if is_reply
        else None,
        reasoning=reasoning or None,
    )


def _apart(messages: Sequence[ExportedMessage]) -> tuple[ExportedMessage, ...]:
    """Messages with one parent keep their order, which is that of their times."""
    latest: dict[str | None, datetime] = {}
    kept = []
    for message in messages:
        last = latest.get(message.parent_id)
        if last is not None and message.created_at <= last:
            message = msgspec.structs.replace(message, created_at=last + timedelta(microseconds=1))
        latest[message.parent_id] = message.created_at
        kept.append(message)
    return tuple(kept)


def _head(
    source: Source, nodes: Sequence[Node], shown: Sequence[Node], above: Mapping[str, Node | None]
) -> str:
    """The last message of the branch that was looked at: of each parent's children the last one, where it
    goes on after that.
    """
    following: dict[str | None, str] = {}
    for node in shown:
        before = above[node.id]
        following[before.id if before else None] = node.id
    looked_at = {node.id: node for node in nodes}.get(source.head_id or "")
    if looked_at is not None and not looked_at.is_shown:
        looked_at = above[looked_at.id]
    last = looked_at.id if looked_at else following[None]
    while last in following:
        last = following[last]
    return last


def _title_from(shown: Sequence[Node]) -> str:
    first = next((node for node in shown if node.role == "user"), shown[0])
    words = " ".join(_clean(first.text).split())
    return words if len(words) <= TITLE_CHARS else words[: TITLE_CHARS - 1].rstrip() + "…"


def _clean(text: str) -> str:
    """Text that can be stored: half of a character outside the first plane is none."""
    return text.encode("utf-8", "replace").decode("utf-8") if not text.isascii() else text
