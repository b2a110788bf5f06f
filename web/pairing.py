"""What lets a device in: short codes for everybody's devices, and the owner's link. Event loop.

Codes and the owner's secret exist in this process only, and only as digests; they end with it.
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from hmac import compare_digest

CODE_DIGITS = 8
CODE_LIFE_S = 120.0
MAX_LIVE = 4
MAX_REMEMBERED = 16
MAX_GUESSES = 50


class Outcome(StrEnum):
    """Why a code lets nobody in."""

    WRONG = "wrong"
    EXPIRED = "expired"
    USED = "used"


@dataclass(frozen=True, slots=True)
class Invited:
    """Whose a device will be: that of a person, or of somebody new (`person_id` None), who is called `name`
    or like the device.
    """

    person_id: str | None = None
    name: str = ""


@dataclass(slots=True)
class _Code:
    digest: bytes
    expires_at: float
    whose: Invited
    used: bool = False
    guesses: int = 0


def draw_code() -> str:
    """Eight digits: they are on every keyboard in the same place, whatever language it is set to."""
    return f"{secrets.randbelow(10**CODE_DIGITS):0{CODE_DIGITS}}"


class PairingCodes:
    """Codes that let one device in, within two minutes.

    At most four are good at a time. 50 wrong guesses while a code is good withdraw it: against eight digits
    they find one with a probability of 2 in a million, from however many addresses they come.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, draw: Callable[[], str] = draw_code
    ) -> None:
        self._clock = clock
        self._draw = draw
        self._codes: deque[_Code] = deque(maxlen=MAX_REMEMBERED)

    def issue(self, whose: Invited = Invited()) -> str:
        """A new code, for a device of that person. Of the good ones the oldest ends if there are too many."""
        code = self._draw()
        for earlier in self._live()[: -MAX_LIVE + 1]:
            earlier.expires_at = self._clock()
        self._codes.append(_Code(_digest(code), self._clock() + CODE_LIFE_S, whose))
        return code

    def redeem(self, code: str) -> Outcome | Invited:
        """Use a code up; spaces and hyphens don't matter. Of any number of tries exactly one succeeds."""
        digest = _digest("".join(character for character in code if character not in " -"))
        found = None
        for each in self._codes:  # all of them, always: how long it takes must tell nothing
            if compare_digest(each.digest, digest):
                found = each
        if found is None:
            for each in self._live():
                each.guesses += 1
            return Outcome.WRONG
        if found.used:
            return Outcome.USED
        if not self._is_live(found):
            return Outcome.EXPIRED
        found.used = True
        return found.whose

    def _live(self) -> list[_Code]:
        return [code for code in self._codes if self._is_live(code)]

    def _is_live(self, code: _Code) -> bool:
        return not code.used and code.guesses < MAX_GUESSES and self._clock() < code.expires_at


class OwnerLink:
    """The secret in the link that the terminal prints.

    It is good until the server ends, and for any number of browsers: a terminal opens links in whichever
    browser it likes, and who can read it there may start another server anyway.
    """

    def __init__(self) -> None:
        self._digest: bytes | None = None

    def issue(self) -> str:
        """A new secret; an earlier one is no longer good."""
        secret = secrets.token_urlsafe(24)
        self._digest = _digest(secret)
        return secret

    def matches(self, secret: str) -> bool:
        """Whether this is the owner's secret."""
        return self._digest is not None and compare_digest(self._digest, _digest(secret))


def _digest(secret: str) -> bytes:
    return sha256(secret.encode("utf-8", "replace")).digest()
