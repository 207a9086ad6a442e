"""An HTTP connection on h11, for systems without httptools: uvicorn's protocol with clocks.

h11 has a limit of bytes for heads and trailers of its own (`h11_max_incomplete_event_size`), keeps trailers apart from headers,
and reads pipelined requests one by one.
"""

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from jackstay.server.http._clocks import Clocks


class TimedH11(Clocks, H11Protocol):  # type: ignore[misc]  # the attributes that are used are those of both of uvicorn's
    """A connection whose request heads are timed. `timed()` makes the class for a server's limit."""

    def data_received(self, data: bytes) -> None:
        """Parse, and time what the client still owes."""
        was_in_head = self._is_in_head
        super().data_received(data)
        self._is_in_head = False
        if self._is_over():
            return
        if self._is_serving:
            self._stop_timer()
        elif self.conn.their_state is h11.IDLE and (was_in_head or self.conn.trailing_data[0]):
            self._is_in_head = True
            if not was_in_head:
                self._start_timer(self.head_timeout)
        elif self._head_timer is None:
            # Blank lines, or the body of what was refused unread: they do not move the clock.
            self._start_timer(self.timeout_keep_alive)

    _is_in_head = False

    def send_400_response(self, msg: str) -> None:
        """The parser has stopped. What was refused by the application already has its response."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()


def timed(timeout: float) -> type[TimedH11]:
    """The protocol with this limit."""
    return type("Timed", (TimedH11,), {"head_timeout": timeout})


__all__ = ["TimedH11", "timed"]
