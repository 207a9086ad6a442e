"""An event loop with a fake clock: tests of deadlines and backoff take no time and are deterministic.

When nothing is ready, the loop advances its clock to the next timer instead of sleeping. While a plain function runs in
a thread, the clock is paused. A test that waits for something that never happens fails at once. It is for in-memory
code: child processes and sockets need real time.
"""

import asyncio
import functools
import inspect
import selectors
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor
from pathlib import Path
from types import FrameType
from typing import Any, ParamSpec, TypeVar, TypeVarTuple

from jackstay.errors import UsageError

P = ParamSpec("P")
R = TypeVar("R")
Args = TypeVarTuple("Args")

# Beyond every timer that a test waits for. With a periodic timer (a sweep, a keepalive), a test that waits for
# something that never happens would otherwise run forever.
MAX_SECONDS = 1_000_000.0

# How long the clock waits for a thread, in real seconds. One that blocks for longer may need the clock to continue.
MAX_THREAD_SECONDS = 60.0

# Coroutines that wait for a thread: the module and the function. Other threads belong to `run_in_executor()`.
_THREAD_WAITS = {("jackstay.server._pool", "run"), ("asyncio.base_events", "shutdown_default_executor")}

# Files of Jackstay and asyncio, which are left out of the report.
_LIBRARIES = (str(Path(__file__).parents[1]), str(Path(asyncio.__file__).parent))

# Iterations of the loop in which cancelled tasks can end after a test.
FINAL_ITERATIONS = 5


class DeadlockError(AssertionError):
    """Every task waits, and nothing can wake one: there is no timer or callback, or there are only periodic timers."""


def _waits(loop: asyncio.AbstractEventLoop) -> str:
    """Describe where each task waits: the innermost line outside of Jackstay and asyncio."""
    lines = []
    for task in asyncio.all_tasks(loop):
        places = [f"{frame.f_code.co_filename}:{frame.f_lineno}" for frame in _frames(task)]
        in_tests = [place for place in places if not place.startswith(_LIBRARIES)]
        lines.append(f"\n  {task.get_name()} waits at {(in_tests or places or ['?'])[-1]}")
    return "".join(sorted(lines))


def _frames(task: "asyncio.Task[Any]") -> Iterator[FrameType]:
    """Yield the frames of a task that waits, the innermost one last."""
    coroutine: Any = task.get_coro()
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        yield frame
        coroutine = coroutine.cr_await


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that advances the clock instead of sleeping."""

    loop: "ClockLoop"
    limit = MAX_SECONDS
    thread_seconds = MAX_THREAD_SECONDS

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready now; if nothing is, advance the clock by `timeout`."""
        ready = super().select(0)
        if not ready and timeout != 0 and self.thread_seconds and self.loop.waits_for_threads():
            ready = super().select(self.thread_seconds)
            if not ready:
                self.thread_seconds = 0.0
        if not ready:
            if timeout is None:
                raise DeadlockError(
                    f"deadlock: nothing can wake a task (at {self.loop.time():g} s):{_waits(self.loop)}"
                )
            self.loop.pass_time(timeout)
            if self.loop.time() > self.limit:
                self.limit = float("inf")  # raised once: the cleanup may need timers, too
                raise DeadlockError(
                    f"deadlock: still waiting after {MAX_SECONDS:.0f} s of fake time:{_waits(self.loop)}"
                )
        return ready


class ClockLoop(asyncio.SelectorEventLoop):
    """An event loop with a fake clock, which starts at 0."""

    def __init__(self) -> None:
        self._now = 0.0
        self._in_executors: set[asyncio.Future[Any]] = set()
        selector = _JumpingSelector()
        selector.loop = self
        super().__init__(selector)
        self._clock_resolution = 1e-9  # tolerates rounding errors of timers

    def time(self) -> float:
        """Return the time of the fake clock."""
        return self._now

    def pass_time(self, seconds: float) -> None:
        """Advance the clock. Timers that become due run in the next iteration."""
        self._now += seconds

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Args], R], *args: *Args
    ) -> "asyncio.Future[R]":
        """Run a function in a thread; the clock is paused meanwhile."""
        future = super().run_in_executor(executor, func, *args)
        self._in_executors.add(future)
        future.add_done_callback(self._in_executors.discard)
        return future

    def waits_for_threads(self) -> bool:
        """Return whether a task waits for a function that runs in a thread."""
        if self._in_executors:
            return True
        if threading.active_count() == 1:
            return False
        innermost = (list(_frames(task))[-1:] for task in asyncio.all_tasks(self))
        return any(
            (frame.f_globals["__name__"], frame.f_code.co_name) in _THREAD_WAITS for rows in innermost for frame in rows
        )


def run_on_fake_clock(main: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine like `asyncio.run`, on a loop with a fake clock.

    Raises: DeadlockError, if `main` waits for something that never happens.
    """
    with asyncio.Runner(loop_factory=ClockLoop) as runner:
        return runner.run(main)


def on_fake_clock(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Decorate an async test, so that it runs on a fake clock. The test fails if it leaves a task behind.

    Raises: UsageError for a function that is not async.
    """
    if not inspect.iscoroutinefunction(test):
        raise UsageError(f"on_fake_clock expected an async function, got {getattr(test, '__name__', test)!r}")

    @functools.wraps(test)
    def run(*args: P.args, **named: P.kwargs) -> None:
        async def watched() -> None:
            await test(*args, **named)
            for _ in range(FINAL_ITERATIONS):
                await asyncio.sleep(0)
            left = asyncio.all_tasks() - {asyncio.current_task()}
            assert left == set(), f"the test left tasks behind: {left}"

        run_on_fake_clock(watched())

    return run
