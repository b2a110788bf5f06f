"""Codes, the owner's secret, and what wrong guesses cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from web.attempts import CAPACITY, FORGET_S, Attempts
from web.pairing import Invited, Outcome, OwnerLink, PairingCodes, draw_code


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def counting() -> Callable[[], str]:
    numbers: Iterator[int] = iter(range(10_000))
    return lambda: f"{next(numbers):08}"


@pytest.fixture
def codes(clock: Clock) -> PairingCodes:
    return PairingCodes(clock, counting())


def test_codes_are_eight_digits_and_differ() -> None:
    drawn = {draw_code() for _ in range(200)}
    assert len(drawn) > 190
    assert all(code.isascii() and code.isdigit() and len(code) == 8 for code in drawn)


@pytest.mark.row(31)
def test_a_code_lets_one_device_in(codes: PairingCodes) -> None:
    code = codes.issue()
    assert [codes.redeem(code) for _ in range(3)] == [Invited(), Outcome.USED, Outcome.USED]


@pytest.mark.row(31)
def test_a_code_is_good_for_two_minutes(codes: PairingCodes, clock: Clock) -> None:
    first, second = codes.issue(), codes.issue()
    clock.now = 119.9
    assert codes.redeem(first) == Invited()
    clock.now = 120.0
    assert codes.redeem(second) is Outcome.EXPIRED


def test_how_a_code_is_spaced_does_not_matter(codes: PairingCodes) -> None:
    code = codes.issue()
    assert codes.redeem(f" {code[:4]} {code[4:6]}-{code[6:]} ") == Invited()


@pytest.mark.parametrize("guess", ["", "0", "99999999", "٠٠٠٠٠٠٠٠", "\ud800", "x" * 64])
def test_anything_else_is_wrong(codes: PairingCodes, guess: str) -> None:
    code = codes.issue()
    assert codes.redeem(guess) is Outcome.WRONG
    assert codes.redeem(code) == Invited()


def test_four_codes_are_good_at_a_time(codes: PairingCodes) -> None:
    issued = [codes.issue() for _ in range(5)]
    assert [codes.redeem(code) for code in issued] == [Outcome.EXPIRED] + [Invited()] * 4


def test_fifty_wrong_guesses_withdraw_a_code(codes: PairingCodes) -> None:
    guessed_at, spared = codes.issue(), codes.issue()
    for _ in range(49):
        codes.redeem("99999999")
    assert codes.redeem(spared) == Invited()
    codes.redeem("99999999")
    assert codes.redeem(guessed_at) is Outcome.EXPIRED
    assert codes.redeem(codes.issue()) == Invited()


def test_the_owners_secret_is_good_again_and_again_until_a_new_one() -> None:
    link = OwnerLink()
    assert not link.matches("")
    first = link.issue()
    assert len(first) >= 22  # at least 128 bits in base64
    assert link.matches(first)
    assert link.matches(first)
    assert not link.matches(first[:-1])
    second = link.issue()
    assert not link.matches(first)
    assert link.matches(second)


def test_after_three_wrong_guesses_the_waits_grow_to_a_minute(clock: Clock) -> None:
    attempts = Attempts(clock)
    waits = []
    for _ in range(12):
        assert attempts.wait_s("10.0.0.2") == 0
        attempts.failed("10.0.0.2")
        waits.append(attempts.wait_s("10.0.0.2"))
        clock.now += waits[-1]
    assert waits == [0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60]
    assert attempts.wait_s("10.0.0.3") == 0


def test_a_wait_begins_when_the_guess_is_known_to_be_wrong(clock: Clock) -> None:
    attempts = Attempts(clock)
    for _ in range(4):
        attempts.failed("10.0.0.2")
    clock.now += 1.5
    attempts.restart("10.0.0.2")
    attempts.restart("10.0.0.3")
    assert [attempts.wait_s(address) for address in ("10.0.0.2", "10.0.0.3")] == [2, 0]


def test_a_right_guess_or_quiet_ends_the_waiting(clock: Clock) -> None:
    attempts = Attempts(clock)
    for address in ("10.0.0.2", "10.0.0.3"):
        for _ in range(9):
            attempts.failed(address)
    attempts.succeeded("10.0.0.2")
    attempts.failed("10.0.0.2")
    assert attempts.wait_s("10.0.0.2") == 0
    clock.now += FORGET_S + 1
    attempts.failed("10.0.0.3")
    assert attempts.wait_s("10.0.0.3") == 0


def test_no_more_addresses_are_remembered_than_there_is_room_for(clock: Clock) -> None:
    attempts = Attempts(clock)
    for number in range(CAPACITY + 5):
        for _ in range(3):
            attempts.failed(f"10.0.{number // 256}.{number % 256}")
    assert attempts.wait_s("10.0.0.4") == 0
    assert attempts.wait_s("10.0.0.5") > 0
