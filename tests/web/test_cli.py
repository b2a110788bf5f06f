"""The command line, run as people run it."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import fields
from pathlib import Path

import httpx2
import pytest

from inference.types import SamplingParams
from storage.database import Database
from storage.files import FILE_NAME
from tests.inference.backends.tiny import write_tiny_llama
from web.lan import host_names, private_addresses, qr_text
from web.terminal import NOT_ENCRYPTED

ONDOL = Path(sys.executable).with_name("ondol")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_llama(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {
        **os.environ,
        "ONDOL_DATA_DIR": str(tmp_path / "data"),
        "ONDOL_MODELS_DIR": str(tmp_path / "models"),
    }


def ondol(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ONDOL, *arguments], env=environment, capture_output=True, text=True, timeout=300, check=False
    )


@contextmanager
def running(
    environment: dict[str, str], *arguments: str, ending: signal.Signals = signal.SIGINT
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server and its address; it has to end in order after the signal."""
    process = subprocess.Popen(
        [ONDOL, "--port", "0", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield line.partition("Ondol is at ")[2].split()[0], process
    finally:
        process.send_signal(ending)
        assert process.wait(30) == 0
        assert process.stdout is not None
        process.stdout.close()


def assert_refused(result: subprocess.CompletedProcess[str], words: str, tmp_path: Path) -> None:
    """One sentence, a failing exit code, and nothing on the disk."""
    assert result.returncode == 1
    assert result.stderr.startswith("ondol: ")
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "data").exists()
    assert not (tmp_path / "models").exists()


@pytest.mark.parametrize("command", [[], ["serve"], ["ask", "hello"]])
def test_an_unknown_model_is_refused(environment: dict[str, str], tmp_path: Path, command: list[str]) -> None:
    result = ondol(environment, *command, "--model", "nonsense")
    assert_refused(result, "There is no model 'nonsense'. It can be one of smollm2-135m", tmp_path)


def test_a_missing_model_file_is_refused(environment: dict[str, str], tmp_path: Path) -> None:
    assert_refused(
        ondol(environment, "--model", "./no.gguf"), "There is no file or folder ./no.gguf", tmp_path
    )


def test_a_truncated_model_is_refused_with_the_numbers(
    environment: dict[str, str], tmp_path: Path, tiny: Path
) -> None:
    cut = tmp_path / "cut"
    cut.mkdir()
    for file in tiny.iterdir():
        content = file.read_bytes()
        (cut / file.name).write_bytes(content[:-1_000] if file.suffix == ".safetensors" else content)
    size = (cut / "model.safetensors").stat().st_size
    assert_refused(ondol(environment, "--model", str(cut)), f"{size:,}", tmp_path)


def test_a_file_that_is_no_model_is_refused(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUX" + bytes(100))
    assert_refused(ondol(environment, "--model", str(tmp_path / "broken.gguf")), "broken.gguf", tmp_path)


def test_a_port_in_use_is_refused(environment: dict[str, str], tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert_refused(ondol(environment, "--port", str(port)), f"Port {port} is in use", tmp_path)


def test_a_data_folder_that_cannot_be_made_is_refused(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    result = ondol(environment, "--port", "0", "--data-dir", str(tmp_path / "file" / "data"))
    assert_refused(result, "cannot be made", tmp_path)


def test_a_database_of_a_newer_version_is_refused_and_unchanged(
    environment: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "newer"
    Database.open(folder).close()
    with closing(sqlite3.connect(folder / FILE_NAME)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    before = (folder / FILE_NAME).read_bytes()
    result = ondol(environment, "--port", "0", "--data-dir", str(folder))
    assert_refused(result, "newer", tmp_path)
    assert (folder / FILE_NAME).read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--temperature", "9"], "temperature is 9.0; it must be from 0 to 5"),
        (["--top-p", "0"], "top_p is 0.0"),
        (["--max-tokens", "0"], "max_tokens is 0"),
        (["--min-p", "2"], "min_p is 2.0; it must be from 0 to 1"),
        (["--repetition-penalty", "0"], "repetition_penalty is 0.0; it must be from 0.1 to 10"),
        (["--presence-penalty", "3"], "presence_penalty is 3.0; it must be from -2 to 2"),
        (["--frequency-penalty", "nan"], "frequency_penalty is nan"),
        (["--logprobs", "21"], "logprobs is 21; it must be a whole number from 0 to 20"),
    ],
)
def test_sampling_params_out_of_range_are_refused_before_anything_loads(
    environment: dict[str, str], tmp_path: Path, arguments: list[str], words: str
) -> None:
    assert_refused(ondol(environment, "ask", "hello", *arguments), words, tmp_path)


def test_ask_prints_one_object_and_stores_nothing(
    environment: dict[str, str], tmp_path: Path, tiny: Path
) -> None:
    arguments = ("ask", "hello", "--json", "--model", str(tiny), "--max-tokens", "8", "--seed", "5")
    first, second = (ondol(environment, *arguments, "--temperature", "1") for _ in range(2))
    report = json.loads(first.stdout)
    assert 1 <= report["memory_plan"]["max_sequences"] <= 8
    assert report["memory_plan"]["window"] <= report["memory_plan"]["kv_tokens"]
    for key in (
        "reply",
        "reasoning",
        "usage",
        "timings",
        "context",
        "model",
        "quantization",
        "backend",
        "kernels",
    ):
        assert key in report
    context, usage = report["context"], report["usage"]
    assert context["system"] + context["history"] + context["question"] == usage["prompt_tokens"]
    assert usage["completion_tokens"] <= 8
    assert report["params"]["seed"] == 5
    assert json.loads(second.stdout)["reply"] == report["reply"]
    assert not (tmp_path / "data").exists()


def test_ask_reports_probabilities_with_the_text_of_every_token(
    environment: dict[str, str], tiny: Path
) -> None:
    arguments = ("--min-p", "0.1", "--repetition-penalty", "1.2", "--frequency-penalty", "0.5")
    limits = ("--json", "--model", str(tiny), "--max-tokens", "12", "--seed", "5")
    report = json.loads(ondol(environment, "ask", "hello", *limits, *arguments, "--logprobs", "3").stdout)
    assert len(report["logprobs"]) == report["usage"]["completion_tokens"] > 0
    assert "".join(token["text"] for token in report["logprobs"]) == report["reply"]
    for token in report["logprobs"]:
        tops = [other["logprob"] for other in token["top"]]
        assert len(tops) == 3
        assert tops == sorted(tops, reverse=True)
        assert token["logprob"] <= tops[0] <= 0
    params = report["params"]
    assert params.keys() == {field.name for field in fields(SamplingParams)}
    assert (params["min_p"], params["repetition_penalty"], params["frequency_penalty"]) == (0.1, 1.2, 0.5)


def test_ask_prints_the_reply_alone_on_standard_output(environment: dict[str, str], tiny: Path) -> None:
    arguments = ("ask", "hello", "--model", str(tiny), "--max-tokens", "8", "--temperature", "0")
    plain = ondol(environment, *arguments)
    report = json.loads(ondol(environment, *arguments, "--json").stdout)
    assert plain.stdout == report["reply"] + "\n"
    assert "tokens" in plain.stderr


def test_the_page_answers_while_the_model_is_still_loading(environment: dict[str, str], tiny: Path) -> None:
    with running(environment, "--model", str(tiny), "--backend", "transformers") as (address, _):
        page = httpx2.get(address)
        health = httpx2.get(f"{address}/health").json()
    assert page.status_code == 200
    assert health["model"] in ("waiting", "loading")


def status_after_joining(address: str, **secret: str) -> list[int]:
    """What the page, the code or secret, and then the page again are answered with."""
    before = httpx2.get(address).status_code
    joined = httpx2.post(f"{address}/pair", json=secret, headers={"Origin": address})
    cookie = joined.headers.get("set-cookie", "").partition(";")[0]
    return [before, joined.status_code, httpx2.get(address, headers={"Cookie": cookie}).status_code]


def test_shared_it_prints_what_connects_devices_and_lets_them_in(
    environment: dict[str, str], tiny: Path
) -> None:
    with running(environment, "--model", str(tiny), "--lan") as (own, process):
        assert process.stdout is not None
        lines = list(iter(process.stdout.readline, f"  {NOT_ENCRYPTED}\n"))
        values = [tuple(line.strip().split(":  ", 1)) for line in lines]
        places = [*private_addresses(), *(name for name in host_names() if name.endswith(".local"))]
        links = [f"http://{place}:{own.rpartition(':')[2]}" for place in places]
        others = [value.strip() for name, value in values if name == "Other devices"]
        assert others == links if private_addresses() else others[0].startswith("nowhere yet")
        owner = dict(values)["Your own browser"]
        assert owner.startswith(f"{own}/#owner=")
        assert status_after_joining(own, owner=owner.partition("#owner=")[2]) == [401, 204, 200]
        code = dict(values)["Pairing code"].strip()[:9].replace(" ", "")
        for link in (
            links[:1] if private_addresses() else []
        ):  # what a machine says to its own address never leaves it
            picture = qr_text(f"{link}/#pair={code}").splitlines()
            assert [process.stdout.readline().rstrip("\n") for _ in picture] == picture
            assert status_after_joining(link, code=code) == [401, 204, 200]


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_order(environment: dict[str, str], tiny: Path, ending: signal.Signals) -> None:
    with running(environment, "--model", str(tiny), ending=ending) as (address, _):
        assert httpx2.get(address).status_code == 200


def test_one_data_folder_serves_one_server(environment: dict[str, str], tiny: Path) -> None:
    with running(environment, "--model", str(tiny)):
        second = ondol(environment, "--port", "0", "--model", str(tiny))
    assert second.returncode == 1
    assert "Another Ondol already uses the data folder" in second.stderr


def test_the_data_folder_is_readable_by_its_owner_only(environment: dict[str, str], tiny: Path) -> None:
    folder = Path(environment["ONDOL_DATA_DIR"])
    with running(environment, "--model", str(tiny)):
        assert folder.stat().st_mode & 0o777 == 0o700
        assert all(file.stat().st_mode & 0o077 == 0 for file in folder.glob("ondol.sqlite3*"))
