"""What the page says of the model that runs."""

from __future__ import annotations

from dataclasses import replace

from inference.memory import MemoryPlan
from tests.inference.doubles import ScriptedBackend, chat_tokenizer
from web.languages import load_languages
from web.wording import runs_in_words

PLAN = MemoryPlan(kv_tokens=10_000, window=512, max_sequences=4, prefix_cache_bytes=2**20)


def test_kernels_and_what_would_make_it_faster_are_told() -> None:
    model = replace(
        ScriptedBackend(chat_tokenizer(), str).description,
        backend="native",
        kernels="AVX2",
        device="cpu",
        threads=2,
        compute_dtype="int8/float32",
        quantization="Q8_0 in blocks of 32, as in the file: 12 million weights",
    )
    by_code = {language.code: language for language in load_languages()}
    english, korean = by_code["en"], by_code["ko"]
    said = runs_in_words(english, model, PLAN)
    assert "native (AVX2) on CPU, 2 threads" in said
    assert "파일 그대로 32개씩 묶은 Q8_0: 가중치 12백만 개" in runs_in_words(korean, model, PLAN)
    note = "The native kernels are not compiled: install a C compiler (gcc) and install Ondol again."
    slow = replace(model, backend="transformers + bitsandbytes", kernels="", note=note)
    assert runs_in_words(english, slow, PLAN).endswith(note)
    assert "네이티브 커널이 컴파일되어 있지 않아요" in runs_in_words(korean, slow, PLAN)
