"""One timer for all POSTs of a loop that take long enough to need watching.

Most calls end before it matters whether their client is still connected, and a timer for each would cost more than the
rest of the driver. So there is one timer, and `watch()` of a call runs between one and two intervals after it began.
"""

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jackstay.server.http._post import Post

# Seconds. A client that has already disconnected is detected at once, so a late start costs only this delay.
POLL_INTERVAL = 0.02


class DisconnectPoller:
    """Tracks the POSTs of one loop."""

    __slots__ = ("_new", "_old", "_timer", "_watched", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        # The POSTs that began since the last poll, those before it, and those that are watched.
        self._new: set[Post] = set()
        self._old: set[Post] = set()
        self._watched: set[Post] = set()
        self._timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<DisconnectPoller of {len(self.all)} tasks>"

    @property
    def all(self) -> "set[Post]":
        """The tasks that have begun and not ended."""
        return self._new | self._old | self._watched

    def add(self, task: "Post") -> None:
        """Track a task until `remove()`."""
        self._new.add(task)
        if self._timer is None:
            self._timer = self.loop.call_later(POLL_INTERVAL, self._poll)

    def remove(self, task: "Post") -> None:
        """Stop tracking a task that has ended."""
        if task in self._new:  # most tasks
            self._new.remove(task)
        else:
            self._old.discard(task)
            self._watched.discard(task)

    def _poll(self) -> None:
        late, self._old, self._new = self._old, self._new, set()
        self._watched |= late
        for task in late:
            task.watch()
        self._timer = self.loop.call_later(POLL_INTERVAL, self._poll) if self._old else None
