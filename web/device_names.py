"""What to call a device before anybody named it, from what its browser says of itself."""

from __future__ import annotations

from web.language import Language, msgid

# In this order: most browsers claim to be several.
BROWSERS = (
    ("SamsungBrowser", "Samsung Internet"),
    ("EdgA", "Edge"),
    ("Edg", "Edge"),
    ("OPR", "Opera"),
    ("FxiOS", "Firefox"),
    ("Firefox", "Firefox"),
    ("CriOS", "Chrome"),
    ("Chrome", "Chrome"),
    ("Safari", "Safari"),
)
SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("CrOS", "Chromebook"),
    ("Windows", "Windows"),
    ("Macintosh", "Mac"),
    ("Linux", "Linux"),
)
UNKNOWN = msgid("A device")
_BROWSER_NAMES = frozenset(name for _, name in BROWSERS)
_SYSTEM_NAMES = frozenset(name for _, name in SYSTEMS)


def device_name(user_agent: str) -> str:
    """Such as “Safari on iPhone”."""
    browser = next((name for mark, name in BROWSERS if f"{mark}/" in user_agent), None)
    system = next((name for mark, name in SYSTEMS if mark in user_agent), None)
    if browser and system:
        return f"{browser} on {system}"
    return browser or system or UNKNOWN


def device_words(language: Language, name: str) -> str:
    """A device's name in a person's language. One that the owner gave stays as it was written."""
    browser, _, system = name.partition(" on ")
    if browser in _BROWSER_NAMES and system in _SYSTEM_NAMES:
        return language.t("{browser} on {system}", browser=browser, system=system)
    return language.t(name) if name == UNKNOWN else name
