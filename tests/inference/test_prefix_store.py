"""Stored blocks: what comes back, what is thrown away, and who may read them."""

from __future__ import annotations

import json
import os
import pickle
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from inference.block_files import StoredBlock, root_name
from inference.prefix_store import INDEX, PrefixStore
from tests.inference.prefix_writer import KEY

ROOT = Path(__file__).parents[2]
BIG = 10**9
ARRAYS = {"keys.0": np.arange(6, dtype=np.int16).reshape(1, 3, 2), "values.0": np.ones((1, 3, 2), np.float32)}


def opened(folder: Path, capacity_bytes: int = BIG) -> PrefixStore:
    store = PrefixStore(folder, capacity_bytes)
    store.open()
    return store


def write(
    store: PrefixStore, *tokens: int, owner: str = "a", after: StoredBlock | None = None
) -> StoredBlock:
    block = StoredBlock(KEY, after.name if after else root_name(KEY), tokens)
    store.claim({block.name: frozenset({owner})})
    store.write(block, ARRAYS)
    return block


def names(store: PrefixStore) -> set[str]:
    return {block.name for block in store.blocks_of(KEY)}


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {INDEX}


def file_of(folder: Path, block: StoredBlock) -> Path:
    return folder / f"{block.name}.safetensors"


def test_a_block_comes_back_bit_for_bit(tmp_path: Path) -> None:
    first = write(opened(tmp_path), 1, 2, 3)
    store = opened(tmp_path)
    (block,) = store.blocks_of(KEY)
    assert (block.name, block.tokens, block.parent) == (first.name, (1, 2, 3), root_name(KEY))
    assert store.owners_of(block.name) == {"a"}
    arrays = store.read(block)
    assert arrays is not None
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(arrays[name], array)


def test_only_the_owner_may_read_what_is_stored(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "prefix-cache"
    folder.mkdir(parents=True, mode=0o755)
    before = os.umask(0)
    try:
        write(opened(folder), 1)
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize("place", [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
def test_a_flipped_byte_is_found_and_the_file_removed(tmp_path: Path, place: float) -> None:
    block = write(opened(tmp_path), 1, 2, 3)
    path = file_of(tmp_path, block)
    data = bytearray(path.read_bytes())
    data[int(len(data) * place)] ^= 0x55
    path.write_bytes(data)
    store = opened(tmp_path)
    assert [store.read(b) for b in store.blocks_of(KEY)] in ([], [None])
    assert files(tmp_path) == set()


@pytest.mark.parametrize("length", [0, 1, 8, 9, 200, -1])
def test_a_truncated_file_is_removed(tmp_path: Path, length: int) -> None:
    block = write(opened(tmp_path), 1, 2, 3)
    path = file_of(tmp_path, block)
    path.write_bytes(path.read_bytes()[:length])
    store = opened(tmp_path)
    assert [store.read(b) for b in store.blocks_of(KEY)] in ([], [None])
    assert files(tmp_path) == set()


class Trap:
    """Tells when a pickle of it is read."""

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, ("sprung",)


def test_a_pickle_is_removed_and_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "cache"
    block = write(opened(folder), 1)
    file_of(folder, block).write_bytes(pickle.dumps(Trap()))
    (folder / "other.pkl").write_bytes(pickle.dumps(Trap()))
    assert names(opened(folder)) == set()
    assert files(folder) == set()
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"format": "another-program"},
        {"version": "2"},
        {"tokens": "[1, 2]"},
        {"tokens": "[-1]"},
        {"tokens": '["a"]'},
        {"tokens": "[" * 100_000},
        {"parent": root_name("another model")},
        {"crc32": "00000000"},
    ],
)
def test_a_block_that_is_not_what_it_says_is_removed(tmp_path: Path, change: dict[str, str]) -> None:
    block = write(opened(tmp_path), 1, 2, 3)
    path = file_of(tmp_path, block)
    data = path.read_bytes()
    metadata = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
    save_file(ARRAYS, path, {**metadata, **change})
    store = opened(tmp_path)
    assert [store.read(b) for b in store.blocks_of(KEY)] in ([], [None])
    assert files(tmp_path) == set()


def test_another_models_block_under_this_models_name_is_removed(tmp_path: Path) -> None:
    store = opened(tmp_path)
    mine, other = write(store, 1), StoredBlock("other", root_name("other"), (1,))
    store.claim({other.name: frozenset({"a"})})
    store.write(other, ARRAYS)
    file_of(tmp_path, other).replace(file_of(tmp_path, mine))
    assert opened(tmp_path).blocks_of(KEY) == []
    assert files(tmp_path) == set()


def test_another_models_blocks_are_kept_but_not_given(tmp_path: Path) -> None:
    write(opened(tmp_path), 1)
    store = opened(tmp_path)
    assert store.blocks_of("other") == []
    assert len(files(tmp_path)) == 1


def test_foreign_files_are_removed_and_folders_and_what_links_lead_to_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    write(opened(folder), 1)
    (folder / "notes.txt").write_text("mine")
    (folder / "below").mkdir()
    (folder / "below" / "kept").touch()
    (tmp_path / "outside").write_text("kept")
    (folder / ("0" * 64 + ".safetensors")).symlink_to(tmp_path / "outside")
    kept = names(opened(folder))
    assert len(kept) == 1
    assert files(folder) == {"below", *(f"{name}.safetensors" for name in kept)}
    assert (folder / "below" / "kept").exists()
    assert (tmp_path / "outside").read_text() == "kept"


@pytest.mark.parametrize("index", ["", "{", "[]", '{"version": 9, "owners": {}}', "[" * 100_000, None])
def test_blocks_of_nobody_are_removed(tmp_path: Path, index: str | None) -> None:
    write(opened(tmp_path), 1)
    if index is None:
        (tmp_path / INDEX).unlink()
    else:
        (tmp_path / INDEX).write_text(index)
    assert names(opened(tmp_path)) == set()
    assert files(tmp_path) == set()


def test_the_bound_holds_and_the_least_recently_used_go_first(tmp_path: Path) -> None:
    store = opened(tmp_path)
    blocks = [write(store, number) for number in range(6)]
    size = blocks[0].nbytes
    store.touch([blocks[0].name])
    store = opened(tmp_path, 4 * size + 10)
    assert names(store) == {blocks[i].name for i in (0, 3, 4, 5)}
    for number in range(10, 20):
        write(store, number)
        assert sum(path.stat().st_size for path in tmp_path.glob("*.safetensors")) <= 4 * size + 10
    assert len(files(tmp_path)) == 4


def test_forgetting_leaves_what_others_own(tmp_path: Path) -> None:
    store = opened(tmp_path)
    shared, own = write(store, 1), write(store, 2)
    store.claim({shared.name: frozenset({"a", "minji/b"})})
    store = opened(tmp_path)
    store.forget("a", {})
    assert names(store) == names(opened(tmp_path)) == {shared.name}
    assert json.loads((tmp_path / INDEX).read_text())["owners"] == {shared.name: ["minji/b"]}
    assert not file_of(tmp_path, own).exists()
    store.forget("b", {})
    assert files(tmp_path) == set()


@pytest.mark.parametrize("lines", [0, 1, 2, 5, 9])
def test_a_killed_writer_leaves_nothing_half(tmp_path: Path, lines: int) -> None:
    command = [sys.executable, "-m", "tests.inference.prefix_writer", str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        said = [writer.stdout.readline() for _ in range(lines)]
        writer.kill()
        said += writer.stdout.readlines()
    store = opened(tmp_path)
    blocks = store.blocks_of(KEY)
    assert len(blocks) >= len([line for line in said if line.endswith("\n")])
    for block in blocks:
        arrays = store.read(block)
        assert arrays is not None
        assert (arrays["keys"] == block.tokens[0]).all()
    assert files(tmp_path) == {f"{block.name}.safetensors" for block in blocks}
