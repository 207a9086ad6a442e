"""The fake clock: tests take no time, and deadlocks are reported."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from jackstay import Server, connect
from jackstay.errors import ToolCallError, UsageError
from jackstay.testing import ClockLoop, DeadlockError, _clock, on_fake_clock, run_on_fake_clock


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


class Slow:
    """A function that is still running when the loop has nothing else to do: `select()` is called meanwhile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_done = False
        self._may_end = threading.Event()
        select = _clock.ClockLoop.waits_for_threads

        def waits_for_threads(loop: ClockLoop) -> bool:
            self._may_end.set()
            return select(loop)

        monkeypatch.setattr(_clock.ClockLoop, "waits_for_threads", waits_for_threads)

    def __call__(self) -> str:
        self._may_end.wait()
        self.is_done = True
        return "done"


def executor(function: Callable[[], str]) -> Any:
    return asyncio.get_running_loop().run_in_executor(None, function)


@pytest.mark.parametrize("start", [asyncio.to_thread, executor])
def test_the_clock_stands_still_while_a_thread_works(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> tuple[str, float]:
        async with asyncio.timeout(5):
            return await start(Slow(monkeypatch)), asyncio.get_running_loop().time()

    assert run_on_fake_clock(main()) == ("done", 0.0)


def test_the_clock_waits_for_plain_tools_and_hooks(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("plain", shutdown_timeout=5)
    hook = Slow(monkeypatch)
    server.tool(name="work")(Slow(monkeypatch).__call__)
    server.on_shutdown(hook)

    async def main() -> str:
        async with connect(server) as client:
            return (await client.tools.call("work", timeout=5)).text

    assert run_on_fake_clock(main()) == "done"
    assert hook.is_done
    assert caplog.records == []


def test_a_thread_that_blocks_for_too_long_does_not_stop_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_clock._JumpingSelector, "thread_seconds", 0.01)
    release = threading.Event()
    server = Server("blocking")
    server.tool(name="block", timeout=5)(lambda: release.wait())

    async def main() -> None:
        async with connect(server) as client:
            with pytest.raises(ToolCallError, match="5 s"):
                await client.tools.call("block")
            release.set()

    run_on_fake_clock(main())
