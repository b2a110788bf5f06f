"""axe-core over a page in every look it can have."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

LOOKS = [(width, theme) for width in (1280, 360) for theme in ("light", "dark")]
GRAVE = {"serious", "critical"}


def assert_accessible(page: Page) -> None:
    """axe-core finds nothing serious or critical, wide and narrow, light and dark."""
    before = page.viewport_size
    found = []
    for width, theme in LOOKS:
        page.set_viewport_size({"width": width, "height": 740})
        page.emulate_media(color_scheme="dark" if theme == "dark" else "light", reduced_motion="reduce")
        results = Axe().run(page, options={"resultTypes": ["violations"]}).response
        found += [f"{width} {theme}: {fault}" for fault in _grave(results)]
    page.emulate_media(color_scheme="light", reduced_motion="no-preference")
    if before is not None:
        page.set_viewport_size(before)
    assert not found, "\n".join(found)


def _grave(results: dict[str, Any]) -> list[str]:
    return [
        f"{violation['impact']} {violation['id']}: {node['html'][:160]} {node.get('failureSummary', '')}"
        for violation in results["violations"]
        if violation["impact"] in GRAVE
        for node in violation["nodes"]
    ]
