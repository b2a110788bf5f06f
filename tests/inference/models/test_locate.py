from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from inference.errors import ModelNotFound, ModelUnavailable, ModelUnusable
from inference.models.catalogue import CATALOGUE, DEFAULT_MODEL
from inference.models.locate import Sources
from tests.inference.models.conftest import Preparing
from tests.inference.models.examples import random_weights, tiny_config, write_folder, write_gguf
from tests.inference.models.fake_hub import FakeHub


def failing(requirement: str, folder: Path) -> list[str]:
    return [sys.executable, "-c", "import sys; sys.exit('ERROR: the index does not answer')"]


def test_a_path_wins_over_a_repository(
    tmp_path: Path, preparing: Preparing, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_folder(tmp_path / "owner" / "name")
    monkeypatch.chdir(tmp_path)
    model = preparing("owner/name", Sources(hub_endpoint=hub.endpoint))
    assert model.folder == Path("owner/name")
    assert hub.requests == []


def test_the_catalogue_wins_over_a_path(
    tmp_path: Path, preparing: Preparing, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_folder(tmp_path / DEFAULT_MODEL)
    hub.folders[CATALOGUE[DEFAULT_MODEL].repo] = write_folder(tmp_path / "served")
    monkeypatch.chdir(tmp_path)
    sources = Sources(failing, hub.endpoint)
    assert preparing(DEFAULT_MODEL, sources).folder.is_relative_to(preparing.models_dir)
    assert preparing(f"./{DEFAULT_MODEL}", sources).folder == Path(DEFAULT_MODEL)


@pytest.mark.parametrize(
    "source",
    [
        "./missing",
        "/no/such/folder",
        "~/no-such-model",
        "missing.gguf",
        "a/b/c",
        "../x",
        "C:\\models\\x",
        "~nobody-has-this-name/x",
    ],
)
def test_a_missing_path_is_never_looked_for_on_the_hub(
    preparing: Preparing, hub: FakeHub, source: str
) -> None:
    with pytest.raises(ModelNotFound, match="no file or folder"):
        preparing(source, Sources(hub_endpoint=hub.endpoint))
    assert hub.requests == []


@pytest.mark.parametrize(
    "source", ["", "nonsense", "two words/here", "owner/", "a\0b", "owner/na me", "x" * 5000]
)
def test_anything_else_is_told_what_there_is(preparing: Preparing, source: str) -> None:
    with pytest.raises(ModelNotFound, match=DEFAULT_MODEL):
        preparing(source)


def test_one_weights_file_or_another_file_is_refused(tmp_path: Path, preparing: Preparing) -> None:
    folder = write_folder(tmp_path / "model")
    with pytest.raises(ModelUnusable, match="give the folder"):
        preparing(folder / "model.safetensors")
    with pytest.raises(ModelUnusable, match=r"\.gguf file, or a folder"):
        preparing(folder / "config.json")


def test_a_folder_of_gguf_files_says_to_name_one(tmp_path: Path, preparing: Preparing) -> None:
    folder = write_folder(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    write_gguf(folder / "m.gguf", random_weights(tiny_config()))
    with pytest.raises(ModelUnusable, match=r"\.gguf files; give the path"):
        preparing(folder)


def test_the_hub_is_the_default_models_second_source(
    tmp_path: Path, preparing: Preparing, hub: FakeHub
) -> None:
    entry = CATALOGUE[DEFAULT_MODEL]
    hub.folders[entry.repo] = write_folder(tmp_path / "served")
    model = preparing(DEFAULT_MODEL, Sources(failing, hub.endpoint))
    assert (model.name, model.source, model.gguf) == (entry.name, DEFAULT_MODEL, None)
    assert (model.defaults, model.keep_full_precision) == (entry.defaults, ("v_proj", "k_proj"))
    hub.requests.clear()
    assert preparing(DEFAULT_MODEL, Sources(failing, hub.endpoint)) == model
    assert hub.requests == []


def test_both_reasons_are_given_when_neither_source_works(preparing: Preparing, hub: FakeHub) -> None:
    with pytest.raises(
        ModelUnavailable, match="the index does not answer.*The Hub has no model HuggingFaceTB"
    ):
        preparing(DEFAULT_MODEL, Sources(failing, hub.endpoint))


def test_a_cancelled_download_does_not_try_the_second_source(preparing: Preparing, hub: FakeHub) -> None:
    preparing.on_report = lambda status: preparing.cancelled.set()
    waiting = "import time\nwhile True: time.sleep(1)"
    with pytest.raises(ModelUnavailable, match="stopped"):
        preparing(DEFAULT_MODEL, Sources(lambda name, folder: [sys.executable, "-c", waiting], hub.endpoint))
    assert hub.requests == []


def test_a_cache_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "models").touch()
    with pytest.raises(ModelUnavailable, match="models"):
        Preparing(tmp_path / "models")(DEFAULT_MODEL)


def test_importing_the_package_loads_nothing_heavy() -> None:
    root = Path(__file__).parents[3]
    script = "import sys, inference.models.locate; print(*sys.modules)"
    printed = subprocess.run(
        [sys.executable, "-c", script], check=True, cwd=root, capture_output=True, text=True
    )
    heavy = {"torch", "transformers", "numpy", "gguf", "tokenizers", "huggingface_hub"}
    assert heavy.isdisjoint(printed.stdout.split())
