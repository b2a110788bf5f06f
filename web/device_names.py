"""What to call a device before anybody named it, from what its browser says of itself."""

from __future__ import annotations

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


def device_name(user_agent: str) -> str:
    """Such as “Safari on iPhone”."""
    browser = next((name for mark, name in BROWSERS if f"{mark}/" in user_agent), None)
    system = next((name for mark, name in SYSTEMS if mark in user_agent), None)
    if browser and system:
        return f"{browser} on {system}"
    return browser or system or "A device"
