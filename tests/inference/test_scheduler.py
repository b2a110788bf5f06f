"""Who is next, and what those who wait are told."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.errors import EngineBusy, EngineStopped
from inference.scheduler import WaitingRoom
from inference.sequence import Sequence
from inference.types import Event, GenerationRequest, Queued, SamplingParams


def waiting(name: str, person: str = "", events: list[Event] | None = None) -> Sequence:
    request = GenerationRequest(name, (1,), SamplingParams(), person)
    return Sequence(request, (events if events is not None else []).append, lambda ids: "")


def served(room: WaitingRoom) -> list[str]:
    """Serve everybody, each until its end."""
    names = []
    while (sequence := room.take()) is not None:
        names.append(sequence.request.id)
        room.leave(sequence)
    return names


def come(room: WaitingRoom, *names: str) -> None:
    """Requests that are named after their person and a number."""
    for name in names:
        room.put(waiting(name, name[0]))


def taken(room: WaitingRoom) -> Sequence:
    sequence = room.take()
    assert sequence is not None
    return sequence


def test_people_take_turns_and_are_each_served_in_order() -> None:
    room = WaitingRoom(10)
    come(room, "a1", "a2", "b1", "c1", "b2", "c2")
    assert served(room) == ["a1", "b1", "c1", "a2", "b2", "c2"]


def test_who_has_nothing_running_comes_before_who_has() -> None:
    room = WaitingRoom(10)
    come(room, "a1", "b1", "a2", "b2")
    running = [taken(room), taken(room)]
    room.leave(running[1])  # b was served after a, but has nothing running now
    assert taken(room).request.id == "b2"


def test_who_was_served_last_is_known_as_long_as_that_runs() -> None:
    room = WaitingRoom(10)
    come(room, "a1")
    running = taken(room)  # nobody waits any more
    come(room, "a2", "b1")
    room.leave(running)
    assert served(room) == ["b1", "a2"]


def test_who_waits_alone_may_fill_the_room_and_run_in_every_place() -> None:
    room = WaitingRoom(3, served_at_once=3)
    come(room, "a1", "a2", "a3")
    with pytest.raises(EngineBusy, match="^3 of 3 places"):
        come(room, "a4")
    assert [taken(room).request.id for _ in range(3)] == ["a1", "a2", "a3"]


def test_two_of_one_person_may_wait_beside_others_and_whoever_is_in_stays() -> None:
    room = WaitingRoom(3)
    come(room, "a1", "a2", "a3", "b1", "b2")  # a has filled the room, and yet b is let in
    with pytest.raises(EngineBusy, match="You have 2 in the queue") as refused:
        come(room, "b3")
    assert (refused.value.waiting, refused.value.limit) == (2, 2)
    with pytest.raises(EngineBusy, match="You have 3 in the queue"):
        come(room, "a4")
    assert served(room) == ["a1", "b1", "a2", "b2", "a3"]
    come(room, "a4", "a5", "a6")  # alone again


def test_a_reserved_place_is_kept_when_others_come_and_makes_them_share() -> None:
    room = WaitingRoom(4)
    come(room, "a1", "a2")
    with room.reserve("a") as place:
        come(room, "b1")
        room.put(waiting("a3", "a"), place)
    with room.reserve("c"), pytest.raises(EngineBusy):
        come(room, "a4")
    assert served(room) == ["a1", "b1", "a2", "a3"]


def test_one_person_alone_is_served_in_order() -> None:
    room = WaitingRoom(10)
    for name in ("one", "two", "three"):
        room.put(waiting(name))
    assert served(room) == ["one", "two", "three"]


def test_everyone_is_told_their_position_whenever_it_changes() -> None:
    room, told = WaitingRoom(10), []
    room.put(waiting("a1", "a"))
    room.put(waiting("a2", "a", told))
    room.put(waiting("b1", "b"))  # comes later, but has its turn before a's second
    room.leave(taken(room))
    room.leave(taken(room))
    positions = [event.position for event in told if isinstance(event, Queued)]
    assert positions == [2, 3, 2, 1]


def test_positions_count_on_what_began_first_ending_first() -> None:
    room, told = WaitingRoom(10, served_at_once=3), []
    come(room, "a1", "b1", "a2")
    longest, _, short = (taken(room) for _ in range(3))
    room.leave(short)
    come(room, "c1")
    taken(room)
    come(room, "b2")
    room.put(waiting("a3", "a", told))  # a was served after b, but will have nothing running before b
    assert told == [Queued(1)]
    room.leave(longest)
    assert taken(room).request.id == "a3"


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


class House:
    """A room and a worker with so many running places and so much memory; what was served, in order.

    A request of someone whose name is a capital letter takes four times the memory of another's.
    """

    def __init__(self, running_places: int, memory: int) -> None:
        self.room = WaitingRoom(4, running_places)
        self.running: list[Sequence] = []
        self.waiting: list[Sequence] = []
        self.turns: dict[str, list[str]] = {}  # who was served while that person waited with nothing running
        self._places, self._memory, self._count = running_places, memory, 0
        self.told: dict[str, int] = {}

    def comes(self, person: str) -> None:
        own = sum(s.request.person == person for s in self.waiting)
        alone = own == len(self.waiting)
        sequence = waiting(f"{person}{self._count}", person)
        sequence.emit = lambda event, name=sequence.request.id: self._hear(name, event)  # type: ignore[misc]
        self._count += 1
        if own >= (4 if alone else 2):
            with pytest.raises(EngineBusy):
                self.room.put(sequence)
        else:
            self.room.put(sequence)
            self.waiting.append(sequence)
        self.admit()

    def ends(self, place: int) -> None:
        if self.running:
            self.room.leave(self.running.pop(place % len(self.running)))
        self.admit()

    def admit(self) -> None:
        self._note_who_is_due()
        while len(self.running) < self._places:
            sequence = self.room.take(self._fits)
            if sequence is None:
                break
            self._check_turn(sequence)
            self.waiting.remove(sequence)
            self.running.append(sequence)
            self._note_who_is_due()
        if self.waiting and len(self.running) < self._places:  # a free place is kept for who is next alone
            assert self.running
            assert not self._fits(min(self.waiting, key=lambda s: self.told[s.request.id]))

    def _fits(self, sequence: Sequence) -> bool:
        weights = [4 if s.request.person.isupper() else 1 for s in (*self.running, sequence)]
        return not self.running or sum(weights) <= self._memory

    def _hear(self, name: str, event: Event) -> None:
        assert isinstance(event, Queued)
        self.told[name] = event.position

    def _due(self) -> set[str]:
        return {s.request.person for s in self.waiting} - {s.request.person for s in self.running}

    def _note_who_is_due(self) -> None:
        self.turns = {person: self.turns.get(person, []) for person in self._due()}

    def _check_turn(self, sequence: Sequence) -> None:
        person = sequence.request.person
        assert sequence is next(s for s in self.waiting if s.request.person == person)
        assert person in self._due() or not self._due()
        assert person not in [p for due, turns in self.turns.items() if due != person for p in turns]
        for turns in self.turns.values():
            turns.append(person)


moves = st.lists(st.sampled_from("abA") | st.integers(0, 2), max_size=40)


@settings(max_examples=300)
@given(moves, st.integers(1, 3), st.integers(4, 12))
def test_no_place_is_idle_and_each_other_person_comes_before_you_once_at_most(
    moves: list[str | int], running_places: int, memory: int
) -> None:
    house = House(running_places, memory)
    for move in moves:
        house.comes(move) if isinstance(move, str) else house.ends(move)
    while house.running:
        house.ends(0)
    assert not house.waiting  # whoever was let in was served


@settings(max_examples=300)
@given(moves, st.integers(1, 3))
def test_the_positions_that_were_told_come_true(moves: list[str | int], running_places: int) -> None:
    house = House(running_places, memory=100)
    for move in moves:
        house.comes(move) if isinstance(move, str) else house.ends(move)
    told = sorted(house.waiting, key=lambda sequence: house.told[sequence.request.id])
    assert [house.told[sequence.request.id] for sequence in told] == list(range(1, len(told) + 1))
    served = []
    while house.running:
        house.ends(0)
        served += [sequence for sequence in house.running if sequence in told and sequence not in served]
    assert served == told
