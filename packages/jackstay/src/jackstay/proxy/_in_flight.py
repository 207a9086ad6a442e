"""Track the calls in flight at one server, to attribute messages of the server to a client.

A handshake-era server sends requests and log messages on the connection, without indicating the call they belong to.
They are attributed to a client only if all calls in flight are from that client. A call that has ended still counts for
`LINGER` seconds, because the server may still be working on it. Between calls, all clients served so far count.
"""

import asyncio
from collections.abc import Callable
from enum import Enum

import msgspec

from jackstay.errors import JsonRpcError, RequestId
from jackstay.protocol.server import events as e
from jackstay.protocol.server import progress_token
from jackstay.protocol.wire import ErrorCode
from jackstay.server import Driver

# For how many seconds a server is assumed to work on a call that has ended.
LINGER = 10.0

_SEVERAL = 2


class PendingInputRequest(msgspec.Struct, eq=False):
    """A request from the server that the client receives in an `input_required` result."""

    method: str
    params: bytes
    response: "asyncio.Future[bytes]"


class InFlightCall:
    """One forwarded call and its client.

    `connection`, `id`, `serial` and `token` change when a stateless-era client sends the next round.
    """

    __slots__ = (
        *("capabilities", "connection", "has_ended", "id", "info", "input_requested", "is_stateless", "level"),
        *("method", "input_requests", "serial", "token"),
    )

    def __init__(self, connection: Driver, request: e.Serve) -> None:
        self.connection = connection
        self.id: RequestId = request.id
        self.serial = request.serial
        self.method = request.method
        # The client's progress token, if it requested progress.
        self.token = progress_token(request.params)
        self.has_ended = False
        # Copied, because the members of a request are views of its frame.
        meta, client = request.meta, connection.core.client
        self.is_stateless = meta is not None
        self.capabilities = b"{}"
        self.info = b""
        self.level: str | None = None
        if meta is not None:
            self.capabilities = bytes(meta.capabilities)
            self.info = bytes(meta.client_info) if isinstance(meta.client_info, msgspec.Raw) else b""
            self.level = meta.log_level
        elif client is not None:
            self.capabilities, self.info = client.capabilities, client.info
        # Requests from the server to a stateless-era client. `input_requested` wakes the task that forwards the call.
        self.input_requests: dict[str, PendingInputRequest] = {}
        self.input_requested: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"<InFlightCall {self.method.name} of connection {self.connection.number}>"

    @property
    def is_awaited(self) -> bool:
        """True while the client waits for the response, so that related messages can be sent."""
        return not self.has_ended and self.connection.core.in_flight.get(self.id) == self.serial

    def rebind(self, other: "InFlightCall") -> None:
        """Continue for the next round of the client, which is the request of `other`."""
        self.connection, self.id = other.connection, other.id
        self.serial, self.token = other.serial, other.token

    def add_input_request(self, key: str, request: PendingInputRequest) -> None:
        """Add a request for the client, and wake the task that forwards the call."""
        self.input_requests[key] = request
        if self.input_requested is not None and not self.input_requested.done():
            self.input_requested.set_result(None)

    def fail_input_requests(self, reason: str) -> None:
        """Respond to all pending input requests with an error."""
        for request in self.input_requests.values():
            if not request.response.done():
                request.response.set_exception(JsonRpcError(ErrorCode.INTERNAL_ERROR, reason))


class Owner(Enum):
    """Why a message of the server cannot be attributed to one client."""

    NONE = "no call is in flight"
    AMBIGUOUS = "calls of several clients are in flight, or ended a moment ago"


class InFlightCalls:
    """The calls in flight at one server. `clock` returns the time in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._open: dict[InFlightCall, None] = {}
        # Connection number -> until when the server may still work for it. Ordered by expiry.
        self._lingering: dict[int, float] = {}
        # Clients that the server has served since it was started. Two are enough to know that there were several.
        self._served: set[int] = set()

    def __len__(self) -> int:
        return len(self._open)

    def __repr__(self) -> str:
        return f"<InFlightCalls {len(self._open)} open, {len(self._lingering)} lingering>"

    def start(self, call: InFlightCall) -> None:
        """Add a call."""
        self._open[call] = None
        self.serve(call.connection.number)

    def serve(self, number: int) -> None:
        """Note that the server has received something from the client of this connection."""
        if len(self._served) < _SEVERAL:
            self._served.add(number)

    def end(self, call: InFlightCall) -> None:
        """Remove a call that was answered or cancelled. It lingers, because the server may still work on it."""
        call.has_ended = True
        call.fail_input_requests("the call that this request belongs to has ended")
        if call in self._open:
            del self._open[call]
            self._sweep()
            number = call.connection.number
            self._lingering.pop(number, None)
            self._lingering[number] = self._clock() + LINGER

    def reset(self) -> None:
        """The server was restarted: forget the calls of the previous process."""
        self._lingering.clear()
        self._served = {call.connection.number for call in self._open}

    def owner(self) -> InFlightCall | Owner:
        """Return the newest call of the only client that the server can be working for, or why there is none."""
        if len(self._parties()) > 1:
            return Owner.AMBIGUOUS
        newest = next(reversed(self._open), None)
        return Owner.NONE if newest is None else newest

    def has_served_only(self, number: int) -> bool:
        """True if the server has served no other client than that of this connection since it was started."""
        return self._served <= {number}

    def _parties(self) -> set[int]:
        self._sweep()
        return {call.connection.number for call in self._open} | self._lingering.keys()

    def _sweep(self) -> None:
        if self._lingering:
            now = self._clock()
            while self._lingering and self._lingering[next(iter(self._lingering))] <= now:
                del self._lingering[next(iter(self._lingering))]
