"""A clock that jumps: no test waits, and none hangs."""

import asyncio
import time

import pytest

from jackstay.errors import UsageError
from jackstay.testing import ClockLoop, Stuck, on_fake_clock, run_on_fake_clock


def test_a_day_passes_in_no_time() -> None:
    async def main() -> float:
        await asyncio.sleep(86_400)
        return asyncio.get_running_loop().time()

    began = time.monotonic()
    assert run_on_fake_clock(main()) == pytest.approx(86_400)
    assert time.monotonic() - began < 5


def test_timers_run_in_their_order() -> None:
    async def main() -> list[str]:
        seen: list[str] = []
        loop = asyncio.get_running_loop()
        for at, name in ((3, "third"), (1, "first"), (2, "second")):
            loop.call_later(at, seen.append, name)
        await asyncio.sleep(4)
        return seen

    assert run_on_fake_clock(main()) == ["first", "second", "third"]


def test_a_timeout_is_a_timeout() -> None:
    async def main() -> None:
        async with asyncio.timeout(30):
            await asyncio.get_running_loop().create_future()

    with pytest.raises(TimeoutError):
        run_on_fake_clock(main())


def test_waiting_for_what_never_comes_is_said_at_once() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Stuck, match="nothing will ever happen"):
        run_on_fake_clock(main())


def test_waiting_for_ever_beside_a_timer_that_comes_again_and_again_is_said_too() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()

        def again() -> None:
            loop.call_later(60, again)

        again()
        await loop.create_future()

    with pytest.raises(Stuck, match=r"has not happened in 1000000 s of this clock"):
        run_on_fake_clock(main())


def test_the_clock_can_be_set_by_hand() -> None:
    loop = ClockLoop()
    try:
        assert loop.time() == 0.0
        loop.pass_time(5)
        assert loop.time() == pytest.approx(5)
    finally:
        loop.close()


def test_an_async_test_becomes_an_ordinary_one_and_must_leave_no_task_behind() -> None:
    seen: list[float] = []

    @on_fake_clock
    async def tidy(seconds: float) -> None:
        await asyncio.sleep(seconds)
        seen.append(asyncio.get_running_loop().time())

    @on_fake_clock
    async def untidy() -> None:
        asyncio.get_running_loop().create_task(asyncio.sleep(1_000), name="left")

    tidy(30)
    assert seen == [30.0]
    assert tidy.__name__ == "tidy"
    with pytest.raises(AssertionError, match=r"tasks are left: .*left"):
        untidy()


def test_what_is_not_async_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="on_fake_clock is for async functions, and 'plain' is none"):

        @on_fake_clock  # type: ignore[arg-type]  # the mistake
        def plain() -> None: ...


def test_a_test_that_is_stuck_is_told_its_line() -> None:
    async def forever() -> None:
        await asyncio.get_running_loop().create_future()

    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(forever(), name="the hopeful one")

    line = forever.__code__.co_firstlineno + 1
    with pytest.raises(Stuck, match=rf"(?s)the hopeful one waits at .*test_clock.py:{line}"):
        run_on_fake_clock(main())
