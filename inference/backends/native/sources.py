"""What the library is compiled from. Run by setup.py by its path, so it imports nothing of this package."""

from __future__ import annotations

import hashlib
from pathlib import Path

FOLDER = Path(__file__).with_name("src")
COMPILE_ARGS = ["-std=c11", "-O3", "-fno-math-errno", "-ffp-contract=fast", "-Wno-psabi", "-pthread"]
"""Never -ffast-math: linking with it switches the whole process to flush-to-zero."""


def c_files() -> list[Path]:
    """What is compiled."""
    return sorted(FOLDER.glob("*.c"))


def source_hash() -> str:
    """SHA-256 over names and contents of everything that the library is made of, in hexadecimal."""
    digest = hashlib.sha256(" ".join(COMPILE_ARGS).encode())
    for path in sorted(FOLDER.glob("*.[ch]")):
        content = path.read_bytes()
        digest.update(f"\0{path.name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()
