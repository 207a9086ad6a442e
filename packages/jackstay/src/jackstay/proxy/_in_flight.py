"""Track the calls in flight at one server, to attribute messages of the server to a client.

A stdio server sends log messages, and up to 2025-11-25 requests, without indicating the call they belong to. They are
attributed to a client only if nothing else of the server can be for another one (docs/proxy.md).
"""

import asyncio
from collections.abc import Callable, Iterable
from enum import Enum

import msgspec

from jackstay.errors import JsonRpcError, RequestId
from jackstay.protocol.server import events as e
from jackstay.protocol.server import progress_token
from jackstay.protocol.wire import ErrorCode
from jackstay.proxy._bodies import InputRequest, client_meta, forwarded_meta, split
from jackstay.server import Driver
from jackstay.types import META_LOG_LEVEL, ProgressNotificationParams, encode_json

# For how many seconds a server is assumed to work on a call that has ended.
LINGER = 10.0

# The log level that a stateless server gets for handshake-era clients that set none. The default of `jackstay.server`.
DEFAULT_LEVEL = "info"

_SEVERAL = 2


class PendingInputRequest(msgspec.Struct, eq=False):
    """A request from the server that the client receives in an `input_required` result."""

    request: InputRequest
    response: "asyncio.Future[bytes]"


class InFlightCall:
    """One forwarded call and its client.

    `connection`, `id`, `serial` and `token` change when a stateless-era client sends the next round. `body` and `meta`
    are its params without `_meta`, and the members of that.
    """

    def __init__(self, connection: Driver, request: e.Serve) -> None:
        self.connection = connection
        self.id: RequestId = request.id
        self.serial = request.serial
        self.method = request.method
        self.body, self.meta = split(request.params)
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

    @property
    def awaited_id(self) -> RequestId | None:
        """The id while the client waits for the response, so that related messages can be sent; then None."""
        is_awaited = not self.has_ended and self.connection.core.in_flight.get(self.id) == self.serial
        return self.id if is_awaited else None

    @property
    def party(self) -> int | str:
        """Whose call it is: the principal, or without one the number of the connection."""
        return self.connection.principal or self.connection.number

    @property
    def wants_logs(self) -> bool:
        """True if the server was sent a log level for this call; a handshake-era client always has one."""
        return not self.is_stateless or self.level is not None

    def encode_meta(self, *, is_stateless: bool) -> tuple[bytes, bytes]:
        """Return the forwarded members of `_meta`, and for a stateless-era server those that describe the client.

        Both are encoded, without braces.
        """
        members = forwarded_meta(self.meta, is_stateless=is_stateless)
        if not is_stateless:
            return members, b""
        # A stateless server sends no log messages unless the request has a level, so handshake-era clients that set
        # none get a default.
        level = None if self.is_stateless else self.connection.store.get("level", DEFAULT_LEVEL)
        if level is not None:
            member = b'"%b":"%b"' % (META_LOG_LEVEL.encode(), level.encode())
            members = b"%b,%b" % (members, member) if members else member
        return members, client_meta(self.capabilities, self.info)

    def forward_progress(self, progress: ProgressNotificationParams) -> None:
        """Forward progress with the progress token of the client; all other members are unchanged."""
        about = self.awaited_id
        if about is not None and self.token is not None:
            params = encode_json({**progress.raw, "progressToken": self.token})
            self.connection.notify("notifications/progress", params, about)

    def rebind(self, other: "InFlightCall") -> None:
        """Continue for the next round of the client, which is the request of `other`."""
        self.connection, self.id = other.connection, other.id
        self.serial, self.token = other.serial, other.token

    def add_input_request(self, key: str, method: str, params: bytes) -> "asyncio.Future[bytes]":
        """Add a request for the client, and wake the task that forwards the call. Returns the future response."""
        response: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.input_requests[key] = PendingInputRequest(InputRequest(method, msgspec.Raw(params)), response)
        if self.input_requested is not None and not self.input_requested.done():
            self.input_requested.set_result(None)
        return response

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
    """The calls in flight at one server. `clock` returns the time in seconds.

    A client is a principal, or without one a connection. A call that has ended still counts for `LINGER` seconds,
    because the server may still be working on it. An answered call of a stateless-era client does not count for
    requests: without a principal it is a client of its own, so that any two such calls would exclude them. Between
    calls, all clients served so far count.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._open: dict[InFlightCall, None] = {}
        # Party -> until when the server may still work for it (in this order), and until when it may send requests.
        self._lingering: dict[int | str, tuple[float, float]] = {}
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

    def end(self, call: InFlightCall, *, is_answered: bool = False) -> None:
        """Remove a call that was answered or cancelled. It lingers, because the server may still work on it."""
        call.has_ended = True
        call.fail_input_requests("the call that this request belongs to has ended")
        if call in self._open:
            del self._open[call]
            until = self._sweep() + LINGER
            _, requests_until = self._lingering.pop(call.party, (0.0, 0.0))
            self._lingering[call.party] = until, requests_until if is_answered and call.is_stateless else until

    def reset(self) -> None:
        """The server was restarted: forget the calls of the previous process."""
        self._lingering.clear()
        self._served = {call.connection.number for call in self._open}

    def owner(self, *, is_request: bool = False) -> InFlightCall | Owner:
        """Return the newest call of the only client that the server can be working for, or why there is none.

        `is_request`: the message is a request, not a log message.
        """
        now = self._sweep()
        return _newest(
            list(self._open), [party for party, (_, until) in self._lingering.items() if until > now or not is_request]
        )

    def log_owner(self) -> InFlightCall | Owner:
        """Return the newest call that a log message of a server of 2026-07-28 can belong to, or why there is none."""
        return _newest([call for call in self._open if call.wants_logs])

    def has_served_only(self, number: int) -> bool:
        """True if the server has served no other client than that of this connection since it was started."""
        return self._served <= {number}

    def _sweep(self) -> float:
        """Forget the clients for which the server works no more. Returns the time."""
        now = self._clock()
        while self._lingering and next(iter(self._lingering.values()))[0] <= now:
            del self._lingering[next(iter(self._lingering))]
        return now


def _newest(calls: list[InFlightCall], lingering: Iterable[int | str] = ()) -> InFlightCall | Owner:
    if len({*(call.party for call in calls), *lingering}) > 1:
        return Owner.AMBIGUOUS
    return calls[-1] if calls else Owner.NONE
