"""The log of a run: written by the scenario, the callers and the observer; read by the pictures.

Times are in seconds since the start, and are passed as arguments: the log has no clock.
"""

import asyncio
from collections import Counter
from enum import Enum
from typing import NamedTuple

from demo.ledger import Comparison, Outcome


class Mark(Enum):
    """How a call is drawn. If two fall in one column, the later one in this list is shown."""

    WAITING = "waiting"
    OK = "ok"
    RETRIED = "ok, retried"
    FAILED = "failed, not run"
    UNKNOWN = "outcome unknown"


class Line(NamedTuple):
    """A line of text with its time."""

    at: float
    text: str
    is_head: bool = False


class StateSpan(NamedTuple):
    """A state of the client, and when it began."""

    since: float
    state: str


class Call(NamedTuple):
    """A call that has no outcome yet."""

    nonce: str
    since: float


class Lane:
    """One caller: its open call and its finished calls."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.open: Call | None = None
        # (start, end, mark): drawn as waiting, and as its outcome at the end.
        self.calls: list[tuple[float, float, Mark]] = []


class RunLog:
    """Events in order."""

    def __init__(self, labels: tuple[str, ...], steps: int, seconds: float) -> None:
        self.lanes = [Lane(label) for label in labels]
        self.steps = steps
        self.seconds = seconds  # the approximate duration, for the scale of the strips
        self.step = 0
        self.head, self.detail = "", ""
        self.states = [StateSpan(0.0, "new")]
        self.lines: list[Line] = []
        self.outcomes: dict[str, Outcome] = {}
        self.retried: set[str] = set()
        self.counts: Counter[Mark] = Counter()
        self.pid = 0
        self.servers = 0
        self.attempt = 0
        self.wait: tuple[float, float] | None = None  # a backoff: from, to
        self.comparison: Comparison | None = None
        self.hung = 0
        self.left = 0
        self._changed = asyncio.Event()

    @property
    def state(self) -> str:
        """The current state of the client."""
        return self.states[-1].state

    @property
    def open_calls(self) -> list[Call]:
        """Every call without an outcome."""
        return [lane.open for lane in self.lanes if lane.open is not None]

    async def changed(self) -> None:
        """Wait until something has happened."""
        self._changed.clear()
        await self._changed.wait()

    def add_line(self, at: float, text: str) -> None:
        """Add a line."""
        self.lines.append(Line(at, text))
        self._changed.set()

    def begin_step(self, at: float, head: str, detail: str) -> None:
        """Start a step."""
        self.step += 1
        self.head, self.detail = head, detail
        self.lines.append(Line(at, f"{self.step}/{self.steps} {head} {detail}", is_head=True))
        self._changed.set()

    def enter(self, at: float, state: str, attempt: int) -> None:
        """The client has entered another state."""
        self.states.append(StateSpan(at, state))
        self.attempt = attempt
        self.wait = None
        self._changed.set()

    def begin(self, lane: int, nonce: str, at: float) -> None:
        """A call was started."""
        self.lanes[lane].open = Call(nonce, at)
        self._changed.set()

    def end(self, lane: int, outcome: Outcome, at: float) -> None:
        """The open call of this lane has ended."""
        call = self.lanes[lane].open
        assert call is not None, "an outcome without a call"
        assert call.nonce not in self.outcomes, "a second outcome for one call"
        self.outcomes[call.nonce] = outcome
        mark = {Outcome.OK: Mark.OK, Outcome.FAILED: Mark.FAILED, Outcome.UNKNOWN: Mark.UNKNOWN}[outcome]
        if outcome is Outcome.OK and call.nonce in self.retried:
            mark = Mark.RETRIED
        self.lanes[lane].calls.append((call.since, at, mark))
        self.lanes[lane].open = None
        self.counts[mark] += 1
        self._changed.set()

    def close(self, comparison: Comparison, hung: int, left: int) -> None:
        """Finish the log: the comparison, callers without an outcome, and processes that still run."""
        self.comparison, self.hung, self.left = comparison, hung, left
        self._changed.set()
