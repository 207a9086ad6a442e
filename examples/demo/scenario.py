"""The steps of the demonstration: the faults of the server, and when they happen.

A step waits for events, not only for time: on a slow machine the run takes longer, but is the same. At the end the
callers finish, the client stops, and the outcomes are compared with the ledger.
"""

import asyncio
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from demo.callers import CALL_STYLES, Caller
from demo.ledger import compare
from demo.log import RunLog
from demo.observer import Observer
from jackstay.client import Client, connect
from jackstay.transport import stdio

TARGET_SERVER = Path(__file__).parent / "target_server.py"

# The approximate duration in seconds, at pace 1.
LENGTH = 56.0
# How long a step continues after the client is ready again, at pace 1.
AFTERWARDS = 7.5
# The limit for waiting, at any pace.
TIMEOUT = 30.0
# Concurrent payments, so that a kill hits several.
BUSY = 3
# With shorter values, a slow machine would be mistaken for a hung server.
MIN_KEEPALIVE = 0.2
MIN_CLOSE_STEP = 0.15


class ScenarioError(Exception):
    """An expected event did not happen; the message names it."""


class Harness:
    """The client, its server and its callers."""

    def __init__(self, directory: Path, pace: float = 1.0) -> None:
        self.directory = directory
        self.pace = pace
        self._started_at = time.monotonic()
        labels = tuple(style.label for style in CALL_STYLES)
        self.log = RunLog(labels, len(STEPS), LENGTH * pace)
        self.client = self._make_client()
        self.observer = Observer(self.client, self.log, self.clock)
        self.callers = [Caller(self.log, lane, style, self.clock, pace) for lane, style in enumerate(CALL_STYLES)]
        self.tasks: list[asyncio.Task[None]] = []

    def _make_client(self) -> Client:
        target = stdio(
            sys.executable, TARGET_SERVER, self.directory, str(self.pace), name="target", inherit_env=["PYTHONPATH"]
        )
        return connect(
            target,
            backoff_min=1.0 * self.pace,
            backoff_max=8.0 * self.pace,
            keepalive=max(1.0 * self.pace, MIN_KEEPALIVE),
            close_step=max(0.5 * self.pace, MIN_CLOSE_STEP),
            request_timeout=TIMEOUT,
        )

    def clock(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started_at

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Connect the client and start the callers; stop all of them in the end."""
        async with self.client:
            # The tool list contains which tools can be retried.
            await self.client.tools.list()
            self.find_server()
            for caller in self.callers:
                task = asyncio.create_task(caller.work(self.client))
                self.observer.lanes[task] = caller.lane
                self.tasks.append(task)
            try:
                yield
            finally:
                for task in self.tasks:
                    task.cancel()
                await asyncio.gather(*self.tasks, return_exceptions=True)

    def begin(self, step: "Step") -> None:
        """Start a step."""
        self.log.begin_step(self.clock(), step.head, step.detail)

    def pids(self) -> list[int]:
        """The pids of all servers that were started, in order."""
        return [int(line) for line in (self.directory / "pids").read_text().split()]

    def find_server(self) -> None:
        """Log the current server."""
        pids = self.pids()
        self.log.pid, self.log.servers = pids[-1], len(pids)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the server, and log it."""
        calls_in_flight = sorted(self.calls_in_flight().items(), reverse=True)
        open_calls = " and ".join(f"{count} {tool}" for tool, count in calls_in_flight)
        os.kill(self.log.pid, number)
        self.add_line(f"{number.name} to the server, pid {self.log.pid}, with {open_calls or 'nothing'} in flight")

    def add_line(self, text: str) -> None:
        """Add a line to the log."""
        self.log.add_line(self.clock(), text)

    async def keep_going(self, seconds: float) -> None:
        """Wait for some seconds, scaled by the pace. Raises if a caller ends."""
        done, _ = await asyncio.wait(self.tasks, timeout=seconds * self.pace, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    async def wait_for(self, condition: Callable[[], bool], event: str) -> None:
        """Wait until `condition()` is True. Raises: ScenarioError after the timeout."""
        try:
            async with asyncio.timeout(TIMEOUT):
                while not condition():
                    await self.log.changed()
        except TimeoutError as late:
            raise ScenarioError(f"{event}: not within {TIMEOUT:g} s") from late

    async def wait_until_ready(self) -> None:
        """Wait until the client is ready again and calls succeed, then a little longer."""
        log = self.log
        await self.wait_for(lambda: log.state == "ready", "the client is ready again")
        self.find_server()
        ended = len(log.outcomes)
        await self.wait_for(lambda: len(log.outcomes) >= ended + len(CALL_STYLES), "calls end again")
        await self.keep_going(AFTERWARDS)

    def calls_in_flight(self) -> Counter[str]:
        """The number of open calls of each tool."""
        return Counter(call.nonce.partition("-")[0] for call in self.log.open_calls)

    async def wait_until_busy(self) -> None:
        """Wait until several payments are in flight, one of which has just started."""
        before = self.log.lanes[0].open

        def is_busy() -> bool:
            calls_in_flight = self.calls_in_flight()
            return (
                self.log.lanes[0].open not in (None, before)
                and calls_in_flight["pay"] >= BUSY
                and calls_in_flight["read"] > 0
            )

        await self.wait_for(is_busy, "several calls are in flight")

    async def wait_until_lost(self) -> None:
        """Wait until the client has detected the loss of the server."""
        await self.wait_for(lambda: self.log.state == "backoff", "the client detects the loss")


async def flow(harness: Harness) -> None:
    """Calls succeed."""
    await harness.wait_for(lambda: len(harness.log.outcomes) >= 2 * len(CALL_STYLES), "calls succeed")
    await harness.keep_going(AFTERWARDS)


async def kill(harness: Harness) -> None:
    """Kill the server with calls in flight."""
    await harness.wait_until_busy()
    harness.send(signal.SIGKILL)
    await harness.wait_until_lost()
    await harness.wait_until_ready()


async def hang(harness: Harness) -> None:
    """Stop the server: the process exists, but does not respond."""
    harness.send(signal.SIGSTOP)
    await harness.wait_until_lost()
    await harness.wait_until_ready()


async def break_start(harness: Harness) -> None:
    """Kill the server, and let every restart fail for a while."""
    log = harness.log
    broken = harness.directory / "broken"
    await harness.wait_until_busy()
    broken.touch()
    failed = sum(outcome.value == "failed" for outcome in log.outcomes.values())
    harness.send(signal.SIGKILL)
    await harness.wait_for(lambda: log.attempt >= 3 and log.wait is not None, "the backoff grows")
    await harness.wait_for(
        lambda: sum(outcome.value == "failed" for outcome in log.outcomes.values()) > failed,
        "a caller that does not wait gets an error",
    )
    broken.unlink()
    harness.add_line("the configuration is restored")
    await harness.wait_until_ready()


async def compare_with_ledger(harness: Harness) -> None:
    """Let the callers finish, stop the client, and compare the outcomes with the ledger."""
    for caller in harness.callers:
        caller.is_done = True
    _, hung = await asyncio.wait(harness.tasks, timeout=TIMEOUT)
    await harness.client.stop()
    ran = Counter((harness.directory / "ledger").read_text().split())
    comparison = compare(harness.log.outcomes, harness.log.retried, ran)
    harness.log.close(comparison, len(hung), sum(is_running(pid) for pid in harness.pids()))


def is_running(pid: int) -> bool:
    """True if the process exists. A pid is not reused within a minute."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class Step(NamedTuple):
    """A step: heading, explanation and action."""

    head: str
    detail: str
    play: Callable[[Harness], Awaitable[None]]


STEPS = (
    Step(
        "Calls succeed.",
        f"{len(CALL_STYLES)} callers, one server over stdio, which keeps a ledger of what it ran.",
        flow,
    ),
    Step(
        "The server is killed, with calls in flight.",
        "A lost payment may have run: its outcome is unknown. A read is retried.",
        kill,
    ),
    Step(
        "The server hangs.",
        "It is stopped, not dead. After two missed keepalives it is replaced.",
        hang,
    ),
    Step(
        "The server fails at every start.",
        "Its configuration is missing. The backoff grows; calls without wait fail.",
        break_start,
    ),
    Step(
        "The result.",
        "The outcomes of the calls, compared with the ledger of the server.",
        compare_with_ledger,
    ),
)


async def play(harness: Harness) -> None:
    """Run all steps. Raises: ScenarioError; McpError if the client cannot be opened."""
    harness.begin(STEPS[0])
    async with harness.open():
        await STEPS[0].play(harness)
        for step in STEPS[1:]:
            harness.begin(step)
            await step.play(harness)
