"""Stand-ins for a model: a byte tokenizer, and a backend that computes nothing but can tell right KV from
wrong.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from inference.backends.base import BlockArrays, Logits
from inference.chat_template import ChatTemplate
from inference.config import EngineConfig
from inference.models.prepared import PreparedModel, Progress
from inference.tokenization import ChatTokenizer
from inference.types import ModelDescription, SamplingParams

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CHATML_WITH_OWN_SYSTEM = (
    "{% if messages[0]['role'] != 'system' %}<|im_start|>system\nBe kind.<|im_end|>\n{% endif %}" + CHATML
)
OPENING = "assistant\n"
SPECIALS = ("<|im_start|>", "<|im_end|>")
VOCAB_SIZE = 256 + len(SPECIALS)
START, END = 256, 257
NUL = "\0"
GIVEN_BACK = -1


def byte_tokenizer() -> Tokenizer:
    """One token a byte, and the two special tokens of ChatML."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIALS])
    return tokenizer


def chat_tokenizer(template: str = CHATML) -> ChatTokenizer:
    """The byte tokenizer with a chat template."""
    literal = byte_tokenizer()
    literal.encode_special_tokens = True
    return ChatTokenizer(byte_tokenizer(), literal, ChatTemplate(template))


def prepare_double(folder: Path, *, window: int = 512, template: str = CHATML) -> PreparedModel:
    """A model that has a tokenizer and nothing else."""
    folder.mkdir(parents=True, exist_ok=True)
    byte_tokenizer().save(str(folder / "tokenizer.json"))
    return PreparedModel(
        folder=folder,
        gguf=None,
        name="Double",
        source="double",
        context_window=window,
        chat_template=template,
        bos_token="",
        eos_token="<|im_end|>",
        eos_token_ids=(END,),
        defaults=SamplingParams(temperature=0),
    )


@dataclass
class TokenKV:
    """Instead of keys and values: the tokens that they would be of."""

    tokens: list[int] = field(default_factory=list)

    @property
    def length(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True)
class TokenBlock:
    tokens: tuple[int, ...]

    @property
    def length(self) -> int:
        return len(self.tokens)

    @property
    def nbytes(self) -> int:
        return 100 * len(self.tokens)


class ScriptedBackend:
    """Continues a prompt with whatever `reply` says for its whole text, byte by byte, then ends.

    A NUL in the reply stands for logits that are not a number. `computed` counts the tokens of every prefill
    chunk; `pace`, when given, has to be released once a step. `fail_with` is raised by the next step,
    `fail_copies_with` by the next copy of a block. `opening` is what the generation prompt says after its
    first token.
    """

    def __init__(
        self,
        tokenizer: ChatTokenizer,
        reply: Callable[[str], str],
        *,
        window: int = 512,
        pace: threading.Semaphore | None = None,
        opening: str = OPENING,
    ) -> None:
        self._opening = tokenizer.encode_text(opening)
        self.computed: list[int] = []
        self.batches: list[int] = []
        self.pace = pace
        self.fail_with: BaseException | None = None
        self.fail_copies_with: Exception | None = None
        self._tokenizer = tokenizer
        self._nul = tokenizer.encode_text(NUL)[0]
        self._reply = reply
        self.description = ModelDescription(
            name="Double",
            source="double",
            backend="scripted",
            device="none",
            quantization="none",
            compute_dtype="none",
            parameters=0,
            weight_bytes=0,
            context_window=window,
            kv_bytes_per_token=100,
            vocab_size=VOCAB_SIZE,
            threads=1,
            free_bytes=2**30,
            eos_token_ids=(END,),
        )

    def create_kv(self, tokens: int = 0) -> TokenKV:
        return TokenKV()

    def prefill(self, kv: TokenKV, token_ids: Sequence[int], *, logits: bool) -> Logits | None:
        self._step()
        self.computed.append(len(token_ids))
        kv.tokens.extend(token_ids)
        return self._next(kv) if logits else None

    def decode(self, kvs: Sequence[TokenKV], runs: Sequence[Sequence[int]]) -> Logits:
        self._step()
        self.batches.append(len(kvs))
        rows = []
        for kv, run in zip(kvs, runs, strict=True):
            for token in run:
                kv.tokens.append(token)
                rows.append(self._next(kv))
        return np.stack(rows)

    def truncate(self, kv: TokenKV, length: int) -> None:
        del kv.tokens[length:]

    def copy_block(self, kv: TokenKV, start: int, stop: int) -> TokenBlock:
        if self.fail_copies_with is not None:
            error, self.fail_copies_with = self.fail_copies_with, None
            raise error
        return TokenBlock(tuple(kv.tokens[start:stop]))

    def move_block(self, kv: TokenKV, start: int, stop: int) -> TokenBlock:
        block = self.copy_block(kv, start, stop)
        kv.tokens[:stop] = [GIVEN_BACK] * stop
        return block

    def append_blocks(self, kv: TokenKV, parts: Sequence[tuple[TokenBlock, int]]) -> None:
        for block, length in parts:
            kv.tokens.extend(block.tokens[:length])

    def block_to_arrays(self, block: TokenBlock) -> BlockArrays:
        return {"tokens": np.array(block.tokens, np.int32)}

    def block_from_arrays(self, arrays: BlockArrays) -> TokenBlock:
        if arrays.keys() != {"tokens"}:
            raise ValueError("no block of the double")
        return TokenBlock(tuple(arrays["tokens"].tolist()))

    def close(self) -> None:
        self.closed = True

    def _step(self) -> None:
        if self.pace is not None:
            self.pace.acquire()
        if self.fail_with is not None:
            error, self.fail_with = self.fail_with, None
            raise error

    def _next(self, kv: TokenKV) -> Logits:
        """Certain of the next byte of the reply, judged by the tokens that the KV cache really holds."""
        start = len(kv.tokens) - kv.tokens[::-1].index(START)
        prompt = kv.tokens[: start - 1]
        said = kv.tokens[start + len(self._opening) :]
        planned = self._tokenizer.encode_text(self._reply(self._tokenizer.decode(prompt)))
        token = planned[len(said)] if len(said) < len(planned) else END
        if token == self._nul:
            return np.full(VOCAB_SIZE, np.nan, dtype=np.float32)
        return np.eye(VOCAB_SIZE, dtype=np.float32)[token] * 100


def engine_config(folder: Path, **changes: object) -> EngineConfig:
    """A small engine: short chunks and no drafts, so that few tokens make many steps."""
    values: dict[str, object] = {
        "model": "double",
        "models_dir": folder,
        "system_prompt": "Be brief.",
        "prefill_chunk": 16,
        "max_sequences": 2,
        "max_waiting": 2,
        "speculation": "off",
    }
    return EngineConfig(**{**values, **changes})  # type: ignore[arg-type]


def no_progress(*_: object) -> None:
    """Progress that nobody looks at."""


def scripted_loader(
    reply: Callable[[str], str],
    made: list[ScriptedBackend],
    pace: threading.Semaphore | None = None,
    opening: str = OPENING,
    kind: type[ScriptedBackend] = ScriptedBackend,
) -> Callable[[PreparedModel, EngineConfig, Progress], ScriptedBackend]:
    """A `LoadBackend` that makes a scripted backend and leaves it in `made`."""

    def load(prepared: PreparedModel, config: EngineConfig, progress: Progress) -> ScriptedBackend:
        backend = kind(
            ChatTokenizer.load(prepared), reply, window=prepared.context_window, pace=pace, opening=opening
        )
        made.append(backend)
        return backend

    return load
