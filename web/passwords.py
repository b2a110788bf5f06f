"""Passwords, for people who want to connect a further device of theirs without a code.

What is kept is derived with scrypt (RFC 7914) at the strength that OWASP's cheat sheet on password storage
names: N = 2^15, r = 8, p = 3, which takes 32 MiB. Blocks; at most one derivation runs at a time, so that
strangers who guess cannot take the memory.
"""

from __future__ import annotations

import secrets
import threading
import unicodedata
from base64 import b64decode, b64encode
from functools import lru_cache
from hashlib import scrypt
from hmac import compare_digest

SHORTEST, LONGEST = 8, 256
"""Characters."""

_LOG_N, _R, _P = 15, 8, 3
_SALT_BYTES, _KEY_BYTES = 16, 32
_MEMORY_BYTES = 2 * 128 * _R * 2**_LOG_N

_one_at_a_time = threading.Lock()


def derive(password: str) -> str:
    """What is kept of a password: `scrypt$log2(N)$r$p$salt$key`, the last two in base64."""
    salt = secrets.token_bytes(_SALT_BYTES)
    key = _key(password, salt, _LOG_N, _R, _P)
    return f"scrypt${_LOG_N}${_R}${_P}${b64encode(salt).decode()}${b64encode(key).decode()}"


def matches(password: str, kept: str) -> bool:
    """Whether it is the password of which that was kept."""
    _, log_n, r, p, salt, key = kept.split("$")
    return compare_digest(_key(password, b64decode(salt), int(log_n), int(r), int(p)), b64decode(key))


@lru_cache(maxsize=1)
def nobodys() -> str:
    """To be compared with where nobody has a password: how long an answer takes must not tell who has one."""
    return derive(secrets.token_urlsafe(32))


def _key(password: str, salt: bytes, log_n: int, r: int, p: int) -> bytes:
    text = unicodedata.normalize("NFKC", password).encode()
    with _one_at_a_time:
        return scrypt(text, salt=salt, n=2**log_n, r=r, p=p, maxmem=_MEMORY_BYTES, dklen=_KEY_BYTES)
