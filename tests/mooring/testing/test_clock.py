"""A clock that jumps: no test waits, and none hangs."""

import asyncio
import time

import pytest

from mooring.testing import ClockLoop, Stuck, run_on_fake_clock


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


def test_the_clock_can_be_set_by_hand() -> None:
    loop = ClockLoop()
    try:
        assert loop.time() == 0.0
        loop.pass_time(5)
        assert loop.time() == pytest.approx(5)
    finally:
        loop.close()
