"""Text to token ids and back, exactly as the model sees them. Torch-free; shared by threads, never
changed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from tokenizers import Tokenizer

from inference.chat_layout import Layout, Place, lay_out, mark_messages
from inference.chat_template import ChatTemplate
from inference.detokenizer import REPLACEMENT
from inference.errors import ModelUnusable, TemplateFailed
from inference.folding import Folded
from inference.models.prepared import PreparedModel
from inference.pieces import Pieces
from inference.types import ChatMessage

HEAD, GENERATION = -1, -2
"""Owners of what belongs to no message."""

OTHER_TEXT = "the last reply stands in the prompt with other text than was generated"
OTHER_OPENING = "the chat template begins earlier replies in another way than new ones"
REASONING_LEFT_OUT = "the chat template leaves out the reasoning of earlier replies"


@dataclass(frozen=True, slots=True)
class EncodedChat:
    """A rendered chat as token ids.

    counts[i] is how many of the ids belong to message i, closing text included; `head` ids come before the
    first message (text that the template inserts, BOS), `generation` ids after the last (the generation
    prompt). `head` + sum(counts) + `generation` is the number of ids. `reuse_lost` says why the prompt does
    not go on from what was computed for the last reply.
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


@dataclass(frozen=True, slots=True)
class Splice:
    """Generated ids that take the place of the last `characters` of a reply."""

    ids: tuple[int, ...]
    characters: int


class ChatTokenizer:
    """The model's tokenizer and chat template together."""

    def __init__(self, tokenizer: Tokenizer, literal: Tokenizer, template: ChatTemplate) -> None:
        self._tokenizer = tokenizer
        self._literal = literal
        self.template = template
        specials = {i: t.content for i, t in tokenizer.get_added_tokens_decoder().items() if t.special}
        self._special_texts = tuple(specials.values())
        # Marks of reasoning are read from the text, so they stay in it even where they are special tokens.
        marks = template.reasoning()
        shown = (marks.opening, marks.closing) if marks else ()
        self._hidden = frozenset(i for i, text in specials.items() if text not in shown)
        self._vocabulary = tokenizer.get_vocab_size(with_added_tokens=True)
        self._some_ids = self.encode_text("a")

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
        template.default_system()  # probed here, on the worker, and known to everyone after
        return cls(tokenizer, literal, template)

    @property
    def template_hash(self) -> str:
        """The first 12 hex digits of the SHA-256 of the template, and of the day where it writes that."""
        dated = f"{self.template.source}{self.template.day or ''}"
        return sha256(dated.encode()).hexdigest()[:12]

    @property
    def template_sha256(self) -> str:
        """All 64 hex digits of the SHA-256 of the template as it came with the model."""
        return sha256(self.template.source.encode()).hexdigest()

    @cached_property
    def pieces(self) -> Pieces:
        """What single tokens are."""
        return Pieces(self._tokenizer)

    def encode_text(self, text: str) -> tuple[int, ...]:
        """Ids of plain text: special tokens spelled in it count as ordinary characters."""
        return tuple(self._literal.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, special tokens left out. Incomplete characters show as U+FFFD: never for display."""
        shown = [token_id for token_id in ids if token_id not in self._hidden]
        return str(self._tokenizer.decode(shown, skip_special_tokens=False))

    def knows(self, ids: Sequence[int]) -> bool:
        """Whether all of them are in the vocabulary: ids that were imported may be anything."""
        return not ids or (min(ids) >= 0 and max(ids) < self._vocabulary)

    def encode_chat(
        self,
        messages: Sequence[ChatMessage],
        *,
        generation_prompt: bool = True,
        thinking: bool | None = None,
    ) -> EncodedChat:
        """Render and tokenize a chat.

        Replies that carry `token_ids` are spliced in with those ids, as far as the template still writes what
        they spell: whole, or only what follows the reasoning. Special tokens spelled inside a message are
        encoded as plain text, so that a message cannot end its own turn. Everything else is tokenized in its
        context, as transformers does.
        """
        turns = self.template.fold(messages)
        chat = [turn.message for turn in turns]
        text = self.template.render(chat, generation_prompt=generation_prompt, thinking=thinking)
        marked = mark_messages(self.template, chat, generation_prompt, thinking)
        layout = lay_out(marked, chat, text)
        if layout is None:
            return self._encode_rewritten(chat, text, len(messages))
        pieces = list(self._pieces(turns, layout))
        lost = self._why_lost(chat, layout, text, thinking)
        return self._encode_pieces(pieces, len(messages), lost)

    def _pieces(self, turns: Sequence[Folded], layout: Layout) -> Iterator[_Piece]:
        owner = -1
        for index, (turn, place) in enumerate(zip(turns, layout.turns, strict=True)):
            closing, opening = self._split_glue(
                place.before, turns[index - 1].message.role if index else None
            )
            yield _Piece(closing, owner)
            owner = turn.indices[0]
            splice = self._splice(turn.message, place)
            if splice is not None:
                kept = len(place.before) + len(place.body) - splice.characters - len(closing)
                yield _Piece((opening + place.body)[:kept], owner)
                yield _Piece("", owner, splice.ids)
                continue
            yield _Piece(opening, owner)
            if place.reasoning:
                yield self._content_piece(place.reasoning, owner)
                yield _Piece(place.between, owner)
            for owner, text in turn.shares(place.content):
                yield self._content_piece(text, owner)
        closing, opening = self._split_glue(layout.after, turns[-1].message.role if turns else None)
        yield _Piece(closing, owner)
        yield _Piece(opening, GENERATION)

    def _content_piece(self, text: str, owner: int) -> _Piece:
        return _Piece(text, owner, literal=any(special in text for special in self._special_texts))

    def _split_glue(self, glue: str, previous_role: str | None) -> tuple[str, str]:
        if previous_role is None:
            return self._split_head(glue)
        suffix = self.template.suffixes[previous_role]
        return (suffix, glue[len(suffix) :]) if glue.startswith(suffix) else ("", glue)

    def _split_head(self, glue: str) -> tuple[str, str]:
        """Text before the first message: what the template inserts by itself, then that message's opening."""
        head, closing, opening = glue.rpartition(self.template.suffixes["system"] or "\ue000")
        return head + closing, opening

    def _splice(self, message: ChatMessage, place: Place) -> Splice | None:
        """The generated ids that still spell the end of what the template wrote for a reply."""
        if message.role != "assistant" or not message.token_ids or not self.knows(message.token_ids):
            return None
        written = place.before + place.body
        for spelled in self._spellings(message.token_ids):
            # Not past the text itself: what stands before it is the template's.
            if written.endswith(spelled) and len(spelled) >= len(place.content):
                return Splice(message.token_ids, len(spelled))
        return self._splice_answer(message.token_ids, place.content) if message.reasoning else None

    def _spellings(self, ids: tuple[int, ...]) -> tuple[str, str]:
        """What ids say after other text, and by themselves: some tokenizers drop a space at the beginning."""
        # Bytes that never became a character are not in the text, but the model did write them.
        after = self.decode((*self._some_ids, *ids)).removeprefix(self.decode(self._some_ids))
        return after.replace(REPLACEMENT, ""), self.decode(ids).replace(REPLACEMENT, "")

    def _splice_answer(self, ids: tuple[int, ...], content: str) -> Splice | None:
        """The last ids, those that spell the answer alone."""
        low, high = 0, len(ids)
        while low < high:
            middle = (low + high) // 2
            if len(self._spellings(ids[middle:])[0]) > len(content):
                low = middle + 1
            else:
                high = middle
        fits = low < len(ids) and content and self._spellings(ids[low:])[0] == content
        return Splice(ids[low:], len(content)) if fits else None

    def _why_lost(
        self, chat: Sequence[ChatMessage], layout: Layout, text: str, thinking: bool | None
    ) -> str | None:
        """Why the prompt does not go on from the last reply's own tokens. Earlier ones are not asked about:
        the prompt of the last one had them as they are now.
        """
        index = next((i for i in range(len(chat) - 1, -1, -1) if chat[i].role == "assistant"), None)
        if index is None or not chat[index].token_ids:
            return None
        reply, place = chat[index], layout.turns[index]
        splice = self._splice(reply, place)
        if splice is None or splice.ids != reply.token_ids:
            left_out = bool(reply.reasoning) and not place.reasoning
            return REASONING_LEFT_OUT if left_out else OTHER_TEXT
        was_thinking = thinking if reply.thinking is None else reply.thinking
        try:
            prompt = self.template.render(chat[:index], generation_prompt=True, thinking=was_thinking)
        except TemplateFailed:
            return OTHER_OPENING
        here = text[: layout.end_of(index) - splice.characters]
        return None if here == prompt else OTHER_OPENING

    def _encode_pieces(self, pieces: Sequence[_Piece], messages: int, lost: str | None) -> EncodedChat:
        ids: list[int] = []
        counts = [0] * (messages + 2)  # the last two are the generation prompt and the head: owners -2 and -1
        run: list[_Piece] = []

        def flush() -> None:
            for token, owner in self._encode_run(run):
                ids.append(token)
                counts[owner] += 1
            run.clear()

        for piece in pieces:
            if piece.ids is None and not piece.literal:
                run.append(piece)
                continue
            flush()
            own = piece.ids if piece.ids is not None else self.encode_text(piece.text)
            ids.extend(own)
            counts[piece.owner] += len(own)
        flush()
        return EncodedChat(tuple(ids), counts[HEAD], tuple(counts[:messages]), counts[GENERATION], lost)

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

    def _encode_rewritten(self, chat: Sequence[ChatMessage], text: str, messages: int) -> EncodedChat:
        """The template changed the messages beyond recognition: tokenize its text as it is."""
        ids = tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)
        counts = [0] * messages
        if counts:
            counts[-1] = len(ids)
        lost = "the chat template rewrote earlier messages" if any(turn.token_ids for turn in chat) else None
        return EncodedChat(ids, 0 if counts else len(ids), tuple(counts), 0, lost)
