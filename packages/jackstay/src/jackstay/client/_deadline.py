"""The deadline of one call, shared by all requests of the call: list pages, input rounds, a list fetched before it.

The core enforces it for each request (`Called.began_at`, `Called.moved_at`). This class carries the times from one
request to the next and bounds the waits in between.
"""

import asyncio
import builtins
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from operator import itemgetter

from jackstay.client._call import Call
from jackstay.errors import TimeoutError


class Deadline:
    """The soft and the hard deadline of one call, both counted from `began_at`; progress extends the soft one."""

    __slots__ = ("began_at", "max_timeout", "moved_at", "timeout")

    def __init__(self, began_at: float, timeout: float | None, max_timeout: float | None) -> None:
        self.began_at = self.moved_at = began_at
        self.timeout = timeout
        self.max_timeout = max_timeout

    @property
    def at(self) -> float | None:
        """The event loop time at which the call times out, or None."""
        return min((at for at, _, _ in self._limits()), default=None)

    def _limits(self) -> list[tuple[float, str, float]]:
        """Return when each limit expires, with its name and its seconds; the soft one first."""
        limits = (self.moved_at, "timeout", self.timeout), (self.began_at, "max_timeout", self.max_timeout)
        return [(start + seconds, name, seconds) for start, name, seconds in limits if seconds is not None]

    def note(self, call: Call[object]) -> None:
        """Extend the soft deadline by the progress of this request."""
        if call.progress_at is not None:
            self.moved_at = call.progress_at

    def error(self, *, sent: bool) -> TimeoutError:
        """Return the error for an expired deadline; it names the limit that expired first."""
        _, limit, seconds = min(self._limits(), key=itemgetter(0), default=(0.0, "timeout", None))
        return TimeoutError(seconds, sent=sent, limit=limit)

    @asynccontextmanager
    async def bound(self, *, sent: bool) -> AsyncIterator[None]:
        """Cancel the block when the deadline expires. Raises: TimeoutError with this `sent`."""
        try:
            async with asyncio.timeout_at(self.at) as scope:
                yield
        except builtins.TimeoutError as late:
            if not scope.expired() or isinstance(late, TimeoutError):
                raise
            raise self.error(sent=sent) from late
