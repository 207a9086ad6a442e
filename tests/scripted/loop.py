"""A loop whose clock is not the world's: where nothing is left to do, time passes to the next timer at once.

So no test sleeps, and every time in a test is exact. A loop with nothing to do and no timer can never go on: that is a hang,
and fails the test where it hangs. For what runs in memory only; real pipes need a real loop.
"""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any

# Far beyond every timer that a test waits for: a loop that turns for so long waits for something that never comes.
MOST_SECONDS = 1_000_000.0


class TimelessLoop(asyncio.SelectorEventLoop):
    """Time passes when there is nothing else to do."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        if not self._ready:  # type: ignore[attr-defined]  # the loop's own queue: there is no other way to look at it
            waiting = [handle.when() for handle in self._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]  # as above
            if not waiting:
                raise AssertionError("everybody waits, and nothing can happen any more")
            self.now = max(self.now, min(waiting))
            if self.now > MOST_SECONDS:
                raise AssertionError("somebody waits for what never comes")
        super()._run_once()  # type: ignore[misc]  # as above


def timeless(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test on a timeless loop, which must leave no task behind."""

    @functools.wraps(test)
    def run(*args: Any, **named: Any) -> None:
        async def watched() -> None:
            await test(*args, **named)
            await _leave_nothing()

        with asyncio.Runner(loop_factory=TimelessLoop) as runner:
            runner.run(watched())

    return run


def timed(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test on an ordinary loop, for real pipes; it may take 30 seconds and must leave no task behind."""

    @functools.wraps(test)
    def run(*args: Any, **named: Any) -> None:
        async def watched() -> None:
            async with asyncio.timeout(30):
                await test(*args, **named)
            await _leave_nothing()

        asyncio.run(watched())

    return run


async def _leave_nothing() -> None:
    for _ in range(5):  # whoever has just been told to end gets his turns
        await asyncio.sleep(0)
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert left == set(), f"tasks are left: {left}"
