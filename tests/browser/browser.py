"""A real Chromium to test in: an installed one first, then Playwright's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, BrowserType, Error

NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "microsoft-edge",
    "chrome",
    "msedge",
)
MAC_PLACES = (
    "Google Chrome.app/Contents/MacOS/Google Chrome",
    "Chromium.app/Contents/MacOS/Chromium",
    "Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
)
WINDOWS_PLACES = ("Google/Chrome/Application/chrome.exe", "Microsoft/Edge/Application/msedge.exe")
WINDOWS_FOLDERS = ("ProgramFiles", "ProgramFiles(x86)", "LocalAppData")
QUIET = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-sync",
    "--no-pings",
)
NOTHING_ELSE = ("MAP * ~NOTFOUND", "EXCLUDE localhost", "EXCLUDE *.localhost", "EXCLUDE 127.*")
"""A browser finds this machine alone, whatever a page names (row 29 of the reliability plan)."""
DOWNLOAD_TIMEOUT_S = 600


class NoBrowser(Exception):
    """No Chromium can be started here."""


def launch(chromium: BrowserType, *names: str, disabled: str = "") -> Browser:
    """The first browser that starts. Raises `NoBrowser` with one sentence.

    names: rules such as "MAP a.test 127.0.0.1". disabled: features of the browser that are to be off.
    """
    arguments = [*QUIET, f"--host-resolver-rules={', '.join((*names, *NOTHING_ELSE))}"]
    arguments += [f"--disable-features={disabled}"] if disabled else []
    for executable in installed():
        if (browser := _started(chromium, executable, arguments)) is not None:
            return browser
    browser = _started(chromium, None, arguments)
    if browser is None and _downloaded():
        browser = _started(chromium, None, arguments)
    if browser is None:
        raise NoBrowser(
            "The browser tests need Chromium: install the package `chromium` (or Chrome or Edge)."
        )
    return browser


def installed() -> Iterator[Path]:
    """Browsers of the Chromium family on this machine."""
    for name in NAMES:
        if (found := shutil.which(name)) is not None:
            yield Path(found)
    applications = (Path("/Applications"), Path.home() / "Applications")
    programs = [Path(os.environ[name]) for name in WINDOWS_FOLDERS if name in os.environ]
    places = [folder / place for folder in applications for place in MAC_PLACES]
    places += [folder / place for folder in programs for place in WINDOWS_PLACES]
    yield from (place for place in places if place.is_file())


def _started(chromium: BrowserType, executable: Path | None, arguments: list[str]) -> Browser | None:
    """A running browser; None when that one does not start. As root, Chromium has no sandbox of its own."""
    more = ["--no-sandbox"] if _is_root() else []
    try:
        return chromium.launch(executable_path=executable, headless=True, args=[*arguments, *more])
    except Error:
        return None


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _downloaded() -> bool:
    command = [sys.executable, "-m", "playwright", "install", "chromium"]
    try:
        return subprocess.run(command, capture_output=True, timeout=DOWNLOAD_TIMEOUT_S).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
