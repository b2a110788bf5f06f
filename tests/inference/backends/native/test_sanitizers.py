"""The kernels under the compilers' own checks of memory, arithmetic and threads."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from inference.backends.native.sources import COMPILE_ARGS, FOLDER, c_files

DRIVER = Path(__file__).with_name("sanitized.c")


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no C compiler")
@pytest.mark.parametrize(
    ("checks", "arguments"), [("address,undefined", []), ("thread", ["plain C"])], ids=["memory", "threads"]
)
def test_odd_shapes_and_any_number_of_threads_break_nothing(
    tmp_path: Path, checks: str, arguments: list[str]
) -> None:
    program = tmp_path / "sanitized"
    command = [
        *("gcc", *COMPILE_ARGS, "-O1", f"-fsanitize={checks}", "-fno-sanitize-recover=all"),
        *("-D_GNU_SOURCE", f"-I{FOLDER}", str(DRIVER), *map(str, c_files()), "-o", str(program), "-lm"),
    ]
    subprocess.run(command, check=True)
    found = subprocess.run([program, *arguments], capture_output=True, text=True)
    assert (found.returncode, found.stderr) == (0, "")
    assert "plain C, format 0" in found.stdout
