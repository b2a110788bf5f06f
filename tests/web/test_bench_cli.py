"""`ondol bench`: what it prints and what it refuses. No test looks at a figure's size."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from inference.bench.peer import Peer
from inference.bench.rounds import Figures
from inference.bench.work import Prompts
from inference.errors import BenchFailed
from inference.memory import MemoryPlan
from inference.types import ModelDescription
from tests.inference.bench_doubles import SMALL, endless, scripted_peer
from web.bench import run_bench
from web.bench_report import OWN, Result, as_table, heading, label
from web.settings import Settings

ONDOL = Path(sys.executable).with_name("ondol")
FIGURES = {
    "decode_tok_s": {"8", "16"},
    "prefill_tok_s": {"16"},
    "cached_ttft_ms": None,
    "cold_ttft_ms": None,
    "batch4_tok_s": None,
    "rss_mb": None,
    "rss4_mb": None,
}
DESCRIPTION = ModelDescription(
    name="Double",
    source="double",
    backend="scripted",
    device="none",
    quantization="4-bit [in words]",
    compute_dtype="none",
    parameters=0,
    weight_bytes=0,
    context_window=512,
    kv_bytes_per_token=100,
    vocab_size=258,
    threads=1,
    free_bytes=2**33,
)
MEMORY_PLAN = MemoryPlan(kv_tokens=10_000, window=512, max_sequences=4, prefix_cache_bytes=2**20)
WHAT_RAN = {
    "engine",
    "model",
    "quantization",
    "backend",
    "kernels",
    "device",
    "compute_dtype",
    "threads",
    "memory_plan",
    "rounds",
}


def bench(folder: Path, *, gguf: str | None = None, peer: Peer | None = None, window: int = 512) -> None:
    run_bench(
        Settings(model="double", models_dir=folder),
        rounds=1,
        peer=peer,
        as_json=True,
        plan=SMALL,
        build=endless(folder, gguf=gguf, window=window),
    )


def assert_figures(found: dict[str, Any]) -> None:
    for key, tokens in FIGURES.items():
        if tokens is None:
            assert isinstance(found[key], (int, float))
        else:
            assert set(found[key]) == tokens


def test_one_object_says_what_ran_and_every_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench(tmp_path)
    output = capsys.readouterr()
    found = json.loads(output.out)
    assert set(found) == WHAT_RAN | set(FIGURES) | set(OWN)
    assert_figures(found)
    assert found["rounds"] == 1
    assert found["memory_plan"]["max_sequences"] == 4
    assert found["memory_plan"]["window"] == 512
    assert output.err.splitlines()[-3:] == ["Round 1 of 1", "Sharing, round 1 of 1", "Memory"]


def test_the_peers_figures_and_ratios_stand_beside_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench(tmp_path, gguf="good.gguf", peer=scripted_peer())
    found = json.loads(capsys.readouterr().out)
    assert set(found) == WHAT_RAN | set(FIGURES) | set(OWN) | {"peer", "ratio"}
    assert not set(OWN) & {*found["peer"], *found["ratio"]}
    for figures in (found, found["peer"], found["ratio"]):
        assert_figures(figures)
    assert found["peer"]["engine"] == "Scripted on 1 threads"
    assert found["peer"]["prefill_tok_s"] == {"16": 100.0}
    assert found["ratio"]["rss_mb"] == pytest.approx(found["rss_mb"] / 123, abs=0.001)
    assert "above 1 is better" in found["ratio"]["note"]


def test_the_table_has_a_row_for_every_figure() -> None:
    prompts = Prompts(1_000)
    ours: Figures = {figure: 1_234.5 for figure, _ in [*SMALL.speed(prompts), *SMALL.memory(prompts)]}
    peers = dict.fromkeys(ours, 2_469.0)
    ours |= {figure: 2.5 for figure, _ in SMALL.own(prompts, (1, 2, 3))}
    result = Result(DESCRIPTION, MEMORY_PLAN, 3, ours, "Scripted 1.0", peers)
    console = Console(width=80, record=True, file=StringIO())
    console.print(heading(result), markup=False)
    console.print(as_table(result))
    text = console.export_text()
    for figure in ours:
        assert label(figure) in text
    for words in ("4-bit [", "median of 3", "Scripted 1.0", "1,234.5", "2,469.0", "0.500", "high", "low"):
        assert words in text


def test_a_peer_that_dies_ends_the_bench(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BenchFailed, match="scripted ended with exit code 7"):
        bench(tmp_path, gguf="dies.gguf", peer=scripted_peer())
    assert capsys.readouterr().out == ""


def test_a_model_that_is_no_gguf_cannot_be_given_to_the_peer(tmp_path: Path) -> None:
    with pytest.raises(BenchFailed, match=r"reads \.gguf files only and Double did not come as one"):
        bench(tmp_path, peer=scripted_peer())


def test_a_window_that_is_too_small_is_refused_with_the_numbers(tmp_path: Path) -> None:
    with pytest.raises(BenchFailed, match="has a context window of 100 tokens; the bench needs 128"):
        bench(tmp_path, window=100)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model", "nonsense"], "There is no model 'nonsense'"),
        (["--peer", "llama.cpp"], "--peer and --peer-python go together"),
        (["--peer-python", "python3"], "--peer and --peer-python go together"),
        (["--peer", "llama.cpp", "--peer-python", "/no/python"], "There is no Python at /no/python"),
    ],
)
def test_the_command_refuses_in_one_sentence(tmp_path: Path, arguments: list[str], words: str) -> None:
    environment = {**os.environ, "ONDOL_MODELS_DIR": str(tmp_path / "models")}
    result = subprocess.run(
        [ONDOL, "bench", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 1
    assert result.stderr.startswith(f"ondol: {words}")
    assert len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "models").exists()
