"""The deadline of one call, shared by all requests of the call: list pages, input rounds, a list fetched before it.

The core enforces it for each request (`Called.began_at`, `Called.moved_at`). This class carries the times from one
request to the next and bounds the waits in between.
"""

import asyncio
import builtins
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

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
        return min((at for at in (self._soft_at, self._hard_at) if at is not None), default=None)

    @property
    def _soft_at(self) -> float | None:
        return None if self.timeout is None else self.moved_at + self.timeout

    @property
    def _hard_at(self) -> float | None:
        return None if self.max_timeout is None else self.began_at + self.max_timeout

    def note(self, call: Call[object]) -> None:
        """Extend the soft deadline by the progress of this request."""
        if call.progress_at is not None:
            self.moved_at = call.progress_at

    def error(self, *, sent: bool) -> TimeoutError:
        """Return the error for an expired deadline; it names the limit that expired first."""
        soft_at, hard_at = self._soft_at, self._hard_at
        is_hard = hard_at is not None and (soft_at is None or hard_at < soft_at)
        limit, seconds = ("max_timeout", self.max_timeout) if is_hard else ("timeout", self.timeout)
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
