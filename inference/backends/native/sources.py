"""What the library is compiled from. Run by setup.py by its path, so it imports nothing of this package."""

from __future__ import annotations

import hashlib
from pathlib import Path

FOLDER = Path(__file__).with_name("src")
COMPILE_ARGS = ["-std=c11", "-O3", "-fno-math-errno", "-ffp-contract=fast", "-Wno-psabi", "-pthread"]
"""Never -ffast-math: linking with it switches the whole process to flush-to-zero."""


def files() -> list[Path]:
    """Everything that the library is made of."""
    return sorted(FOLDER.glob("*.[ch]"))


def c_files() -> list[Path]:
    """What is compiled; the other files are included."""
    return [path for path in files() if path.suffix == ".c"]


def source_hash() -> str:
    """SHA-256 over the flags and over names and contents of all files, in hexadecimal."""
    digest = hashlib.sha256(" ".join(COMPILE_ARGS).encode())
    for path in files():
        content = path.read_bytes()
        digest.update(f"\0{path.name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()
