"""Input methods, replayed: the events that browsers send while a syllable is being composed."""

from __future__ import annotations

from playwright.sync_api import CDPSession, Locator

# Safari ends the composition first; the Enter that did it follows and no longer says that it composes.
SAFARI = """(field, { before, composed, enters }) => {
  const key = (init) => new KeyboardEvent('keydown', { bubbles: true, cancelable: true, ...init });
  const input = (data) => field.dispatchEvent(new InputEvent('input', { bubbles: true, data }));
  field.value = before;
  field.dispatchEvent(new CompositionEvent('compositionstart', { bubbles: true, data: '' }));
  field.dispatchEvent(key({ key: 'Process', keyCode: 229, isComposing: true }));
  field.value = before + composed;
  input(composed);
  field.dispatchEvent(new CompositionEvent('compositionend', { bubbles: true, data: composed }));
  field.dispatchEvent(key({ key: 'Enter', keyCode: 229, isComposing: false }));
  if (enters > 1) field.dispatchEvent(key({ key: 'Enter', keyCode: 13, isComposing: false }));
}"""


class ChromiumIme:
    """Composes in a focused field as an input method does in Chromium, with trusted events."""

    def __init__(self, session: CDPSession) -> None:
        self._session = session

    def compose(self, text: str) -> None:
        """Show `text` as being composed."""
        at = len(text.encode("utf-16-le")) // 2
        self._session.send(
            "Input.imeSetComposition", {"text": text, "selectionStart": at, "selectionEnd": at}
        )

    def enter(self, text: str, *, again: bool = False) -> None:
        """Press Enter on the composition of `text`, which ends it.

        again: the same press comes once more as a key, as on some systems.
        """
        self._key(229)
        self._session.send("Input.insertText", {"text": text})
        if again:
            self._key(13)

    def _key(self, code: int) -> None:
        event = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": code}
        self._session.send("Input.dispatchKeyEvent", {"type": "rawKeyDown", **event})


def safari_enter(field: Locator, before: str, composed: str, *, enters: int = 1) -> None:
    """Type `before`, compose `composed` after it and press Enter, in Safari's order."""
    field.evaluate(SAFARI, {"before": before, "composed": composed, "enters": enters})
