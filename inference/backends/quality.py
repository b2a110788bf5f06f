"""What quantization costs: `python -m inference.backends.quality [MODEL]`.

Prints the mean Kullback-Leibler divergence, in nats per token, of the next-token distribution of the model
as Ondol runs it from the same model in float32, over a fixed English text of about 500 tokens. Source of the
measure: Kullback and Leibler, "On Information and Sufficiency" (1951); 0 means that quantization changed
nothing.
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import numpy as np
import numpy.typing as npt
import platformdirs
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from inference.backends import load_backend
from inference.backends.base import Logits
from inference.backends.loading import save_full_precision
from inference.bench.peer import Peer, PeerProcess
from inference.bench.work import Prediction
from inference.config import BackendChoice, EngineConfig
from inference.errors import BenchFailed
from inference.models.catalogue import DEFAULT_MODEL
from inference.models.folders import private_folder
from inference.models.locate import prepare
from inference.models.prepared import PreparedModel
from inference.tokenization import ChatTokenizer
from inference.types import ModelStatus

TEXT = """
A house in the north of Korea was built around its kitchen fire. The hearth stood lower than the rooms,
and from it channels of stone ran under the floors. Smoke and hot air passed through them on the way to
the chimney, which stood at the far side of the house, and so the heat that had cooked the rice was used
a second time before it left. The stones were covered with clay, and the clay with sheets of oiled paper
that grew golden over the years. The place nearest to the hearth was the warmest, and it was given to the
oldest person in the house or to a guest who had come through the snow.

The builders knew several things that an engineer would put into numbers today. Thick stones take long to
become warm, but they stay warm for many hours; thin ones are quick in both. So the stones near the fire
were thick, since the flames would have burned through thin ones, and those at the far end were thin, so
that the little heat that reached them came up at once. The channels rose gently away from the fire,
because hot air wants to climb, and behind the chimney there was a pit where ash and rain could fall
without putting out the draught. One fire in the evening was enough for the night. Nobody had to get up
to feed it, and nobody breathed its smoke.

A computer at home can be thought of in the same way. Reading a long question is like heating the stones:
it costs most of the work, and it is done before the first word of an answer appears. If the machine
forgot everything after each answer, the stones would have to be heated again for the next question,
although almost all of it had been read a moment ago. If it keeps what it has computed, only the new
words cost anything. Several people may share the same warm floor, as long as the beginning of what they
ask is the same. The cost of keeping the heat is room: every word that stays warm takes some memory, and
when there is no more room, something has to grow cold. It is best to let go of what has not been used
for the longest time, and to keep what everybody stands on. And whoever tends the fire should be able to
see at any time how warm the floor is, what has been read, what was only remembered, and what the next
question is going to cost. A floor that gives no account of itself is only warm or cold; one that does can
be kept at the right warmth with half of the wood.
"""


def mean_divergence(reference: Logits, logits: Logits) -> float:
    """Mean over positions of KL(reference || logits) of the next-token distributions, in nats.

    Both have the shape [positions, vocab].
    """
    divergences = []
    for row, other in zip(reference, logits, strict=True):  # one by one: all in float64 would be large
        p, q = _log_softmax(row), _log_softmax(other)
        divergences.append(float(np.exp(p) @ (p - q)))
    return float(np.mean(divergences))


def full_precision_logits(prepared: PreparedModel, models_dir: Path, token_ids: Sequence[int]) -> Logits:
    """What transformers computes in float32 on the model's weights, dequantized: [tokens, vocab]."""
    with torch.inference_mode():
        output = _full_precision(prepared, models_dir)(torch.tensor([list(token_ids)]))
    logits: Logits = output.logits[0].float().numpy()
    return logits


def measure(model: str, models_dir: Path, backend: BackendChoice = "auto") -> list[str]:
    """Lines to print."""
    prepared = prepare(model, models_dir=models_dir, progress=_ignore, cancelled=threading.Event())
    token_ids = ChatTokenizer.load(prepared).encode_text(" ".join(TEXT.split()))
    config = EngineConfig(model=model, models_dir=models_dir, backend=backend)
    loaded = load_backend(prepared, config, _ignore)
    logits = loaded.decode([loaded.create_kv(len(token_ids))], [token_ids])
    divergence = mean_divergence(full_precision_logits(prepared, models_dir, token_ids), logits)
    what = loaded.description
    return [
        f"{what.name}: {what.quantization}",
        f"{what.backend}, computed in {what.compute_dtype}, over {len(token_ids)} tokens",
        f"mean KL divergence from float32: {divergence:.4f} nats per token",
    ]


def peer_divergence(model: str, models_dir: Path, peer: Peer) -> list[str]:
    """The same of another engine on the same GGUF file, to print. Raises `BenchFailed`."""
    prepared = prepare(model, models_dir=models_dir, progress=_ignore, cancelled=threading.Event())
    if prepared.gguf is None:
        raise BenchFailed(f"{peer.name} reads GGUF files, and {prepared.name} is none.")
    token_ids = ChatTokenizer.load(prepared).encode_text(" ".join(TEXT.split()))
    reference = full_precision_logits(prepared, models_dir, token_ids)
    with private_folder(models_dir) as folder, PeerProcess(peer, prepared.gguf, threads=2) as process:
        file = folder / "rows"
        process.predict(Prediction(token_ids, reference.shape[1], str(file)))
        rows = np.fromfile(file, dtype=np.float32).reshape(reference.shape)
    divergence = mean_divergence(reference, rows)
    return [f"{process.engine}: {divergence:.4f} nats per token"]


def _log_softmax(row: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    shifted = row.astype(np.float64) - row.max()
    logs: npt.NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum())
    return logs


def _full_precision(prepared: PreparedModel, models_dir: Path) -> PreTrainedModel:
    if prepared.gguf is None:
        return _load(prepared.folder)
    with private_folder(models_dir) as folder:
        save_full_precision(prepared, prepared.gguf, folder / "full", torch.float32)
        return _load(folder / "full")


def _load(folder: Path) -> PreTrainedModel:
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, local_files_only=True, use_safetensors=True
    )
    return model.eval()


def _ignore(status: ModelStatus) -> None:
    return


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("model", nargs="?", default=DEFAULT_MODEL)
    default_dir = platformdirs.user_cache_path("ondol", appauthor=False) / "models"
    arguments.add_argument("--models-dir", type=Path, default=default_dir)
    arguments.add_argument("--backend", choices=get_args(BackendChoice), default="auto")
    arguments.add_argument("--peer-python", help="a Python that has llama.cpp, measured on the same file")
    options = arguments.parse_args()
    print("\n".join(measure(options.model, options.models_dir, options.backend)))
    if options.peer_python:
        print("\n".join(peer_divergence(options.model, options.models_dir, Peer(options.peer_python))))
