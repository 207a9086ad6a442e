"""Detects the end of a descriptor's input without reading it, in a thread, even while the event loop is blocked.

A reader detects the end only after it has read everything before it. That is too late for a server whose loop is
blocked, or that has stopped reading because its client does not read. `poll(2)` reports a closed pipe or socket at
once: POLLHUP, and POLLRDHUP for a socket that was closed for writing only.
"""

import os
import select
import threading
from collections.abc import Callable

_JOIN_SECONDS = 1.0


class EndOfInput:
    """Calls `ended` once, on a thread of its own, when the other end of a pipe, socket or terminal is closed."""

    __slots__ = ("_ended", "_poll", "_thread", "_wake", "_watched", "has_ended")

    def __init__(self, fd: int, ended: Callable[[], None]) -> None:
        self.has_ended = False
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
        return f"<{self.__class__.__name__}{' has ended' if self.has_ended else ''}>"

    def stop(self) -> None:
        """Stop watching. Call it once."""
        os.close(self._wake)  # wakes the thread by a hangup of the other pipe that it polls
        self._thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        try:
            ready = {fd for fd, _ in self._poll.poll()}
            if self._watched[1] not in ready:
                self.has_ended = True
                self._ended()
        finally:
            for fd in self._watched:
                os.close(fd)
