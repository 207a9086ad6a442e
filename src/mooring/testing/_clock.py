"""A loop whose clock jumps: tests of deadlines and backoff take no time, and give the same answer every time.

When nothing is ready, real loops sleep until the next timer; this one sets its clock to it. Nothing ever waits, so a test that
waits for something that will never happen is told so at once instead of hanging. For code that lives in one loop and in
memory: a child process or a socket needs real time, and gets none here.

Must never know what it runs. Above: tests. Below: asyncio.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

R = TypeVar("R")


class Stuck(AssertionError):  # what the test is, not what it did
    """Everything waits, and nothing is left that could happen: no timer, no callback, no file."""


class _JumpingSelector(selectors.DefaultSelector):
    """Looks, and never waits: where a selector would sleep, it moves the clock."""

    loop: "ClockLoop"

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready now; if nothing is, the time passes."""
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise Stuck(f"nothing will ever happen any more (at {self.loop.time():g} s)")
            self.loop.pass_time(timeout)
        return ready


class ClockLoop(asyncio.SelectorEventLoop):
    """An event loop with a clock of its own, which begins at 0."""

    def __init__(self) -> None:
        self._now = 0.0
        selector = _JumpingSelector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        """The time on this clock."""
        return self._now

    def pass_time(self, seconds: float) -> None:
        """Set the clock forward. Timers that become due run in the next turn."""
        # The loop rounds what it waits for down to its resolution: without a nudge it would ask again for ever.
        self._now += seconds + 1e-9


def run_on_fake_clock(main: Coroutine[Any, Any, R]) -> R:
    """`asyncio.run` on a loop whose clock jumps.

    Raises: Stuck, if `main` waits for something that will never happen.
    """
    with asyncio.Runner(loop_factory=ClockLoop) as runner:
        return runner.run(main)
