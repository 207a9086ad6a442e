"""Deduplication of concurrent work."""

import asyncio

import pytest

from procontext.fetch import Cancelled, SingleFlight


async def test_concurrent_callers_share_the_result() -> None:
    single_flight: SingleFlight[str, int] = SingleFlight()
    resume = asyncio.Event()
    runs = 0

    async def work() -> int:
        nonlocal runs
        runs += 1
        await resume.wait()
        return runs

    waiting = [asyncio.create_task(single_flight.join("a", work)) for _ in range(5)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert "a" in single_flight
    assert len(single_flight) == 1
    resume.set()
    assert await asyncio.gather(*waiting) == [1] * 5
    assert "a" not in single_flight
    assert await single_flight.join("a", work) == 2


async def test_cancelled_caller_does_not_cancel_the_task() -> None:
    single_flight: SingleFlight[str, str] = SingleFlight()
    resume = asyncio.Event()

    async def work() -> str:
        await resume.wait()
        return "done"

    first = asyncio.create_task(single_flight.join("a", work))
    second = asyncio.create_task(single_flight.join("a", work))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    resume.set()
    assert await second == "done"


async def test_error_reaches_all_callers() -> None:
    single_flight: SingleFlight[str, None] = SingleFlight()

    async def work() -> None:
        raise ValueError("no")

    results = await asyncio.gather(single_flight.join("a", work), single_flight.join("a", work), return_exceptions=True)
    assert [type(result) for result in results] == [ValueError, ValueError]
    task = single_flight.start("b", work)
    await asyncio.wait([task])


async def test_close_cancels_waiting_callers() -> None:
    single_flight: SingleFlight[str, None] = SingleFlight()

    async def work() -> None:
        await asyncio.Event().wait()

    waiting = asyncio.create_task(single_flight.join("a", work))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await single_flight.close()
    with pytest.raises(Cancelled):
        await waiting
