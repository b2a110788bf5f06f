"""When a step counts as hung."""

from __future__ import annotations

import threading

from inference.watchdog import LOOKS, Pulse, Watchdog

WAIT_S = 20


def looks(watchdog: Watchdog, count: int) -> list[bool]:
    return [watchdog.look() for _ in range(count)]


def test_a_step_hangs_when_it_is_still_the_same_after_all_looks() -> None:
    pulse = Pulse()
    watchdog = Watchdog(pulse, 60, lambda: None)
    pulse.beat()
    assert looks(watchdog, LOOKS + 1) == [False] * LOOKS + [True]


def test_a_new_step_begins_to_count_anew() -> None:
    pulse = Pulse()
    watchdog = Watchdog(pulse, 60, lambda: None)
    for _ in range(3):
        pulse.beat()
        assert not any(looks(watchdog, LOOKS))


def test_rest_is_no_step_however_long_it_lasts() -> None:
    pulse = Pulse()
    watchdog = Watchdog(pulse, 60, lambda: None)
    pulse.beat()
    pulse.rest()
    assert not any(looks(watchdog, 3 * LOOKS))


def test_the_watchdog_tells_of_a_hang_by_itself() -> None:
    told = threading.Event()
    pulse = Pulse()
    pulse.beat()
    Watchdog(pulse, 0.02, told.set).start()
    assert told.wait(WAIT_S)
