"""One piece of work at a time for one key (design, section 2, point 4)."""

import asyncio

import pytest

from procontext.fetch import Flights, Grounded
from scripted.loop import timed


@timed
async def test_who_asks_meanwhile_gets_the_same_result() -> None:
    flights: Flights[str, int] = Flights()
    go = asyncio.Event()
    runs = 0

    async def work() -> int:
        nonlocal runs
        runs += 1
        await go.wait()
        return runs

    waiting = [asyncio.create_task(flights.join("a", work)) for _ in range(5)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert "a" in flights
    assert len(flights) == 1
    go.set()
    assert await asyncio.gather(*waiting) == [1] * 5
    assert "a" not in flights
    assert await flights.join("a", work) == 2


@timed
async def test_who_goes_away_does_not_take_the_result_from_the_others() -> None:
    flights: Flights[str, str] = Flights()
    go = asyncio.Event()

    async def work() -> str:
        await go.wait()
        return "done"

    first = asyncio.create_task(flights.join("a", work))
    second = asyncio.create_task(flights.join("a", work))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    go.set()
    assert await second == "done"


@timed
async def test_an_error_reaches_everybody_and_nobody_complains_of_one_not_seen() -> None:
    flights: Flights[str, None] = Flights()

    async def work() -> None:
        raise ValueError("no")

    results = await asyncio.gather(flights.join("a", work), flights.join("a", work), return_exceptions=True)
    assert [type(result) for result in results] == [ValueError, ValueError]
    task = flights.start("b", work)
    await asyncio.wait([task])


@timed
async def test_closing_ends_the_work_and_says_so_to_who_waits() -> None:
    flights: Flights[str, None] = Flights()

    async def work() -> None:
        await asyncio.Event().wait()

    waiting = asyncio.create_task(flights.join("a", work))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await flights.close()
    with pytest.raises(Grounded):
        await waiting
