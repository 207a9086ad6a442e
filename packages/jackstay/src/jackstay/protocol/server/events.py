"""The events that a server's connection receives, and the effects that it returns.

A request has two numbers: the `id` of the client and a `serial` of the server. A client may reuse an id as soon as the
request was answered or cancelled, possibly before its handler has ended, so a result counts only if its serial is
current. `related_request_id` is the id of the client's request that a message belongs to: HTTP uses its stream.
"""

from collections.abc import Hashable
from typing import TypeAlias

import msgspec
from msgspec import Raw

from jackstay.errors import Json, McpError, RequestId
from jackstay.protocol._methods import Method
from jackstay.protocol.server._stateless import InvalidMeta, RequestMeta
from jackstay.protocol.wire._jsonrpc import ABSENT, Absent, Batch, Error, Malformed, Request, Result

# How the driver finds the handler that sent a request to the client.
Key: TypeAlias = Hashable


class Event(msgspec.Struct, frozen=True):
    """Something that happened to the connection. The docstrings are the descriptions in `docs/protocol.md`."""


# --- messages from the client, in the order in which they are classified ---


class OversizeReceived(Event, frozen=True):
    """a frame over the limit was received; the framer skips to the next (stepped by the driver)"""

    size: int
    # The beginning and the end of the frame.
    start: bytes = b""
    end: bytes = b""


class UnreadableReceived(Event, frozen=True):
    """a frame was received that is not JSON"""

    message: Malformed
    size: int = 0


class BatchReceived(Event, frozen=True):
    """a batch was received"""

    batch: Batch
    size: int = 0


class InvalidReceived(Event, frozen=True):
    """JSON was received that is not JSON-RPC"""

    message: Malformed
    size: int = 0


class ResponseReceived(Event, frozen=True):
    """a response was received"""

    response: Result | Error
    size: int = 0


class CancelReceived(Event, frozen=True):
    """`notifications/cancelled` was received; `id` is None if it names no request"""

    id: RequestId | None
    reason: str = ""


class InitializedReceived(Event, frozen=True):
    """`notifications/initialized` was received"""


class NotificationReceived(Event, frozen=True):
    """another notification was received"""

    method: str
    params: Raw | None = None


class RequestEvent(Event, frozen=True):
    """A request; the subclasses classify it."""

    request: Request


class DuplicateRequested(RequestEvent, frozen=True):
    """a request was received with an id that is in flight"""


class UnsupportedRequested(RequestEvent, frozen=True):
    """a stateless request was received for an unsupported revision"""

    version: str


class DiscoverRequested(RequestEvent, frozen=True):
    """a stateless `server/discover` was received"""

    meta: RequestMeta | InvalidMeta


class StatelessRequested(RequestEvent, frozen=True):
    """another stateless request was received; `row` is None if its revision has no such method"""

    meta: RequestMeta | InvalidMeta
    row: Method | None


class InitializeRequested(RequestEvent, frozen=True):
    """`initialize` was received; `client` is None if its params are invalid, and `problem` is the reason"""

    client: "ClientParams | None"
    problem: str = ""


class PingRequested(RequestEvent, frozen=True):
    """`ping` was received"""


class UnknownRequested(RequestEvent, frozen=True):
    """a request was received for a method that the revision does not have"""


class MethodRequested(RequestEvent, frozen=True):
    """a request was received for a method that the revision has"""

    row: Method


class ClientDisconnected(Event, frozen=True):
    """the client disconnected: end of input, a broken pipe, or on HTTP a closed response"""


# --- handlers and the driver ---


class Finished(Event, frozen=True):
    """a handler finished; `result` is its encoded result"""

    id: RequestId
    serial: int
    result: bytes = b"{}"


class Failed(Event, frozen=True):
    """a handler failed, or the dispatcher refused the request"""

    id: RequestId
    serial: int
    code: int
    message: str
    data: "Json | Absent" = ABSENT


class Progressed(Event, frozen=True):
    """a handler reported progress; `token` is the client's"""

    id: RequestId
    serial: int
    token: RequestId
    progress: float
    total: float | None = None
    message: str = ""


class Notified(Event, frozen=True):
    """the server sends a notification; `params` is its encoded object"""

    method: str
    params: bytes | None = None
    related_request_id: RequestId | None = None


class OutgoingRequested(Event, frozen=True):
    """a handler sends a request to the client; `params` is its encoded object"""

    key: Key
    method: str
    params: bytes | None = None
    related_request_id: RequestId | None = None


class OutgoingCancelled(Event, frozen=True):
    """a handler no longer waits for the response to its request"""

    key: Key
    reason: str = ""


class DrainRequested(Event, frozen=True):
    """close the connection when all handlers have ended"""


class StopRequested(Event, frozen=True):
    """close the connection immediately"""


# --- timers, and events that follow from others ---


class DrainExpired(Event, frozen=True):
    """the drain deadline passed"""


class Drained(Event, frozen=True):
    """no request is in flight any more (made by the core while draining)"""


# --- effects ---


class Effect(msgspec.Struct, frozen=True):
    """Something that the driver must execute, in the given order."""


class Serve(Effect, frozen=True, gc=False):
    """Run the handler for this request; then step `Finished` or `Failed` with the same id and serial.

    `params` and the Raw members of `meta` are views of the frame: decode them before reading the next one. `meta` is
    None in the handshake era, where `ServerConnection.client` has the parameters of the client.
    """

    id: RequestId
    serial: int
    method: Method
    params: Raw | None
    version: str
    meta: RequestMeta | None = None


class StopServing(Effect, frozen=True):
    """Cancel this handler. Its result would not be sent."""

    id: RequestId
    serial: int
    reason: str = ""


class Send(Effect, frozen=True, gc=False):
    """Write this frame. `error` is the exception of a refused message, for the HTTP status and for logs."""

    frame: bytes
    related_request_id: RequestId | None = None
    error: McpError | None = None


class Deliver(Effect, frozen=True):
    """Pass this notification to its listeners; `params` is a view of the frame."""

    method: str
    params: Raw | None


class Complete(Effect, frozen=True):
    """Complete a request to the client; `result` is a view of the frame."""

    key: Key
    result: Raw


class Fail(Effect, frozen=True):
    """Fail a request to the client with this error."""

    key: Key
    error: McpError


class Transition(Effect, frozen=True):
    """The state changed: emit telemetry. On the change to `draining`, end the subscriptions too."""

    source: str
    target: str
    reason: str


class Violation(Effect, frozen=True):
    """The client violated the protocol: emit telemetry and log a warning. `count` is the number so far."""

    reason: str
    size: int
    count: int


class Stray(Effect, frozen=True):
    """A response to no pending request, `late` or `unknown`, and the number so far."""

    kind: str
    count: int


class Close(Effect, frozen=True):
    """Flush the output and close the transport: every request is answered or cancelled."""


class ClientParams(msgspec.Struct, frozen=True):
    """The parameters of a client's `initialize`; `version` is the negotiated revision."""

    version: str
    info: bytes = b"{}"
    capabilities: bytes = b"{}"


# The effects of one step, in order.
Effects: TypeAlias = list[Effect]

__all__ = ["ClientParams", "Effects", "Key"]
__all__ += [name for name, kind in dict(vars()).items() if isinstance(kind, type) and issubclass(kind, (Event, Effect))]
