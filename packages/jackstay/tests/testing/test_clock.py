"""The fake clock: tests take no time, and deadlocks are reported."""

import asyncio
import time

import pytest

from jackstay.errors import UsageError
from jackstay.testing import ClockLoop, DeadlockError, on_fake_clock, run_on_fake_clock


def test_a_sleep_of_a_day_takes_no_real_time() -> None:
    async def main() -> float:
        await asyncio.sleep(86_400)
        return asyncio.get_running_loop().time()

    began = time.monotonic()
    assert run_on_fake_clock(main()) == pytest.approx(86_400)
    assert time.monotonic() - began < 60


def test_timers_run_in_order() -> None:
    async def main() -> list[str]:
        seen: list[str] = []
        loop = asyncio.get_running_loop()
        for at, name in ((3, "third"), (1, "first"), (2, "second")):
            loop.call_later(at, seen.append, name)
        await asyncio.sleep(4)
        return seen

    assert run_on_fake_clock(main()) == ["first", "second", "third"]


def test_timeouts_expire() -> None:
    async def main() -> None:
        async with asyncio.timeout(30):
            await asyncio.get_running_loop().create_future()

    with pytest.raises(TimeoutError):
        run_on_fake_clock(main())


def test_a_deadlock_is_reported_at_once() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(DeadlockError, match="nothing can wake a task"):
        run_on_fake_clock(main())


def test_a_deadlock_beside_a_periodic_timer_is_reported() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()

        def again() -> None:
            loop.call_later(60, again)

        again()
        await loop.create_future()

    with pytest.raises(DeadlockError, match="still waiting after 1000000 s of fake time"):
        run_on_fake_clock(main())


def test_the_clock_can_be_advanced_by_the_test() -> None:
    loop = ClockLoop()
    try:
        assert loop.time() == 0.0
        loop.pass_time(5)
        assert loop.time() == pytest.approx(5)
    finally:
        loop.close()


def test_an_async_test_that_leaves_a_task_behind_fails() -> None:
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
    with pytest.raises(AssertionError, match=r"left tasks behind: .*left"):
        untidy()


def test_a_function_that_is_not_async_is_rejected() -> None:
    with pytest.raises(UsageError, match="on_fake_clock expected an async function, got 'plain'"):

        @on_fake_clock  # type: ignore[arg-type]  # the mistake
        def plain() -> None: ...


def test_a_deadlock_report_has_the_line_of_the_test() -> None:
    async def forever() -> None:
        await asyncio.get_running_loop().create_future()

    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(forever(), name="worker")

    line = forever.__code__.co_firstlineno + 1
    with pytest.raises(DeadlockError, match=rf"(?s)worker waits at .*test_clock.py:{line}"):
        run_on_fake_clock(main())
