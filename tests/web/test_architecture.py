"""The import rules: every package knows only what it may."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FORBIDDEN = {
    "inference": {"web", "storage", "starlette", "uvicorn", "sqlalchemy", "alembic"},
    "storage": {"web", "inference", "torch", "transformers", "starlette", "numpy"},
    "web": {"torch", "transformers", "bitsandbytes", "sqlalchemy", "alembic", "sqlite3", "pysqlite3"},
}
TORCH_FREE = {"torch", "transformers", "bitsandbytes", "accelerate"}


def imported(file: Path, *, top_level_only: bool = False) -> set[str]:
    """The top-level packages that a file imports."""
    tree = ast.parse(file.read_text("utf-8"))
    nodes = tree.body if top_level_only else ast.walk(tree)
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            names.add((node.module or "").split(".")[0])
    return names


@pytest.mark.parametrize("package", FORBIDDEN)
def test_a_package_imports_only_what_it_may(package: str) -> None:
    for file in (ROOT / package).rglob("*.py"):
        assert not imported(file) & FORBIDDEN[package], file


def test_only_backends_import_torch() -> None:
    for file in (ROOT / "inference").rglob("*.py"):
        if file.parent.name != "backends":
            assert not imported(file) & TORCH_FREE, file


def test_only_the_app_builds_the_engine() -> None:
    for file in (ROOT / "web").rglob("*.py"):
        if file.name != "app.py":
            assert "= Engine(" not in file.read_text("utf-8"), file


def test_starting_the_server_imports_no_torch() -> None:
    code = (
        "import sys, web.server, web.cli; "
        "print([m for m in ('torch', 'transformers', 'gguf', 'alembic') if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert result.stdout.strip() == "[]"
