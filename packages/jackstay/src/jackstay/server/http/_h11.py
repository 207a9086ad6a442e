"""An HTTP connection on h11, for systems without httptools: uvicorn's protocol with timeouts.

h11 limits the bytes of heads and trailers itself (`h11_max_incomplete_event_size`), keeps trailers apart from headers,
and reads pipelined requests one by one.
"""

import math

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from jackstay.server.http._timeouts import TimeoutMixin


class TimedH11(TimeoutMixin, H11Protocol):  # type: ignore[misc]  # uvicorn declares other types of the same attributes
    """A connection with a timeout for request heads. `make_h11_protocol()` makes a class for a timeout."""

    def data_received(self, data: bytes) -> None:
        """Parse, and start or stop the timer of the request head."""
        was_in_head = self._is_in_head
        super().data_received(data)
        self._is_in_head = False
        if self._is_over():
            return
        if self._is_serving:
            self._deadline = math.inf
        elif self.conn.their_state is h11.IDLE and (was_in_head or self.conn.trailing_data[0]):
            self._is_in_head = True
            if not was_in_head:
                self._set_timeout(self.head_timeout)
        elif self._deadline == math.inf:
            # Blank lines, or the rest of a body that was refused: they do not reset the timer.
            self._set_timeout(self.timeout_keep_alive)

    _is_in_head = False

    @property
    def _is_serving(self) -> bool:
        # None until the first request, despite its annotation.
        cycle = vars(self)["cycle"]
        return cycle is not None and not cycle.response_complete

    def send_400_response(self, msg: str) -> None:
        """Respond to a parser error, unless the application has already refused the request."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()


def make_h11_protocol(timeout: float) -> type[TimedH11]:
    """Return the protocol class with this timeout for request heads."""
    return type("Timed", (TimedH11,), {"head_timeout": timeout})
