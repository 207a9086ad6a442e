"""Read and write timeouts of an HTTP connection, as a mixin for both of uvicorn's protocols.

uvicorn stops its own timer at the first byte of a request and waits forever for a client that does not read. Here a
request head must be complete in time, an aborted response is not flushed, and a connection whose client reads nothing
is reset.
"""

import asyncio
from typing import TYPE_CHECKING, Any

# How often a connection with a full write buffer is checked, and how long its client may read nothing. The kernel may
# buffer megabytes for a slow reader without reporting progress, so the timeout must be generous.
STALL_CHECK_INTERVAL = 1.0
STALL_TIMEOUT = 300.0

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as _Protocol
else:
    _Protocol = object  # the class that it is mixed into has the rest


class TimeoutMixin(_Protocol):
    """Adds timeouts to a uvicorn protocol. It must be the first base class."""

    head_timeout = 10.0

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        # Nothing more is read; the connection is closed after the pending responses.
        self._is_refused = False
        self._head_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self._stall_bytes = 0
        self._stall_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Give a connection without a request the keep-alive timeout."""
        super().connection_made(transport)
        self._start_timer(self.timeout_keep_alive)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers."""
        self._stop_timer()
        self._stop_stall_timer()
        super().connection_lost(exc)

    # --- writing ------------------------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        """The write buffer is full: check regularly whether the client reads."""
        super().pause_writing()
        self._stop_stall_timer()
        self._stall_bytes, self._stall_since = 0, self.loop.time()
        self._stall_timer = self.loop.call_later(STALL_CHECK_INTERVAL, self._check_stalled)

    def resume_writing(self) -> None:
        """The client reads again."""
        self._stop_stall_timer()
        super().resume_writing()

    def _check_stalled(self) -> None:
        """Reset the connection if its response was aborted, which makes it useless, or if the client reads nothing."""
        size, now = self.transport.get_write_buffer_size(), self.loop.time()
        if size != self._stall_bytes:
            self._stall_bytes, self._stall_since = size, now
        is_aborted = self.transport.is_closing() and not self.cycle.response_complete
        if is_aborted or now - self._stall_since >= STALL_TIMEOUT:
            self.transport.abort()
        else:
            self._stall_timer = self.loop.call_later(STALL_CHECK_INTERVAL, self._check_stalled)

    def _stop_stall_timer(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    # --- reading ------------------------------------------------------------------------------------------------------

    def _is_over(self) -> bool:
        return self._is_refused or self.transport.is_closing()

    @property
    def _is_serving(self) -> bool:
        # None until the first request, despite its annotation.
        cycle = vars(self)["cycle"]
        return cycle is not None and not cycle.response_complete

    def _time_out(self) -> None:
        """The request did not arrive in time. A pending response is still written."""
        self._is_refused = True
        if not self._is_serving:
            self.transport.close()

    def _start_timer(self, seconds: float) -> None:
        self._stop_timer()
        self._head_timer = self.loop.call_later(seconds, self._time_out)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


__all__ = ["TimeoutMixin"]
