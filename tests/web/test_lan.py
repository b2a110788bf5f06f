"""This machine's names and addresses, and pictures of a link."""

from __future__ import annotations

import re

import pytest

from web.device_names import device_name
from web.lan import LanHosts, host_values, is_private, private_addresses, qr_svg, qr_text

LINK = "http://192.168.0.10:8420/#pair=48271935"


class Network:
    """A machine whose address changes."""

    def __init__(self) -> None:
        self.now = 0.0
        self.current = ["192.168.0.10"]
        self.reads = 0

    def addresses(self) -> list[str]:
        self.reads += 1
        return self.current

    def hosts(self) -> LanHosts:
        return LanHosts(
            8420,
            always={"localhost:8420"},
            names=lambda: ["house", "house.local"],
            addresses=self.addresses,
            clock=lambda: self.now,
        )


def test_it_answers_to_its_names_and_addresses_with_its_port_alone() -> None:
    hosts = Network().hosts()
    for own in ("localhost:8420", "192.168.0.10:8420", "house:8420", "house.local:8420"):
        assert own in hosts
    for other in ("192.168.0.10", "192.168.0.10:80", "192.168.0.11:8420", "house.local.:8420", "house", ""):
        assert other not in hosts


def test_on_port_80_the_port_may_be_left_out() -> None:
    assert host_values(["house"], 80) == {"house", "house:80"}


def test_a_changed_address_is_noticed_within_five_seconds() -> None:
    network = Network()
    hosts = network.hosts()
    assert "192.168.0.99:8420" not in hosts
    network.current = ["192.168.0.99"]
    network.now = 4.9
    assert "192.168.0.99:8420" not in hosts
    assert network.reads == 1
    network.now = 5.0
    assert "192.168.0.99:8420" in hosts
    assert "192.168.0.10:8420" not in hosts
    assert hosts.addresses() == ["192.168.0.99"]


@pytest.mark.parametrize("address", ["10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "127.0.0.1"])
def test_private_addresses(address: str) -> None:
    assert is_private(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "172.32.0.1", "192.169.0.1", "::1", "house", ""])
def test_everything_else_is_not_private(address: str) -> None:
    assert not is_private(address)


def test_this_machines_addresses_are_private_and_not_loopback() -> None:
    for address in private_addresses():
        assert is_private(address)
        assert not address.startswith(("127.", "169.254."))


def test_both_pictures_show_the_same_modules() -> None:
    assert text_modules(qr_text(LINK)) == svg_modules(qr_svg_like_text())


def qr_svg_like_text() -> str:
    import segno

    return segno.make_qr(LINK, error="l").svg_inline(border=2, dark="#211d18", light="#fff", omitsize=True)


def text_modules(picture: str) -> set[tuple[int, int]]:
    """Rows and columns of the dark modules."""
    dark = set()
    for line, row in enumerate(picture.splitlines()):
        for column, character in enumerate(row):
            dark |= {(2 * line, column)} if character in "▀█" else set()
            dark |= {(2 * line + 1, column)} if character in "▄█" else set()
    return dark


def svg_modules(svg: str) -> set[tuple[int, int]]:
    """Rows and columns of the dark modules: horizontal strokes, relative after the first."""
    path = re.search(r'stroke="#211d18" d="([^"]+)"', svg)
    assert path is not None
    dark, x, y = set(), 0.0, 0.0
    for command, numbers in re.findall(r"([Mmh])([^Mmh]+)", path.group(1)):
        values = [float(each) for each in re.findall(r"-?[\d.]+", numbers)]
        if command == "h":
            dark |= {(int(y - 0.5), int(x) + step) for step in range(int(values[0]))}
            x += values[0]
        else:
            x, y = (values[0], values[1]) if command == "M" else (x + values[0], y + values[1])
    return dark


def test_the_picture_for_the_page_has_no_style_and_is_dark_on_light() -> None:
    svg = qr_svg(LINK)
    assert "style" not in svg
    assert 'fill="#fff"' in svg
    assert 'stroke="#211d18"' in svg


@pytest.mark.parametrize(
    ("user_agent", "name"),
    [
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) Version/18.5 Safari/604.1",
            "Safari on iPhone",
        ),
        (
            "Mozilla/5.0 (Linux; Android 16; SM-S931N) SamsungBrowser/28.0 Chrome/130.0 Safari/537.36",
            "Samsung Internet on Android",
        ),
        ("Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0", "Firefox on Linux"),
        ("Mozilla/5.0 (Windows NT 10.0) Chrome/142.0.0.0 Safari/537.36 Edg/142.0.0.0", "Edge on Windows"),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) Version/18.5 Safari/605.1.15", "Safari on Mac"),
        ("curl/8.14.1", "A device"),
        ("", "A device"),
    ],
)
def test_a_device_is_named_after_what_its_browser_says(user_agent: str, name: str) -> None:
    assert device_name(user_agent) == name
