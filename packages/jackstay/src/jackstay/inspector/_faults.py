"""Faults on demand: the next message of a server is lost, late, cut or preceded by garbage, or the server is killed.

They use the faulty transport of `jackstay.testing`, with a choice in place of chance.
"""

from collections import Counter
from typing import Final

from jackstay.errors import UsageError
from jackstay.inspector._events import EventLog
from jackstay.testing import Faults, FaultyTarget, FaultyTransport
from jackstay.transport import Target, TransportHandler

# What the page shows for each fault.
FAULTS: Final = {
    "drop": "the next message from the server is lost",
    "delay": "the next message from the server is late",
    "garble": "a line of garbage arrives before the next message from the server",
    "truncate": "half of the next message from the server is missing",
    "cut": "the connection ends before the next message from the server",
    "garble_sent": "the server receives garbage instead of the next message",
    "truncate_sent": "the server receives half of the next message",
}

MAX_DELAY: Final = 600.0


class FaultsOnDemand(FaultyTarget):
    """A target whose faults are chosen: `arm()` lets one occur with the next message."""

    def __init__(self, target: Target, events: EventLog) -> None:
        super().__init__(target, Faults(), 0)
        self._events = events
        self._armed: Counter[str] = Counter()
        self._seconds = 0.0
        self._transport: FaultyTransport | None = None

    def arm(self, fault: str, seconds: float = 0.0) -> None:
        """Let a fault occur once. `seconds` is the time of a delay.

        Raises: UsageError for an unknown fault or an invalid time.
        """
        if fault not in FAULTS:
            raise UsageError(f"unknown fault {fault!r}; use one of {', '.join(FAULTS)}", path="fault")
        if not 0 <= seconds <= MAX_DELAY:
            raise UsageError(f"seconds must be from 0 to {MAX_DELAY:g}, not {seconds!r}", path="seconds")
        self._armed[fault] += 1
        self._seconds = seconds

    def kill(self) -> bool:
        """Kill the process of the server. Returns False if there is none."""
        kill = getattr(None if self._transport is None else self._transport.inner, "kill", None)
        if kill is None:
            return False
        kill()
        return True

    def occurs(self, fault: str) -> bool:
        """Return whether this fault is armed, and disarm it."""
        if not self._armed[fault]:
            return False
        self._armed[fault] -= 1
        self._events.publish("fault", {"fault": fault, "text": FAULTS[fault]})
        return True

    def delay(self) -> float:
        """Return the chosen time."""
        return self._seconds

    def truncated(self, frame: bytes) -> bytes:
        """Return the first half of a frame."""
        return frame[: max(1, len(frame) // 2)]

    async def open(self, handler: TransportHandler, max_frame_bytes: int, close_step: float) -> FaultyTransport:
        """Return a transport of the target. Raises: TransportError."""
        self._transport = await super().open(handler, max_frame_bytes, close_step)
        return self._transport
