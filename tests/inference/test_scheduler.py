"""Who is next, and what those who wait are told."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.errors import EngineBusy, EngineStopped
from inference.scheduler import WaitingRoom
from inference.sequence import Sequence
from inference.types import Event, GenerationRequest, Queued, SamplingParams


def waiting(name: str, client: str = "", events: list[Event] | None = None) -> Sequence:
    request = GenerationRequest(name, (1,), SamplingParams(), client)
    return Sequence(request, (events if events is not None else []).append, lambda ids: "")


def served(room: WaitingRoom) -> list[str]:
    names = []
    while (sequence := room.take()) is not None:
        names.append(sequence.request.id)
    return names


def test_clients_take_turns() -> None:
    room = WaitingRoom(10)
    for name, client in (("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("c1", "c"), ("b2", "b")):
        room.put(waiting(name, client))
    assert served(room) == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_one_client_alone_is_served_in_order() -> None:
    room = WaitingRoom(10)
    for name in ("one", "two", "three"):
        room.put(waiting(name))
    assert served(room) == ["one", "two", "three"]


def test_everyone_is_told_their_position_whenever_it_changes() -> None:
    room, told = WaitingRoom(10), []
    room.put(waiting("a1", "a"))
    room.put(waiting("a2", "a", told))
    room.put(waiting("b1", "b"))  # comes later, but has its turn before a's second
    room.take()
    room.take()
    positions = [event.position for event in told if isinstance(event, Queued)]
    assert positions == [2, 3, 2, 1]


def test_the_estimate_comes_from_measured_replies() -> None:
    room, told = WaitingRoom(10, served_at_once=2), []
    room.observe(8.0)
    room.put(waiting("first"))
    room.put(waiting("second", events=told))
    assert told == [Queued(2, 8.0)]


def test_a_full_room_says_so_with_the_numbers() -> None:
    room = WaitingRoom(2)
    room.put(waiting("a"))
    room.put(waiting("b"))
    with pytest.raises(EngineBusy, match="2 of 2 places"):
        room.put(waiting("c"))


def test_a_reserved_place_is_kept_for_whoever_has_it() -> None:
    room = WaitingRoom(2)
    room.put(waiting("a"))
    with room.reserve() as place:
        with pytest.raises(EngineBusy, match="2 of 2 places"):
            room.put(waiting("quick"))
        with pytest.raises(EngineBusy, match="2 of 2 places"):
            room.reserve()
        room.put(waiting("b"), place)
    with pytest.raises(EngineBusy):
        room.reserve()
    assert served(room) == ["a", "b"]


def test_a_place_that_was_not_taken_is_free_again() -> None:
    room = WaitingRoom(1)
    with room.reserve():
        pass
    room.put(waiting("a"))


def test_while_the_model_loads_everyone_is_told_so_and_the_estimate_is_for_what_really_fits() -> None:
    room, told = WaitingRoom(5, served_at_once=8), []
    room.observe(8.0)
    room.pause()
    room.put(waiting("a", events=told))
    room.resume(served_at_once=2)
    assert told == [Queued(1, None, loading=True), Queued(1, 4.0)]


def test_nobody_is_let_into_a_closed_room_and_those_inside_are_given_back() -> None:
    room = WaitingRoom(2)
    room.put(waiting("a"))
    assert [sequence.request.id for sequence in room.close()] == ["a"]
    with pytest.raises(EngineStopped):
        room.put(waiting("b"))
    assert not room.wait()


def test_somebody_who_leaves_is_gone() -> None:
    room = WaitingRoom(5)
    for name in "abc":
        room.put(waiting(name))
    assert room.remove("b") is not None
    assert room.remove("b") is None
    assert served(room) == ["a", "c"]


def test_waiting_ends_when_somebody_comes() -> None:
    room = WaitingRoom(5)
    coming = threading.Timer(0.01, lambda: room.put(waiting("a")))
    coming.start()
    assert room.wait(20)
    coming.join()


@given(st.lists(st.sampled_from("abc"), max_size=20))
def test_nobody_waits_behind_two_of_another_client(clients: list[str]) -> None:
    room = WaitingRoom(30)
    for number, client in enumerate(clients):
        room.put(waiting(f"{client}{number}", client))
    order = [name[0] for name in served(room)]
    for client in set(clients):
        turns = [index for index, name in enumerate(order) if name == client]
        for earlier, later in zip([-1, *turns], turns, strict=False):
            between = order[earlier + 1 : later]
            assert all(between.count(other) <= 1 for other in set(between))
