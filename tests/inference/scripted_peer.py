"""A peer process that computes nothing. Its model's file name says how it behaves; beside that file it writes
down what it was asked.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path


def outcome(work: dict[str, object]) -> dict[str, object]:
    """Prefill at 100 tokens/s, first token after half a second, 10 tokens/s from there."""
    prompts, count, history = work["prompts"], work["new_tokens"], work["history"]
    assert isinstance(prompts, list)
    assert isinstance(count, int)
    assert isinstance(history, list)
    run = {
        "submitted_s": 1.0,
        "points": [(1.5 + i / 10, i + 1) for i in range(count)],
        "prefill_tok_s": 100.0,
        "cached_tokens": len(history),
    }
    return {"runs": [run] * len(prompts), "peak_mb": 123}


def main() -> None:
    hello = json.loads(sys.stdin.readline())
    model = Path(hello["model"])
    print(json.dumps({"engine": f"Scripted on {hello['threads']} threads"}), flush=True)
    for line in sys.stdin:
        work = json.loads(line)
        with model.with_suffix(".log").open("a") as log:
            log.write(f"{os.getpid()} {work['kind']}\n")
        match model.stem:
            case "dies":
                os._exit(7)
            case "babbles":
                print("loading weights ...", flush=True)
            case "complains":
                print(json.dumps({"error": "RuntimeError: out of beans"}), flush=True)
            case _:
                print(json.dumps({"outcome": outcome(work)}), flush=True)


main()
