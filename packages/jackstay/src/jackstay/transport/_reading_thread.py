"""A descriptor that no loop can watch, read by a thread: a regular file, /dev/null.

Reading such a file does not wait for anybody, so a thread is soon done with it; it is a daemon all the same, because
there are devices that never answer. It reads one piece ahead and no more, however slowly the owner pulls.

Must never know about frames. Above: `_own_stdio`. Below: threads, the loop.
"""

import asyncio
import os
import threading
from collections.abc import Callable

from jackstay.transport._pipe import READ_BYTES


class ReadingThread:
    """As `ReadPipe`, for what cannot be watched. It reads a descriptor of its own: a thread cannot be called back."""

    __slots__ = ("_ended", "_fd", "_is_paused", "_loop", "_received", "_thread", "_turn", "has_ended")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        fd: int,
        received: Callable[[bytes], None],
        ended: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._fd = os.dup(fd)
        self._received = received
        self._ended = ended
        self._is_paused = True
        self._turn = threading.Semaphore(0)  # a read that may be made
        self.has_ended = False
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        state = "ended" if self.has_ended else "paused" if self._is_paused else "reading"
        return f"<{self.__class__.__name__} fd={self._fd} {state}>"

    def resume(self) -> None:
        """Read, from now on or again."""
        if not self._is_paused or self.has_ended:
            return
        self._is_paused = False
        self._turn.release()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="jackstay-stdin", daemon=True)
            self._thread.start()

    def pause(self) -> None:
        """Do not read until `resume()`."""
        self._is_paused = True

    def stop(self) -> None:
        """Never read again, and tell nobody."""
        self.has_ended = True
        self._turn.release()
        if self._thread is None:
            os.close(self._fd)

    def _run(self) -> None:
        try:
            while self._turn.acquire() and not self.has_ended:
                try:
                    data = os.read(self._fd, READ_BYTES)
                except OSError:
                    data = b""
                self._loop.call_soon_threadsafe(self._take, data)
                if not data:
                    break
        except RuntimeError:
            pass  # the loop has gone
        finally:
            os.close(self._fd)

    def _take(self, data: bytes) -> None:
        if self.has_ended:
            return
        if not data:
            self.has_ended = True
            self._ended()
            return
        self._received(data)
        if not self._is_paused:
            self._turn.release()
