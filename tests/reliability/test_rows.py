"""Every row of the reliability plan has a test that says so. Row 39 is for machines with a GPU."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
MARKED = re.compile(r"^@pytest\.mark\.row\((\d+)\)$", re.MULTILINE)


def test_every_row_of_the_plan_is_proved_somewhere() -> None:
    proved = {int(row) for file in TESTS.rglob("*.py") for row in MARKED.findall(file.read_text("utf-8"))}
    assert proved == set(range(1, 39))
