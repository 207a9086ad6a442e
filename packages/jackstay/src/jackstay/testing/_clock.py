"""A loop whose clock jumps: tests of deadlines and backoff take no time, and give the same answer every time.

When nothing is ready, real loops sleep until the next timer; this one sets its clock to it. Nothing ever waits, so a test that
waits for something that will never happen is told so at once instead of hanging. For code that lives in one loop and in
memory: a child process or a socket needs real time, and gets none here.

Must never know what it runs. Above: tests. Below: asyncio.
"""

import asyncio
import functools
import inspect
import selectors
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from jackstay.errors import UsageError

P = ParamSpec("P")
R = TypeVar("R")

# Far beyond every timer that a test waits for. Where something wakes up for ever (a sweep, a keepalive), a test that waits for
# what never comes would otherwise never be told.
LONGEST_SECONDS = 1_000_000.0

# Files that a test's author did not write: the runtime's, and asyncio's.
_OURS = (str(Path(__file__).parents[1]), str(Path(asyncio.__file__).parent))

# Turns of the loop for those who were told to end in the last moment of a test.
LAST_TURNS = 5


class Stuck(AssertionError):  # what the test is, not what it did
    """Everything waits, and nothing is left that could happen: no timer, no callback, no file; or timers, and nothing else."""


def _waits(loop: asyncio.AbstractEventLoop) -> str:
    """Where each task waits, for people: the line of theirs, since every await ends in one of ours."""
    lines = []
    for task in asyncio.all_tasks(loop):
        places = []
        coroutine: Any = task.get_coro()
        while (frame := getattr(coroutine, "cr_frame", None)) is not None:
            places.append(f"{frame.f_code.co_filename}:{frame.f_lineno}")
            coroutine = coroutine.cr_await
        theirs = [place for place in places if not place.startswith(_OURS)]
        lines.append(f"\n  {task.get_name()} waits at {(theirs or places or ['?'])[-1]}")
    return "".join(sorted(lines))


class _JumpingSelector(selectors.DefaultSelector):
    """Looks, and never waits: where a selector would sleep, it moves the clock."""

    loop: "ClockLoop"
    limit = LONGEST_SECONDS

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready now; if nothing is, the time passes."""
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise Stuck(
                    f"nothing will ever happen any more (at {self.loop.time():g} s);{_waits(self.loop)}"
                )
            self.loop.pass_time(timeout)
            if self.loop.time() > self.limit:
                self.limit = float("inf")  # said once: what is cleaned up after it may need timers, too
                raise Stuck(
                    f"what is waited for has not happened in {LONGEST_SECONDS:.0f} s of this clock;{_waits(self.loop)}"
                )
        return ready


class ClockLoop(asyncio.SelectorEventLoop):
    """An event loop with a clock of its own, which begins at 0."""

    def __init__(self) -> None:
        self._now = 0.0
        selector = _JumpingSelector()
        selector.loop = self
        super().__init__(selector)
        self._clock_resolution = 1e-9  # sums of floats: a timer that is due but for a rounding error is due

    def time(self) -> float:
        """The time on this clock."""
        return self._now

    def pass_time(self, seconds: float) -> None:
        """Set the clock forward. Timers that become due run in the next turn."""
        self._now += seconds


def run_on_fake_clock(main: Coroutine[Any, Any, R]) -> R:
    """`asyncio.run` on a loop whose clock jumps.

    Raises: Stuck, if `main` waits for something that will never happen.
    """
    with asyncio.Runner(loop_factory=ClockLoop) as runner:
        return runner.run(main)


def on_fake_clock(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A decorator: an async test becomes an ordinary one, run on a clock that jumps. It must leave no task behind.

    Raises: UsageError for a function that is not async.
    """
    if not inspect.iscoroutinefunction(test):
        raise UsageError(
            f"on_fake_clock is for async functions, and {getattr(test, '__name__', test)!r} is none"
        )

    @functools.wraps(test)
    def run(*args: P.args, **named: P.kwargs) -> None:
        async def watched() -> None:
            await test(*args, **named)
            for _ in range(LAST_TURNS):
                await asyncio.sleep(0)
            left = asyncio.all_tasks() - {asyncio.current_task()}
            assert left == set(), f"tasks are left: {left}"

        run_on_fake_clock(watched())

    return run
