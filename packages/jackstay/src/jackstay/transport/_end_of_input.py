"""Notices the end of a descriptor's input without reading it: from a thread, so also while the event loop is blocked.

A reader learns of the end when it has read everything before it. That is too late for a server whose loop is blocked, or
that has stopped reading because its client does not read. The system reports a closed pipe or socket at once (poll(2):
POLLHUP, and POLLRDHUP for a socket that was closed for writing only).
"""

import os
import select
import threading
from collections.abc import Callable

_JOIN_SECONDS = 1.0


class EndOfInput:
    """Calls `ended` once, on a thread of its own, when the other end of a pipe, socket or terminal is closed."""

    __slots__ = ("_ended", "_poll", "_thread", "_wake", "_watched", "has_come")

    def __init__(self, fd: int, ended: Callable[[], None]) -> None:
        self.has_come = False
        self._ended = ended
        waking, self._wake = os.pipe()
        self._watched = (os.dup(fd), waking)
        self._poll = select.poll()
        # POLLHUP and POLLERR are always reported; nothing else wakes the thread.
        self._poll.register(self._watched[0], getattr(select, "POLLRDHUP", 0))
        self._poll.register(waking, 0)
        self._thread = threading.Thread(target=self._run, name="jackstay-stdin-end", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<{self.__class__.__name__}{' has come' if self.has_come else ''}>"

    def stop(self) -> None:
        """Watch no longer. Call it once."""
        os.close(self._wake)  # a hangup of the pipe that the thread watches, too
        self._thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        try:
            ready = {fd for fd, _ in self._poll.poll()}
            if self._watched[1] not in ready:
                self.has_come = True
                self._ended()
        finally:
            for fd in self._watched:
                os.close(fd)
