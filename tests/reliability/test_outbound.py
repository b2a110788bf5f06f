"""Row 29: nothing leaves this machine in all the suite. `tests/conftest.py` has the guard; here it bites."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.outbound import outbound_guard

OUTSIDE = "192.0.2.1"  # RFC 5737: in documents alone
CONNECT = f"import socket; socket.create_connection(('{OUTSIDE}', 9), timeout=5)"


@pytest.fixture(autouse=True)
def own_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is refused here on purpose is noted elsewhere."""
    monkeypatch.setenv(outbound_guard.NOTES, str(tmp_path / "notes"))
    return tmp_path / "notes"


@pytest.mark.row(29)
def test_whatever_would_leave_this_machine_is_refused_and_noted() -> None:
    for name in ("example.test", "huggingface.co", b"example.test"):
        with pytest.raises(ConnectionRefusedError, match="do not speak"):
            socket.getaddrinfo(name, 443)
    with pytest.raises(ConnectionRefusedError):
        socket.gethostbyname("example.test")
    for family, address in ((socket.AF_INET, OUTSIDE), (socket.AF_INET6, "2001:db8::1")):
        with socket.socket(family) as stream, pytest.raises(ConnectionRefusedError):
            stream.connect((address, 443))
        with socket.socket(family, socket.SOCK_DGRAM) as datagrams, pytest.raises(ConnectionRefusedError):
            datagrams.sendto(b"x", (address, 53))
    with socket.socket() as stream, pytest.raises(ConnectionRefusedError):
        stream.connect_ex((OUTSIDE, 443))
    assert len(outbound_guard.notes()) == 9


@pytest.mark.row(29)
def test_processes_that_tests_begin_are_guarded_and_pip_alone_is_not(tmp_path: Path) -> None:
    guarded = subprocess.run([sys.executable, "-c", CONNECT], capture_output=True, text=True)
    assert "ConnectionRefusedError: The tests do not speak to" in guarded.stderr
    (note,) = outbound_guard.notes()
    assert note.startswith(f"socket.getaddrinfo to {OUTSIDE} by {sys.executable} -c")
    (tmp_path / "pip.py").write_text("import outbound_guard; print(outbound_guard.is_pip())")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ['PYTHONPATH']}"}
    for arguments, is_pip in ((["-m", "pip"], "True\n"), (["-c", "import pip"], "False\n")):
        command = [sys.executable, *arguments]
        assert subprocess.check_output(command, env=environment, text=True) == is_pip


@pytest.mark.row(29)
def test_this_machine_itself_is_spoken_to() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        socket.create_connection(listener.getsockname()).close()
    for host in ("localhost", "127.0.0.1", "127.0.0.2", "", None, socket.gethostname()):
        assert outbound_guard.is_here(host), host
    assert outbound_guard.notes() == []
    assert os.environ["PYTHONPATH"].split(os.pathsep)[0] == str(Path(outbound_guard.__file__).parent)
