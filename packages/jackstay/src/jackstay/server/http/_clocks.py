"""Clocks of an HTTP connection, for each of uvicorn's protocols: what a client owes has a time, and so has what it must take.

uvicorn stops its own clock at the first byte of anything, and waits without end for a client that reads nothing. A client owes
a request, and the whole head of one that it began. It must take what it is sent: a response that was cut short is not waited for,
and a connection whose client takes nothing for minutes is reset.
"""

import asyncio
from typing import TYPE_CHECKING, Any

# How often a connection that cannot be written to is looked at, and how long its client may take nothing at all. A system may hold
# some megabytes for one that reads slowly and say nothing of it meanwhile, so this must be generous.
STUCK_SECONDS = 1.0
STALLED_SECONDS = 300.0

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as _Protocol
else:
    _Protocol = object  # what it is mixed into has the rest


class Clocks(_Protocol):
    """Mix it into a protocol of uvicorn's, before it."""

    head_timeout = 10.0

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        # Nothing more is read: the connection is closed after the responses that are due.
        self._is_refused = False
        self._head_timer: asyncio.TimerHandle | None = None
        self._stuck_timer: asyncio.TimerHandle | None = None
        self._stuck_bytes = 0
        self._stuck_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """A connection that asks nothing may stay as long as one that has asked."""
        super().connection_made(transport)
        self._start_timer(self.timeout_keep_alive)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is timed any more."""
        self._stop_timer()
        self._stop_looking()
        super().connection_lost(exc)

    # --- what the client must take ------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        """The client does not take what it is sent."""
        super().pause_writing()
        self._stop_looking()
        self._stuck_bytes, self._stuck_since = 0, self.loop.time()
        self._stuck_timer = self.loop.call_later(STUCK_SECONDS, self._look)

    def resume_writing(self) -> None:
        """It does again."""
        self._stop_looking()
        super().resume_writing()

    def _look(self) -> None:
        """A response that was cut short is of no use to who is still waiting for the rest of it; a whole one is."""
        size, now = self.transport.get_write_buffer_size(), self.loop.time()
        if size != self._stuck_bytes:
            self._stuck_bytes, self._stuck_since = size, now
        is_cut = self.transport.is_closing() and not self.cycle.response_complete
        if is_cut or now - self._stuck_since >= STALLED_SECONDS:
            self.transport.abort()
        else:
            self._stuck_timer = self.loop.call_later(STUCK_SECONDS, self._look)

    def _stop_looking(self) -> None:
        if self._stuck_timer is not None:
            self._stuck_timer.cancel()
            self._stuck_timer = None

    # --- what the client owes -----------------------------------------------------------------------------------------

    def _is_over(self) -> bool:
        return self._is_refused or self.transport.is_closing()

    @property
    def _is_serving(self) -> bool:
        # None until the first request, whatever its type says.
        cycle = vars(self)["cycle"]
        return cycle is not None and not cycle.response_complete

    def _time_out(self) -> None:
        """What the client owes did not come. An earlier request is still answered."""
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


__all__ = ["Clocks"]
