"""What a page is told when nothing can be saved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from storage.errors import DiskFull
from tests.web.serving import Served


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "shared"])
def test_where_the_data_lies_is_told_to_nobody_but_who_sits_there(
    serve: Callable[..., Served], tmp_path: Path, shared: bool
) -> None:
    served = serve(lan=shared)
    client = served.ready_client(served.owner() if shared else "")
    served.database.on_not_writable(DiskFull("It is full."))
    told = client.wait_for("status")["unsaved"]
    assert "MiB are free" in told
    assert ("Make room on the disk of the machine that runs Ondol" in told) == shared
    assert (str(tmp_path) in told) != shared
    assert client.wait_for("status")["unsaved"] == ""
