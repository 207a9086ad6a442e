"""The scenes: what is done to the server, and when. What comes of it is not written here.

A scene waits for what it needs to see, never only for time to pass: on a slow machine the story takes longer and stays the
same. At the end the callers are let go, the client is stopped, and the books are compared.

Above: `__main__`. Below: `callers`, `witness`, `chronicle`, `ledger`, the operating system for its signals.
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

from demo.callers import MANNERS, Caller
from demo.chronicle import Chronicle
from demo.ledger import compare
from demo.witness import Witness
from jackstay.client import Client, connect
from jackstay.transport import stdio

VICTIM = Path(__file__).parent / "victim.py"

# About how long it takes at pace 1, in seconds.
LENGTH = 56.0
# How long a scene goes on after the client is back, at pace 1: to see that everything flows again.
AFTERWARDS = 7.5
# Waiting longer than this for anything is a defect, at any pace.
PATIENCE = 30.0
# Payments at once, for a kill to hit several.
BUSY = 3
# Shorter than this, a slow machine would be taken for a hung server.
LEAST_KEEPALIVE = 0.2
LEAST_CLOSE_STEP = 0.15


class StoryError(Exception):
    """The story cannot go on: the message says what was waited for."""


class Stage:
    """The client, its server and its callers, as a scene sees them."""

    def __init__(self, directory: Path, pace: float = 1.0) -> None:
        self.directory = directory
        self.pace = pace
        self._began = time.monotonic()
        labels = tuple(manner.label for manner in MANNERS)
        self.chronicle = Chronicle(labels, len(SCENES), LENGTH * pace)
        self.client = self._make_client()
        self.witness = Witness(self.client, self.chronicle, self.clock)
        self.callers = [
            Caller(self.chronicle, lane, manner, self.clock, pace) for lane, manner in enumerate(MANNERS)
        ]
        self.tasks: list[asyncio.Task[None]] = []

    def _make_client(self) -> Client:
        target = stdio(
            sys.executable, VICTIM, self.directory, str(self.pace), name="victim", inherit_env=["PYTHONPATH"]
        )
        return connect(
            target,
            backoff_min=1.0 * self.pace,
            backoff_max=8.0 * self.pace,
            keepalive=max(1.0 * self.pace, LEAST_KEEPALIVE),
            close_step=max(0.5 * self.pace, LEAST_CLOSE_STEP),
            request_timeout=PATIENCE,
        )

    def clock(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._began

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """The client connected and the callers at work; at the end all of them are gone, whatever happened."""
        async with self.client:
            # Which tools are safe to send again is the server's word, and it has to be asked for it.
            await self.client.tools.list()
            self.find_server()
            for caller in self.callers:
                task = asyncio.create_task(caller.work(self.client))
                self.witness.lanes[task] = caller.lane
                self.tasks.append(task)
            try:
                yield
            finally:
                for task in self.tasks:
                    task.cancel()
                await asyncio.gather(*self.tasks, return_exceptions=True)

    def begin(self, scene: "Scene") -> None:
        """Say what comes now."""
        self.chronicle.begin_scene(self.clock(), scene.head, scene.detail)

    def pids(self) -> list[int]:
        """Every server that was ever started, in order."""
        return [int(line) for line in (self.directory / "pids").read_text().split()]

    def find_server(self) -> None:
        """Note which server runs now."""
        pids = self.pids()
        self.chronicle.pid, self.chronicle.servers = pids[-1], len(pids)

    def send(self, number: signal.Signals) -> None:
        """Send the server a signal, and say so."""
        flights = sorted(self.flights().items(), reverse=True)
        open_calls = " and ".join(f"{count} {tool}" for tool, count in flights)
        os.kill(self.chronicle.pid, number)
        self.say(
            f"{number.name} to the server, pid {self.chronicle.pid}, with {open_calls or 'nothing'} in flight"
        )

    def say(self, text: str) -> None:
        """A line of the chronicle, now."""
        self.chronicle.say(self.clock(), text)

    async def last(self, seconds: float) -> None:
        """Let time pass, as much as the pace says; the end of a caller is an error."""
        done, _ = await asyncio.wait(
            self.tasks, timeout=seconds * self.pace, return_when=asyncio.FIRST_COMPLETED
        )
        for task in done:
            task.result()

    async def until(self, holds: Callable[[], bool], said: str) -> None:
        """Wait for something to be seen. Raises: StoryError when that takes too long."""
        try:
            async with asyncio.timeout(PATIENCE):
                while not holds():
                    await self.chronicle.changed()
        except TimeoutError as late:
            raise StoryError(f"{said}: not within {PATIENCE:g} s") from late

    async def come_back(self) -> None:
        """Wait until the client is ready again and calls are answered, then a little longer."""
        chronicle = self.chronicle
        await self.until(lambda: chronicle.state == "ready", "the client is ready again")
        self.find_server()
        ended = len(chronicle.told)
        await self.until(lambda: len(chronicle.told) >= ended + len(MANNERS), "calls end again")
        await self.last(AFTERWARDS)

    def flights(self) -> Counter[str]:
        """How many calls of each tool are open."""
        return Counter(call.nonce.partition("-")[0] for call in self.chronicle.open_calls)

    async def be_busy(self) -> None:
        """Wait until somebody has just begun to pay while others are at it: so there is something in the server's hands."""
        before = self.chronicle.lanes[0].open

        def is_busy() -> bool:
            flights = self.flights()
            return (
                self.chronicle.lanes[0].open not in (None, before)
                and flights["pay"] >= BUSY
                and flights["look"] > 0
            )

        await self.until(is_busy, "several calls are in flight")

    async def be_lost(self) -> None:
        """Wait until the client has seen that its server is gone."""
        await self.until(lambda: self.chronicle.state == "backoff", "the client sees the loss")


async def flow(stage: Stage) -> None:
    """Nothing happens, and calls are answered."""
    await stage.until(lambda: len(stage.chronicle.told) >= 2 * len(MANNERS), "calls are answered")
    await stage.last(AFTERWARDS)


async def kill(stage: Stage) -> None:
    """The process is gone between two instructions."""
    await stage.be_busy()
    stage.send(signal.SIGKILL)
    await stage.be_lost()
    await stage.come_back()


async def hang(stage: Stage) -> None:
    """The process is there, reads nothing and says nothing."""
    stage.send(signal.SIGSTOP)
    await stage.be_lost()
    await stage.come_back()


async def break_start(stage: Stage) -> None:
    """The process ends, and so does every one that is started after it, for a while."""
    chronicle = stage.chronicle
    broken = stage.directory / "broken"
    await stage.be_busy()
    broken.touch()
    failed = sum(told.value == "failed" for told in chronicle.told.values())
    stage.send(signal.SIGKILL)
    await stage.until(lambda: chronicle.attempt >= 3 and chronicle.wait is not None, "the waits grow")
    await stage.until(
        lambda: sum(told.value == "failed" for told in chronicle.told.values()) > failed,
        "a caller who does not wait is told",
    )
    broken.unlink()
    stage.say("somebody puts the configuration back")
    await stage.come_back()


async def close_books(stage: Stage) -> None:
    """The callers finish, the client stops, and what was told is held against what ran."""
    for caller in stage.callers:
        caller.is_done = True
    _, hung = await asyncio.wait(stage.tasks, timeout=PATIENCE)
    await stage.client.stop()
    ran = Counter((stage.directory / "ledger").read_text().split())
    books = compare(stage.chronicle.told, stage.chronicle.sent_again, ran)
    stage.chronicle.close(books, len(hung), sum(is_running(pid) for pid in stage.pids()))


def is_running(pid: int) -> bool:
    """Whether there is such a process. A number is not given out again within a minute."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class Scene(NamedTuple):
    """What is said, and what is done."""

    head: str
    detail: str
    play: Callable[[Stage], Awaitable[None]]


SCENES = (
    Scene(
        "Calls flow.",
        f"{len(MANNERS)} callers, one server over stdio. It keeps a ledger of what it ran.",
        flow,
    ),
    Scene(
        "The server is killed, with calls in flight.",
        "A payment may have run, and its caller is told so. A look is sent again.",
        kill,
    ),
    Scene(
        "The server hangs.",
        "It is stopped, not dead. Two signs of life are missed, then it is replaced.",
        hang,
    ),
    Scene(
        "The server dies at every start.",
        "Its configuration is gone. The waits grow; who will not wait is told.",
        break_start,
    ),
    Scene(
        "The books.",
        "What the callers were told, beside the ledger of the server.",
        close_books,
    ),
)


async def play(stage: Stage) -> None:
    """All scenes, from the first call to the books. Raises: StoryError, or what the client could not be opened with."""
    stage.begin(SCENES[0])
    async with stage.open():
        await SCENES[0].play(stage)
        for scene in SCENES[1:]:
            stage.begin(scene)
            await scene.play(stage)
