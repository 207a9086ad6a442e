"""Read and write timeouts of an HTTP connection, as a mixin for a protocol of asyncio.

A request head must be complete in time, an idle connection is closed, an aborted response is not flushed, and a
connection whose client reads nothing is reset.
"""

import asyncio
import math

# How often a connection with a full write buffer is checked, and how long its client may read nothing. The kernel may
# buffer megabytes for a slow reader without reporting progress, so the timeout must be generous.
STALL_CHECK_INTERVAL = 1.0
STALL_TIMEOUT = 300.0


class TimeoutMixin(asyncio.Protocol):
    """Adds timeouts to a protocol, which must set `loop`, `transport` and `timeout_keep_alive`. The first base class.

    A deadline is set for most requests and rarely passes, so its timer is not replaced when the deadline is moved to a
    later time: the timer fires too early then, and starts again.
    """

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    timeout_keep_alive: float
    head_timeout = 10.0

    # Nothing more is read; the connection is closed after the pending responses.
    _is_refused = False
    # When the head must be complete or an idle connection ends; infinite while a request is served.
    _deadline = math.inf
    _timer: asyncio.TimerHandle | None = None
    _timer_at = 0.0
    _stall_timer: asyncio.TimerHandle | None = None
    _stall_bytes = 0
    _stall_since = 0.0

    @property
    def _is_serving(self) -> bool:
        """True while a request has no complete response."""
        raise NotImplementedError

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Give a connection without a request the keep-alive timeout."""
        super().connection_made(transport)
        self._set_timeout(self.timeout_keep_alive)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
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
        is_aborted = self.transport.is_closing() and self._is_serving
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

    def _set_timeout(self, seconds: float) -> None:
        """Close the connection after this time, unless the timeout is set again or `_deadline` is set to infinity."""
        self._deadline = deadline = self.loop.time() + seconds
        if self._timer is None or deadline < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._start_timer(deadline)

    def _start_timer(self, at: float) -> None:
        self._timer_at = at
        self._timer = self.loop.call_at(at, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        # A timer may fire slightly early because of the clock's resolution.
        if self._deadline > max(self._timer_at, self.loop.time()):
            if self._deadline < math.inf:
                self._start_timer(self._deadline)
            return
        # The request did not arrive in time. A pending response is still written.
        self._is_refused = True
        if not self._is_serving:
            self.transport.close()
