"""Events on their way from the worker thread to the event loop."""

from __future__ import annotations

import asyncio

from inference.stream import EventStream
from inference.types import Delta, Event, Finished, FinishReason, Prefill, Timings, TokenLogprob, Usage

END = Finished(FinishReason.STOP, Usage(1, 0, 1), Timings(0, 0, None, 0, 0))


async def read_all(stream: EventStream) -> list[Event]:
    return [event async for event in stream]


def test_deltas_merge_while_the_reader_is_behind() -> None:
    async def scenario() -> list[Event]:
        stream = EventStream(asyncio.get_running_loop())
        for number in range(100):
            stream.put(Delta(str(number % 10), (number,)))
        stream.put(END)
        return await read_all(stream)

    events = asyncio.run(scenario())
    assert events == [Delta("0123456789" * 10, tuple(range(100))), END]


def test_logprobs_of_merged_deltas_follow_each_other() -> None:
    tokens = [TokenLogprob(number, -0.5 * number, ((1, -0.1),)) for number in range(5)]

    async def scenario() -> list[Event]:
        stream = EventStream(asyncio.get_running_loop())
        for token in tokens:
            stream.put(Delta("x", (token.token_id,), (token,)))
        stream.put(Delta("held back", ()))
        stream.put(END)
        return await read_all(stream)

    assert asyncio.run(scenario()) == [Delta("xxxxxheld back", (0, 1, 2, 3, 4), tuple(tokens)), END]


def test_only_the_newest_progress_waits() -> None:
    async def scenario() -> list[Event]:
        stream = EventStream(asyncio.get_running_loop())
        for done in range(0, 100, 10):
            stream.put(Prefill(done, 100, 0))
        stream.put(END)
        return await read_all(stream)

    assert asyncio.run(scenario()) == [Prefill(90, 100, 0), END]


def test_nothing_is_lost_between_threads() -> None:
    async def scenario() -> list[Event]:
        stream = EventStream(asyncio.get_running_loop())

        def produce() -> None:
            for number in range(2_000):
                stream.put(Delta("x", (number,)))
            stream.put(END)

        producing = asyncio.get_running_loop().run_in_executor(None, produce)
        events = await read_all(stream)
        await producing
        return events

    events = asyncio.run(scenario())
    ids = [token for event in events if isinstance(event, Delta) for token in event.token_ids]
    assert ids == list(range(2_000))


def test_a_closed_loop_does_not_disturb_the_worker() -> None:
    loop = asyncio.new_event_loop()
    stream = EventStream(loop)
    loop.close()
    stream.put(END)
