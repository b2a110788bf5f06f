"""Frames that no WebSocket client may send: its connection ends, with the right code, and nothing else."""

from __future__ import annotations

import gc
import json
import zlib
from collections.abc import Callable, Iterator
from random import Random
from typing import TypeAlias

import psutil
import pytest

from tests.reliability.raw_frames import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, RawSocket, raw_frame
from tests.web.conftest import echo
from tests.web.serving import Served

Make: TypeAlias = Callable[[Random], bytes]

PROTOCOL, PAYLOAD, TOO_BIG = 1002, 1007, 1009
LIMIT = 65_536
MORE_RSS = 5 * 2**20


def a_text(random: Random) -> bytes:
    return json.dumps({"type": "count", "id": "a", "text": "x" * random.randrange(300)}).encode()


def spoilt(random: Random, wrong: bytes) -> bytes:
    """Text with a byte sequence in it that UTF-8 does not have."""
    text = "온돌 🔥 warm".encode() * random.randrange(1, 20)
    place = random.choice([0, len(text)])
    return text[:place] + wrong + text[place:]


def in_two(random: Random, payload: bytes) -> bytes:
    """The payload in two fragments, cut anywhere."""
    cut = random.randrange(1, len(payload))
    return raw_frame(TEXT, payload[:cut], fin=False) + raw_frame(CONTINUATION, payload[cut:])


def with_code(code: int) -> bytes:
    return raw_frame(CLOSE, code.to_bytes(2, "big"))


KINDS: dict[str, tuple[Make, set[int | None]]] = {
    "first reserved bit": (lambda r: raw_frame(TEXT, a_text(r), reserved=4), {PROTOCOL}),
    "second reserved bit": (lambda r: raw_frame(TEXT, a_text(r), reserved=2), {PROTOCOL}),
    "third reserved bit": (lambda r: raw_frame(BINARY, a_text(r), reserved=1), {PROTOCOL}),
    "several reserved bits": (
        lambda r: raw_frame(TEXT, a_text(r), reserved=r.choice([3, 5, 6, 7])),
        {PROTOCOL},
    ),
    "reserved bit of a ping": (lambda r: raw_frame(PING, b"", reserved=r.randrange(1, 8)), {PROTOCOL}),
    "reserved bit in a continuation": (
        lambda r: (
            raw_frame(TEXT, b"{", fin=False) + raw_frame(CONTINUATION, b"}", reserved=r.randrange(1, 8))
        ),
        {PROTOCOL},
    ),
    "unknown data opcode": (lambda r: raw_frame(r.randrange(3, 8), a_text(r)), {PROTOCOL}),
    "unknown control opcode": (lambda r: raw_frame(r.randrange(11, 16), b""), {PROTOCOL}),
    "unmasked text": (lambda r: raw_frame(TEXT, a_text(r), masked=False), {PROTOCOL}),
    "unmasked ping": (lambda r: raw_frame(PING, b"x" * r.randrange(126), masked=False), {PROTOCOL}),
    "unmasked close": (lambda r: raw_frame(CLOSE, b"\x03\xe8", masked=False), {PROTOCOL}),
    "unmasked continuation": (
        lambda r: raw_frame(TEXT, b"{", fin=False) + raw_frame(CONTINUATION, b"}", masked=False),
        {PROTOCOL},
    ),
    "ping in fragments": (lambda r: raw_frame(PING, b"x" * r.randrange(126), fin=False), {PROTOCOL}),
    "pong in fragments": (lambda r: raw_frame(PONG, b"x" * r.randrange(126), fin=False), {PROTOCOL}),
    "close in fragments": (lambda r: raw_frame(CLOSE, b"\x03\xe8", fin=False), {PROTOCOL}),
    "long ping": (lambda r: raw_frame(PING, b"x" * r.randrange(126, 70_000)), {PROTOCOL, TOO_BIG}),
    "long pong": (lambda r: raw_frame(PONG, b"x" * r.randrange(126, 2_000)), {PROTOCOL}),
    "long close": (lambda r: raw_frame(CLOSE, b"\x03\xe8" + b"x" * r.randrange(124, 900)), {PROTOCOL}),
    "stray byte in text": (
        lambda r: raw_frame(TEXT, spoilt(r, bytes([r.choice([0x80, 0xBF, 0xFE, 0xFF])]))),
        {PAYLOAD},
    ),
    "character that is cut off": (lambda r: raw_frame(TEXT, a_text(r) + "🔥".encode()[:3]), {PAYLOAD}),
    "half of a surrogate pair": (
        lambda r: raw_frame(TEXT, spoilt(r, bytes([0xED, r.randrange(0xA0, 0xC0), 0x80]))),
        {PAYLOAD},
    ),
    "overlong character": (lambda r: raw_frame(TEXT, spoilt(r, b"\xc0\xaf")), {PAYLOAD}),
    "beyond the last character": (lambda r: raw_frame(TEXT, spoilt(r, b"\xf4\x90\x80\x80")), {PAYLOAD}),
    "bad text in fragments": (lambda r: in_two(r, spoilt(r, b"\xff")), {PAYLOAD}),
    "continuation of nothing": (
        lambda r: raw_frame(CONTINUATION, a_text(r), fin=bool(r.randrange(2))),
        {PROTOCOL},
    ),
    "text within a fragmented text": (
        lambda r: raw_frame(TEXT, b"{", fin=False) + raw_frame(r.choice([TEXT, BINARY]), b"}"),
        {PROTOCOL},
    ),
    "close of one byte": (lambda r: raw_frame(CLOSE, bytes([r.randrange(256)])), {PROTOCOL}),
    "close code that must not be sent": (
        lambda r: with_code(r.choice([0, 999, 1004, 1005, 1006, 1015, 1016, 2_999, 5_000, 65_535])),
        {PROTOCOL},
    ),
    "close reason that is no text": (
        lambda r: raw_frame(CLOSE, b"\x03\xe8" + "온돌".encode() * r.randrange(10) + b"\xff"),
        {PAYLOAD},
    ),
    "length beyond 63 bits": (
        lambda r: raw_frame(TEXT, b"x", declared=2**63 + r.randrange(2**32)),
        {PROTOCOL, TOO_BIG},
    ),
    "too long in fragments": (
        lambda r: (
            raw_frame(TEXT, b"x" * LIMIT, fin=False) + raw_frame(CONTINUATION, b"x" * r.randrange(1, 99))
        ),
        {TOO_BIG},
    ),
    "another protocol": (
        lambda r: r.choice([b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"SSH-2.0-x\r\n"]),
        {PROTOCOL},
    ),
    "header that is cut off": (lambda r: raw_frame(TEXT, b"x" * 200)[: r.randrange(1, 8)], {None}),
    "payload that is cut off": (lambda r: raw_frame(TEXT, b"x" * 200)[: r.randrange(8, 200)], {None}),
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("frames"), echo)
    served.ready_client().close()
    yield served
    served.close()


@pytest.mark.row(6)
@pytest.mark.parametrize("kind", KINDS)
def test_a_malformed_frame_ends_its_connection_with_the_right_code(
    served: Served, kind: str, long: bool
) -> None:
    make, codes = KINDS[kind]
    random = Random(kind)
    for _ in range(1_000 if long else 100):
        data = make(random)
        raw = RawSocket(served)
        before = raw_frame(TEXT, a_text(random)) if random.randrange(10) == 0 else b""
        raw.send(before + data, end=codes == {None})
        assert raw.close_code() in codes, data[:100]
    served.client().settle()


def a_bomb() -> bytes:
    """Fifty megabytes, deflated as permessage-deflate would."""
    deflate = zlib.compressobj(9, wbits=-15)
    block = b"x" * 2**20
    small = b"".join(deflate.compress(block) for _ in range(50)) + deflate.flush(zlib.Z_SYNC_FLUSH)
    assert len(small) < LIMIT
    return raw_frame(TEXT, small[:-4], reserved=4)


OVERSIZE = {
    "one byte more": (lambda: raw_frame(TEXT, b"x" * (LIMIT + 1)), TOO_BIG),
    "declared 2^62": (lambda: raw_frame(TEXT, b"x" * 1_000, declared=2**62), TOO_BIG),
    "compressed bomb": (a_bomb, PROTOCOL),
}


@pytest.mark.row(8)
@pytest.mark.parametrize("kind", OVERSIZE)
def test_what_is_too_large_is_refused_and_never_held(served: Served, kind: str) -> None:
    make, code = OVERSIZE[kind]
    data = make()
    offer = "Sec-WebSocket-Extensions: permessage-deflate\r\n"

    def send() -> None:
        raw = RawSocket(served, offer)
        assert "extensions" not in raw.head.lower()
        raw.send(data)
        assert raw.close_code() == code

    process = psutil.Process()
    for _ in range(10):
        send()
    gc.collect()
    before = process.memory_info().rss
    for _ in range(50):
        send()
    gc.collect()
    assert process.memory_info().rss - before < MORE_RSS
    served.client().settle()


def test_a_text_of_exactly_the_limit_is_taken(served: Served) -> None:
    client = served.client()
    text = "x" * (LIMIT - len(json.dumps({"type": "count", "id": "full", "text": ""})))
    client.connection.send(json.dumps({"type": "count", "id": "full", "text": text}))
    assert client.wait_for("counted", ref="full")["context"]["excess"] > 0
