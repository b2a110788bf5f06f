from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from inference.errors import ModelNotFound, ModelUnavailable, ModelUnusable
from inference.models.locate import Sources
from inference.types import ModelPhase
from tests.inference.models.conftest import Preparing
from tests.inference.models.examples import write_folder
from tests.inference.models.fake_hub import FakeHub


@pytest.fixture
def sources(hub: FakeHub, tmp_path: Path) -> Sources:
    hub.folders["someone/tiny"] = write_folder(tmp_path / "served")
    return Sources(hub_endpoint=hub.endpoint)


def test_a_repository_is_downloaded_and_described(
    hub: FakeHub, sources: Sources, preparing: Preparing
) -> None:
    model = preparing("someone/tiny", sources)
    assert (model.name, model.source, model.gguf) == ("tiny", "someone/tiny", None)
    assert model.context_window == 128
    assert model.eos_token_ids == (2,)
    served = hub.files("someone/tiny")
    assert {name: (model.folder / name).read_bytes() for name in served} == served
    assert model.folder.is_relative_to(preparing.models_dir / "hub")


def test_progress_counts_the_bytes_of_the_repository(
    hub: FakeHub, sources: Sources, preparing: Preparing
) -> None:
    preparing("someone/tiny", sources)
    total = sum(map(len, hub.files("someone/tiny").values()))
    reports = [status for status in preparing.reports if status.phase is ModelPhase.DOWNLOADING]
    assert {status.total for status in reports} == {total}
    done = [status.done for status in reports]
    assert done == sorted(done)
    assert done[-1] == total


def test_a_second_start_asks_nobody(hub: FakeHub, sources: Sources, preparing: Preparing) -> None:
    first = preparing("someone/tiny", sources)
    hub.requests.clear()
    assert preparing("someone/tiny", sources) == first
    assert hub.requests == []


def test_files_of_one_commit_are_asked_for(hub: FakeHub, sources: Sources, preparing: Preparing) -> None:
    preparing("someone/tiny", sources)
    resolved = [request for request in hub.requests if "/resolve/" in request]
    assert resolved
    assert all(hub.commit("someone/tiny") in request for request in resolved)


def test_only_what_a_model_needs_is_downloaded(hub: FakeHub, sources: Sources, preparing: Preparing) -> None:
    served = hub.folders["someone/tiny"]
    (served / "onnx").mkdir()
    for name in ("pytorch_model.bin", "onnx/config.json", "modeling_tiny.py", "consolidated.00.safetensors"):
        (served / name).write_bytes(b"not wanted")
    model = preparing("someone/tiny", sources)
    wanted = {
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    assert {file.name for file in model.folder.iterdir()} == wanted


def test_an_unknown_repository_is_not_found(sources: Sources, preparing: Preparing) -> None:
    with pytest.raises(ModelNotFound, match="no model someone/else"):
        preparing("someone/else", sources)


def test_a_gated_repository_says_what_to_do(hub: FakeHub, sources: Sources, preparing: Preparing) -> None:
    hub.gated.add("someone/gated")
    with pytest.raises(ModelNotFound, match="terms.*hf auth login"):
        preparing("someone/gated", sources)


def test_a_hub_that_does_not_answer_is_unavailable(preparing: Preparing) -> None:
    with FakeHub() as gone:
        endpoint = gone.endpoint
    with pytest.raises(ModelUnavailable, match="someone/tiny cannot be fetched"):
        preparing("someone/tiny", Sources(hub_endpoint=endpoint))


@pytest.mark.row(28)
def test_pickle_only_repositories_are_refused_before_any_download(
    hub: FakeHub, sources: Sources, preparing: Preparing
) -> None:
    served = hub.folders["someone/tiny"]
    (served / "model.safetensors").unlink()
    (served / "pytorch_model.bin").write_bytes(pickle.dumps({}))
    with pytest.raises(ModelUnusable, match="pickle"):
        preparing("someone/tiny", sources)
    assert not [request for request in hub.requests if "/resolve/" in request]


def test_gguf_only_repositories_say_how_to_use_them(
    hub: FakeHub, sources: Sources, preparing: Preparing
) -> None:
    served = hub.folders["someone/tiny"]
    (served / "model.safetensors").rename(served / "tiny.gguf")
    with pytest.raises(ModelUnusable, match="give its path"):
        preparing("someone/tiny", sources)


def test_a_cancelled_download_leaves_nothing_that_looks_whole(
    hub: FakeHub, sources: Sources, preparing: Preparing
) -> None:
    hub.held.add("model.safetensors")
    preparing.on_report = lambda status: preparing.cancelled.set()
    with pytest.raises(ModelUnavailable, match="stopped"):
        preparing("someone/tiny", sources)
    assert not list(preparing.models_dir.glob("hub/*/snapshots/*/model.safetensors"))


def test_a_cut_download_is_completed_by_the_next_start(
    hub: FakeHub, sources: Sources, preparing: Preparing
) -> None:
    hub.held.add("model.safetensors")
    preparing.on_report = lambda status: preparing.cancelled.set()
    with pytest.raises(ModelUnavailable, match="stopped"):
        preparing("someone/tiny", sources)
    hub.release.set()
    hub.held.clear()
    preparing.cancelled.clear()
    preparing.on_report = lambda status: None
    model = preparing("someone/tiny", sources)
    assert (model.folder / "model.safetensors").read_bytes() == hub.files("someone/tiny")["model.safetensors"]


def test_a_damaged_file_from_the_hub_is_refused(hub: FakeHub, sources: Sources, preparing: Preparing) -> None:
    file = hub.folders["someone/tiny"] / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-100])
    with pytest.raises(ModelUnusable, match=f"{len(whole) - 100:,} bytes.*{len(whole):,}"):
        preparing("someone/tiny", sources)
