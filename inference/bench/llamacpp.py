"""llama.cpp under test. Run by a Python that has `xllamacpp` installed, so nothing of Ondol is imported here.

Standard input and output carry one JSON object a line. The first names the model and the threads and is
answered with the engine's name; every later one is a `Work`, answered with its `Outcome`, or a `Prediction`,
answered when its file is written (all in `work.py`).
"""

from __future__ import annotations

import array
import importlib.metadata
import json
import os
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TextIO


class LlamaCpp:
    """llama.cpp's own server, in this process. The first work decides for how many chats and which window."""

    def __init__(self, model: str, threads: int) -> None:
        import xllamacpp

        self.name = f"llama.cpp (xllamacpp {importlib.metadata.version('xllamacpp')})"
        self._library = xllamacpp
        self._model = model
        self._threads = threads
        self._server: Any = None

    def measure(self, work: dict[str, Any]) -> dict[str, Any]:
        """An `Outcome`."""
        prompts = work["prompts"]
        address = self._serve(len(prompts), work["window"])
        reuse = bool(work["history"])
        if reuse:
            complete(address, work["history"], 1, reuse)
        with ThreadPoolExecutor(len(prompts)) as pool:
            replies = [pool.submit(complete, address, ids, work["new_tokens"], reuse) for ids in prompts]
            return {"runs": [reply.result() for reply in replies], "peak_mb": peak_memory_mb()}

    def predict(self, prediction: dict[str, Any]) -> dict[str, Any]:
        """Write what is likely after every first part of some ids, a row of the vocabulary for each."""
        ids, vocab = prediction["token_ids"], prediction["vocab"]
        address = self._serve(1, len(ids) + 1)
        with open(prediction["file"], "wb") as file:
            for length in range(1, len(ids) + 1):
                row = array.array("f", [float("-inf")]) * vocab
                for token in likely(address, ids[:length], vocab):
                    row[token["id"]] = token["logprob"]
                row.tofile(file)
        return {}

    def _serve(self, chats: int, window: int) -> str:
        if self._server is None:
            params = self._library.CommonParams()
            params.model.path = self._model
            params.n_parallel = chats
            params.n_ctx = chats * window
            params.cpuparams.n_threads = params.cpuparams_batch.n_threads = self._threads
            params.port = 0
            self._server = self._library.Server(params)
        return str(self._server.listening_address)


def complete(address: str, ids: list[int], new_tokens: int, reuse: bool) -> dict[str, Any]:
    """Generate greedily from token ids; a `Run`. reuse: read and feed the prefix cache."""
    body = {
        "prompt": ids,
        "n_predict": new_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "cache_prompt": reuse,
        "stream": True,
    }
    request = urllib.request.Request(
        f"{address}/completion", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    submitted_s = time.perf_counter()
    points: list[tuple[float, int]] = []
    timings: dict[str, Any] = {}
    with urllib.request.urlopen(request) as response:
        for line in response:
            now = time.perf_counter()
            if not line.startswith(b"data: "):
                continue
            event = json.loads(line[len(b"data: ") :])
            # A token in the middle of a character has no event of its own, but is counted in the next one.
            count = event["tokens_predicted"]
            if not points or count > points[-1][1]:
                points.append((now, count))
            timings = event.get("timings", timings)
    return {
        "submitted_s": submitted_s,
        "points": points,
        "prefill_tok_s": timings.get("prompt_per_second"),
        "cached_tokens": timings.get("cache_n"),
    }


def likely(address: str, ids: list[int], count: int) -> list[dict[str, Any]]:
    """The likeliest tokens after some ids, with the logarithms of their probabilities before sampling."""
    body = {"prompt": ids, "n_predict": 1, "n_probs": count, "temperature": -1, "cache_prompt": True}
    request = urllib.request.Request(
        f"{address}/completion", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as response:
        tokens: list[dict[str, Any]] = json.load(response)["completion_probabilities"][0]["top_logprobs"]
    return tokens


def peak_memory_mb() -> int:
    """Peak resident memory of this process in MiB, from the same sources as `ours.peak_memory_mb`."""
    if os.path.exists("/proc/self/status"):
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) // 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // (1024 * 1024 if sys.platform == "darwin" else 1024)


def answer(engine: LlamaCpp | None, question: dict[str, Any]) -> tuple[LlamaCpp | None, dict[str, Any]]:
    """The engine from now on, and the answer to one line."""
    try:
        if engine is None:
            engine = LlamaCpp(question["model"], question["threads"])
            return engine, {"engine": engine.name}
        if "vocab" in question:
            return engine, engine.predict(question)
        return engine, {"outcome": engine.measure(question)}
    except ImportError as error:
        return engine, {"error": f"{sys.executable} cannot import xllamacpp: {error}. Install it there."}
    except Exception as error:
        return engine, {"error": f"{type(error).__name__}: {error}"}


def main() -> None:
    """Answer until the input ends. What the library prints must not get between the answers."""
    answers: TextIO = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    engine: LlamaCpp | None = None
    for line in sys.stdin:
        engine, reply = answer(engine, json.loads(line))
        print(json.dumps(reply), file=answers, flush=True)
    os._exit(0)  # the server's threads do not end by themselves


if __name__ == "__main__":
    main()
