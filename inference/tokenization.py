"""Text to token ids and back, exactly as the model sees them. Torch-free; shared by threads, never
changed.
"""

from __future__ import annotations

import secrets
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from tokenizers import Tokenizer

from inference.chat_template import ChatTemplate, fold_system
from inference.detokenizer import REPLACEMENT
from inference.errors import ModelUnusable
from inference.models.prepared import PreparedModel
from inference.types import ChatMessage


@dataclass(frozen=True, slots=True)
class EncodedChat:
    """A rendered chat as token ids.

    counts[i] is how many of the ids belong to message i, closing text included; `head` ids come before the
    first message (text that the template inserts, BOS), `generation` ids after the last (the generation
    prompt). `head` + sum(counts) + `generation` is the number of ids. `reuse_lost` says why a reply's own
    ids were not used.
    """

    ids: tuple[int, ...]
    head: int
    counts: tuple[int, ...]
    generation: int
    reuse_lost: str | None = None


@dataclass(frozen=True, slots=True)
class _Piece:
    """A stretch of the rendered text that is tokenized by itself; `owner` is the message it belongs to."""

    text: str
    owner: int
    ids: tuple[int, ...] | None = None
    literal: bool = False


class ChatTokenizer:
    """The model's tokenizer and chat template together."""

    def __init__(self, tokenizer: Tokenizer, literal: Tokenizer, template: ChatTemplate) -> None:
        self._tokenizer = tokenizer
        self._literal = literal
        self.template = template
        self._special_texts = tuple(
            token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special
        )

    @classmethod
    def load(cls, prepared: PreparedModel) -> ChatTokenizer:
        """Read `tokenizer.json` and the template; `ModelUnusable` when either cannot be read."""
        try:
            text = prepared.tokenizer_file.read_text("utf-8")
            tokenizer, literal = Tokenizer.from_str(text), Tokenizer.from_str(text)
        except Exception as error:  # the tokenizers library raises bare Exception on a bad file
            raise ModelUnusable(f"The tokenizer of {prepared.source} cannot be read: {error}.") from error
        literal.encode_special_tokens = True
        template = ChatTemplate(
            prepared.chat_template, bos_token=prepared.bos_token, eos_token=prepared.eos_token
        )
        return cls(tokenizer, literal, template)

    @property
    def template_hash(self) -> str:
        """The first 12 hex digits of the template's SHA-256."""
        return sha256(self.template.source.encode()).hexdigest()[:12]

    def encode_text(self, text: str) -> tuple[int, ...]:
        """Ids of plain text: special tokens spelled in it count as ordinary characters."""
        return tuple(self._literal.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, special tokens left out. Incomplete characters show as U+FFFD: never for display."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))

    def encode_chat(self, messages: Sequence[ChatMessage], *, generation_prompt: bool = True) -> EncodedChat:
        """Render and tokenize a chat.

        Replies that carry `token_ids` are spliced in with exactly those ids, unless the template rewrote
        their text. Special tokens spelled inside a message are encoded as plain text, so that a message
        cannot end its own turn. Everything else is tokenized in its context, as transformers does.
        """
        turns = list(messages) if self.template.takes_system else fold_system(messages)
        glue, real = self._rendered(turns, generation_prompt)
        contents = _contents_as_rendered(turns, glue, real)
        if contents is None:
            return self._encode_rewritten(turns, real, len(messages))
        own_ids = [self._own_ids(turn, content) for turn, content in zip(turns, contents, strict=True)]
        pieces = self._pieces(turns, glue, contents, own_ids)
        return self._encode_pieces(pieces, len(turns), len(messages), _why_lost(turns, own_ids))

    def _rendered(self, turns: Sequence[ChatMessage], generation_prompt: bool) -> tuple[list[str], str]:
        """The text around the messages (one more than there are messages), and the whole real text."""
        nonce = secrets.token_hex(4)
        marks = [f"\ue000{nonce}{index}\ue001" for index in range(len(turns))]
        marked_turns = [replace(turn, text=mark) for turn, mark in zip(turns, marks, strict=True)]
        marked = self.template.render(marked_turns, generation_prompt=generation_prompt)
        real = self.template.render(turns, generation_prompt=generation_prompt)
        glue = []
        for mark in marks:
            before, found, marked = marked.partition(mark)
            if not found:
                return [], real
            glue.append(before)
        return [*glue, marked], real

    def _pieces(
        self,
        turns: Sequence[ChatMessage],
        glue: Sequence[str],
        contents: Sequence[str],
        own_ids: Sequence[tuple[int, ...] | None],
    ) -> Iterator[_Piece]:
        owner = -1
        for index in range(len(turns)):
            closing, opening = self._split_glue(glue[index], turns[index - 1].role if index else None)
            yield _Piece(closing, owner)
            owner = index
            yield _Piece(opening, owner)
            special = self._spells_special(contents[index])
            yield _Piece(contents[index], owner, own_ids[index], literal=special)
        closing, opening = self._split_glue(glue[-1], turns[-1].role if turns else None)
        yield _Piece(closing, owner)
        yield _Piece(opening, len(turns))

    def _split_glue(self, glue: str, previous_role: str | None) -> tuple[str, str]:
        if previous_role is None:
            return self._split_head(glue)
        suffix = self.template.suffixes[previous_role]
        return (suffix, glue[len(suffix) :]) if glue.startswith(suffix) else ("", glue)

    def _split_head(self, glue: str) -> tuple[str, str]:
        """Text before the first message: what the template inserts by itself, then that message's opening."""
        head, closing, opening = glue.rpartition(self.template.suffixes["system"] or "\ue000")
        return head + closing, opening

    def _own_ids(self, turn: ChatMessage, content: str) -> tuple[int, ...] | None:
        """The ids that were generated for a reply, where they still spell what the template wrote."""
        if turn.role != "assistant" or turn.token_ids is None:
            return None
        # Bytes that never became a character are not in the text, but the model did write them.
        spelled = self.decode(turn.token_ids).replace(REPLACEMENT, "")
        return turn.token_ids if spelled == content else None

    def _spells_special(self, text: str) -> bool:
        return any(special in text for special in self._special_texts)

    def _encode_pieces(
        self, pieces: Iterator[_Piece], turns: int, messages: int, lost: str | None
    ) -> EncodedChat:
        ids: list[int] = []
        counts = [0] * (turns + 2)  # counts[0] is the head, counts[-1] the generation prompt
        run: list[_Piece] = []

        def flush() -> None:
            for token, owner in self._encode_run(run):
                ids.append(token)
                counts[owner + 1] += 1
            run.clear()

        for piece in pieces:
            if piece.ids is None and not piece.literal:
                run.append(piece)
                continue
            flush()
            own = piece.ids if piece.ids is not None else self.encode_text(piece.text)
            ids.extend(own)
            counts[piece.owner + 1] += len(own)
        flush()
        folded = [0] * (messages - turns)  # a folded system message is counted with the turn that holds it
        return EncodedChat(tuple(ids), counts[0], (*folded, *counts[1:-1]), counts[-1], lost)

    def _encode_run(self, run: Sequence[_Piece]) -> Iterator[tuple[int, int]]:
        """Pairs of (token id, owner): neighbouring pieces are tokenized together, so that merges cross
        them.
        """
        starts, text = [], ""
        for piece in run:
            starts.append(len(text))
            text += piece.text
        if not text:
            return
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        for token, (start, _) in zip(encoding.ids, encoding.offsets, strict=True):
            yield token, run[bisect_right(starts, start) - 1].owner

    def _encode_rewritten(self, turns: Sequence[ChatMessage], real: str, messages: int) -> EncodedChat:
        """The template changed the messages beyond recognition: tokenize its text as it is."""
        ids = tuple(self._tokenizer.encode(real, add_special_tokens=False).ids)
        counts = [0] * messages
        if counts:
            counts[-1] = len(ids)
        lost = "the chat template rewrote earlier messages" if any(turn.token_ids for turn in turns) else None
        return EncodedChat(ids, 0 if counts else len(ids), tuple(counts), 0, lost)


def _contents_as_rendered(turns: Sequence[ChatMessage], glue: Sequence[str], real: str) -> list[str] | None:
    """Each message's text as the template wrote it: as given, or without surrounding space; else None."""
    if not glue:
        return None
    for contents in ([turn.text for turn in turns], [turn.text.strip() for turn in turns]):
        woven = "".join(part for pair in zip(glue, [*contents, ""], strict=True) for part in pair)
        if woven == real:
            return contents
    return None


def _why_lost(turns: Sequence[ChatMessage], own_ids: Sequence[tuple[int, ...] | None]) -> str | None:
    lost = sum(turn.token_ids is not None and ids is None for turn, ids in zip(turns, own_ids, strict=True))
    if not lost:
        return None
    replies = "reply stands" if lost == 1 else "replies stand"
    return f"{lost} earlier {replies} in the prompt with other text than was generated"
