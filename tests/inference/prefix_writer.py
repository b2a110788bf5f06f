"""Stores blocks until it is killed, and says so first: `python -m tests.inference.prefix_writer FOLDER`."""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path

import numpy as np

from inference.block_files import StoredBlock, root_name
from inference.prefix_store import PrefixStore

KEY = "model"


def main(folder: Path) -> None:
    store = PrefixStore(folder, 10**9)
    store.open()
    for number in count():
        block = StoredBlock(KEY, root_name(KEY), (number,))
        store.claim({block.name: frozenset({"a"})})
        store.write(block, {"keys": np.full(400_000, number, np.int32)})
        print(number, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
