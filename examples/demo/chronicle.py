"""What has happened so far: the one thing that the story writes and the pictures read.

Everything in it was seen: outcomes as the callers had them, states and replays as the client's telemetry told them. It
does no I/O and has no clock of its own: times are seconds since the beginning, and arguments.

Above: `story` and `callers`, who write; `picture` and `terminal`, who read. Below: `ledger`, for its words.
"""

import asyncio
from collections import Counter
from enum import Enum
from typing import NamedTuple

from demo.ledger import Books, Told


class Mark(Enum):
    """What a strip shows of a call. Of two in one column the later in this list is shown."""

    WAITING = "waiting"
    OK = "ok"
    SENT_AGAIN = "ok, sent again"
    FAILED = "failed, not run"
    UNKNOWN = "outcome unknown"


class Line(NamedTuple):
    """Something worth a line, and when."""

    at: float
    text: str
    is_head: bool = False


class Stay(NamedTuple):
    """A state of the client's machine, from when on."""

    since: float
    state: str


class Call(NamedTuple):
    """A call that has no outcome yet."""

    nonce: str
    since: float


class Lane:
    """One caller: his open call, and what his calls came to."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.open: Call | None = None
        # (from, to, mark): a call is drawn as waiting from its beginning and as its outcome at its end.
        self.calls: list[tuple[float, float, Mark]] = []


class Chronicle:
    """Facts, in the order in which they came."""

    def __init__(self, labels: tuple[str, ...], scenes: int, seconds: float) -> None:
        self.lanes = [Lane(label) for label in labels]
        self.scenes = scenes
        self.seconds = seconds  # about how long the story takes: what a strip has to hold
        self.scene = 0
        self.head, self.detail = "", ""
        self.states = [Stay(0.0, "new")]
        self.lines: list[Line] = []
        self.told: dict[str, Told] = {}
        self.sent_again: set[str] = set()
        self.counts: Counter[Mark] = Counter()
        self.pid = 0
        self.servers = 0
        self.attempt = 0
        self.wait: tuple[float, float] | None = None  # a backoff: from, to
        self.books: Books | None = None
        self.hung = 0
        self.left = 0
        self._changed = asyncio.Event()

    @property
    def state(self) -> str:
        """Where the client's machine stands."""
        return self.states[-1].state

    @property
    def open_calls(self) -> list[Call]:
        """Every call without an outcome."""
        return [lane.open for lane in self.lanes if lane.open is not None]

    async def changed(self) -> None:
        """Wait until something has happened."""
        self._changed.clear()
        await self._changed.wait()

    def say(self, at: float, text: str) -> None:
        """Note a line."""
        self.lines.append(Line(at, text))
        self._changed.set()

    def begin_scene(self, at: float, head: str, detail: str) -> None:
        """A new scene, with what it is about."""
        self.scene += 1
        self.head, self.detail = head, detail
        self.lines.append(Line(at, f"{self.scene}/{self.scenes} {head} {detail}", is_head=True))
        self._changed.set()

    def enter(self, at: float, state: str, attempt: int) -> None:
        """The machine has gone to another state."""
        self.states.append(Stay(at, state))
        self.attempt = attempt
        self.wait = None
        self._changed.set()

    def begin(self, lane: int, nonce: str, at: float) -> None:
        """A call was made."""
        self.lanes[lane].open = Call(nonce, at)
        self._changed.set()

    def end(self, lane: int, told: Told, at: float) -> None:
        """The open call of this lane has its outcome."""
        call = self.lanes[lane].open
        assert call is not None, "an outcome without a call"
        assert call.nonce not in self.told, "a second outcome for one call"
        self.told[call.nonce] = told
        mark = {Told.OK: Mark.OK, Told.FAILED: Mark.FAILED, Told.UNKNOWN: Mark.UNKNOWN}[told]
        if told is Told.OK and call.nonce in self.sent_again:
            mark = Mark.SENT_AGAIN
        self.lanes[lane].calls.append((call.since, at, mark))
        self.lanes[lane].open = None
        self.counts[mark] += 1
        self._changed.set()

    def close(self, books: Books, hung: int, left: int) -> None:
        """Everything is over: what was told beside what ran, callers without an outcome, processes that still run."""
        self.books, self.hung, self.left = books, hung, left
        self._changed.set()
