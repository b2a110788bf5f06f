"""As much of the Hub's HTTP interface as downloading a repository needs, on a free port of 127.0.0.1."""

from __future__ import annotations

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit


class FakeHub:
    """Repositories are folders. `requests` has "METHOD path"; `held` files stop after their first half."""

    def __init__(self) -> None:
        self.folders: dict[str, Path] = {}
        self.gated: set[str] = set()
        self.held: set[str] = set()
        self.release = threading.Event()
        self.requests: list[str] = []
        hub = self

        class Handler(_Handler):
            owner = hub

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> FakeHub:
        self._thread.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.release.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def files(self, repo: str) -> dict[str, bytes]:
        folder = self.folders[repo]
        return {
            file.relative_to(folder).as_posix(): file.read_bytes()
            for file in sorted(folder.rglob("*"))
            if file.is_file()
        }

    def commit(self, repo: str) -> str:
        return hashlib.sha1(repr(self.files(repo)).encode()).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    owner: FakeHub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        return

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = urlsplit(self.path).path
        self.owner.requests.append(f"{self.command} {path}")
        parts = path.strip("/").split("/")
        if parts[:2] == ["api", "models"]:
            self._api("/".join(parts[2:4]), parts[4:])
        else:
            self._file("/".join(parts[:2]), "/".join(parts[4:]))

    def _known(self, repo: str) -> bool:
        if repo in self.owner.gated:
            self._send(403, b"", {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access is restricted."})
        elif repo not in self.owner.folders:
            self._send(404, b"", {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})
        else:
            return True
        return False

    def _api(self, repo: str, rest: list[str]) -> None:
        if not self._known(repo):
            return
        files = self.owner.files(repo)
        answer: object = [
            {"type": "file", "path": name, "size": len(content), "oid": _etag(content)}
            for name, content in files.items()
        ]
        if rest[:1] != ["tree"]:
            siblings = [{"rfilename": name, "size": len(content)} for name, content in files.items()]
            answer = {"id": repo, "sha": self.owner.commit(repo), "siblings": siblings}
        self._send(200, json.dumps(answer).encode(), {"Content-Type": "application/json"})

    def _file(self, repo: str, name: str) -> None:
        if not self._known(repo):
            return
        content = self.owner.files(repo)[name]
        headers = {"ETag": f'"{_etag(content)}"', "X-Repo-Commit": self.owner.commit(repo)}
        hold = self.command == "GET" and name in self.owner.held
        self._send(200, content, headers, hold=hold)

    def _send(self, status: int, body: bytes, headers: dict[str, str], hold: bool = False) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if hold:
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            self.owner.release.wait()
            self.close_connection = True
            return
        self.wfile.write(body)


def _etag(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()
