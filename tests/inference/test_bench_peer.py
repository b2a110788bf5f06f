"""The peer's side of the bench: its process, what can go wrong with it, and llama.cpp's stream."""

from __future__ import annotations

import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from inference.bench import llamacpp
from inference.bench.peer import Peer, PeerProcess, PeerUnderTest, in_fresh_peer
from inference.bench.work import Figure, Prompts, value
from inference.errors import BenchFailed
from tests.inference.bench_doubles import SMALL, scripted_peer, work


def test_a_peer_is_asked_one_work_at_a_time(tmp_path: Path) -> None:
    with PeerProcess(scripted_peer(), tmp_path / "good.gguf", 3) as peer:
        assert peer.engine == "Scripted on 3 threads"
        assert value(work("decode"), peer(work("decode"))) == pytest.approx(10)
        assert value(work("ttft", cached=True), peer(work("ttft", cached=True))) == 500
    assert in_fresh_peer(scripted_peer(), tmp_path / "good.gguf", 3, work("memory")).peak_mb == 123
    log = [line.split() for line in (tmp_path / "good.log").read_text().splitlines()]
    assert [kind for _, kind in log] == ["decode", "ttft", "memory"]
    assert log[0][0] == log[1][0] != log[2][0]


def test_every_number_of_chats_has_a_process_of_its_own(tmp_path: Path) -> None:
    one, four = work("decode"), dict(SMALL.speed(Prompts(1_000)))[Figure("batch4_tok_s")]
    with PeerUnderTest(scripted_peer(), tmp_path / "good.gguf", 1) as peer:
        for item in (one, four, one):
            peer(item)
    first, second, third = (line.split()[0] for line in (tmp_path / "good.log").read_text().splitlines())
    assert first == third != second


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("dies", "scripted ended with exit code 7"),
        ("babbles", "scripted answered what cannot be read"),
        ("complains", "scripted: RuntimeError: out of beans"),
    ],
)
def test_a_peer_that_fails_is_one_sentence(tmp_path: Path, model: str, words: str) -> None:
    with (
        PeerProcess(scripted_peer(), tmp_path / f"{model}.gguf", 1) as peer,
        pytest.raises(BenchFailed, match=words),
    ):
        peer(work("decode"))


@pytest.mark.parametrize(
    ("python", "words"),
    [
        (sys.executable, "cannot import xllamacpp"),
        ("/bin/true", "exit code 0 before it answered"),
        ("/no/python", "/no/python cannot be run"),
    ],
)
def test_a_python_without_the_peer_is_one_sentence(tmp_path: Path, python: str, words: str) -> None:
    with pytest.raises(BenchFailed, match=words), PeerProcess(Peer(python), tmp_path / "a.gguf", 1):
        pass


class Completions(BaseHTTPRequestHandler):
    """Streams two tokens at once, then one, as llama.cpp's server does."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        for event in (
            b'{"tokens_predicted":2}',
            b'{"tokens_predicted":3}',
            b'{"tokens_predicted":3,"stop":true,"timings":{"prompt_per_second":9.5,"cache_n":4}}',
        ):
            self.wfile.write(b"data: " + event + b"\n\n")

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_the_peers_stream_becomes_a_run() -> None:
    with HTTPServer(("127.0.0.1", 0), Completions) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        run = llamacpp.complete(f"http://127.0.0.1:{server.server_port}", [1, 2], 3, reuse=False)
        thread.join()
    assert [tokens for _, tokens in run["points"]] == [2, 3]
    assert (run["prefill_tok_s"], run["cached_tokens"]) == (9.5, 4)
