"""Reads, in a thread, a descriptor that no event loop can watch: a regular file or /dev/null.

The thread is a daemon, because some devices block forever. It reads one chunk ahead at most.
"""

import asyncio
import os
import threading
from collections.abc import Callable

from jackstay.transport._pipe import READ_BYTES


class ReadingThread:
    """The interface of `ReadPipe`, with a thread.

    It reads a duplicate of the descriptor, since a read cannot be cancelled.
    """

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
        self._turn = threading.Semaphore(0)  # one permit per read
        self.has_ended = False
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        state = "ended" if self.has_ended else "paused" if self._is_paused else "reading"
        return f"<{self.__class__.__name__} fd={self._fd} {state}>"

    def resume(self) -> None:
        """Start or resume reading."""
        if not self._is_paused or self.has_ended:
            return
        self._is_paused = False
        self._turn.release()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="jackstay-stdin", daemon=True)
            self._thread.start()

    def pause(self) -> None:
        """Stop reading until `resume()`."""
        self._is_paused = True

    def stop(self) -> None:
        """Stop reading permanently, without a callback."""
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
                self._loop.call_soon_threadsafe(self._on_data, data)
                if not data:
                    break
        except RuntimeError:
            pass  # the loop is closed
        finally:
            os.close(self._fd)

    def _on_data(self, data: bytes) -> None:
        if self.has_ended:
            return
        if not data:
            self.has_ended = True
            self._ended()
            return
        self._received(data)
        if not self._is_paused:
            self._turn.release()
