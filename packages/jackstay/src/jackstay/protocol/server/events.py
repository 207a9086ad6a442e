"""What can happen to a server's connection (events, past tense) and what is to be done about it (effects, verbs).

A request is named twice: by the client's `id` and by our `serial`. An id may be used again as soon as its request was
answered or cancelled, while the handler of the first is still on its way out; its late result must not become the
answer to the second. So whoever runs a handler gives the serial back, and only a serial that is current counts.

`about` is the id of the client's request that a message belongs to: on HTTP it travels on the stream of that request.
`key` is whatever the driver uses to find the handler again that asked something of the client.

Above: `_table`, `_connection`, and the driver in the server's room. Below: `_jsonrpc`, `_methods`, `_stateless`.
"""

from collections.abc import Hashable
from typing import TypeAlias

import msgspec
from msgspec import Raw

from jackstay.errors import Json, McpError, RequestId
from jackstay.protocol._methods import Method
from jackstay.protocol.server._stateless import MetaFlaw, RequestMeta
from jackstay.protocol.wire._jsonrpc import ABSENT, Absent, Batch, Error, Malformed, Request, Result

# How the driver finds the handler again that asked something of the client.
Key: TypeAlias = Hashable


class Event(msgspec.Struct, frozen=True):
    """Something happened."""


# --- what the client sends: made by the core from frames, in the order in which a message is classified ---------------


class OversizeReceived(Event, frozen=True):
    """a frame over the limit came; the framer skips to the next (stepped by the driver)"""

    size: int


class UnreadableReceived(Event, frozen=True):
    """a frame came that is not JSON"""

    message: Malformed
    size: int = 0


class ArrayReceived(Event, frozen=True):
    """an array came"""

    batch: Batch
    size: int = 0


class ArrayEnded(Event, frozen=True):
    """every member of an array was looked at (made by the core)"""


class InvalidReceived(Event, frozen=True):
    """JSON came that is not JSON-RPC"""

    message: Malformed
    size: int = 0


class ResponseReceived(Event, frozen=True):
    """a response came"""

    answer: Result | Error
    size: int = 0


class CancelReceived(Event, frozen=True):
    """`notifications/cancelled` came; `id` is None where it names no request"""

    id: RequestId | None
    reason: str = ""


class InitializedReceived(Event, frozen=True):
    """`notifications/initialized` came"""


class NotificationReceived(Event, frozen=True):
    """another notification came"""

    method: str
    params: Raw | None = None


class RequestEvent(Event, frozen=True):
    """A request of some class."""

    request: Request


class DuplicateRequested(RequestEvent, frozen=True):
    """a request came with an id that is in flight"""


class UnsupportedRequested(RequestEvent, frozen=True):
    """a stateless request came for a revision that is not spoken here"""

    version: str


class DiscoverRequested(RequestEvent, frozen=True):
    """a stateless `server/discover` came"""

    meta: RequestMeta | MetaFlaw


class StatelessRequested(RequestEvent, frozen=True):
    """another stateless request came; `row` is None where its revision has no such method"""

    meta: RequestMeta | MetaFlaw
    row: Method | None


class InitializeRequested(RequestEvent, frozen=True):
    """`initialize` came; `client` is None where its params cannot be used, and `flaw` says why"""

    client: "ClientFacts | None"
    flaw: str = ""


class PingRequested(RequestEvent, frozen=True):
    """`ping` came"""


class UnknownRequested(RequestEvent, frozen=True):
    """a request came for a method that the revision does not have"""


class MethodRequested(RequestEvent, frozen=True):
    """a request came for a method that the revision has"""

    row: Method


class ClientGone(Event, frozen=True):
    """the client is gone: end of input, a broken pipe, or on HTTP a closed response"""


# --- what the handlers and the driver do ------------------------------------------------------------------------------


class Finished(Event, frozen=True):
    """a handler finished; `result` is its encoded result"""

    id: RequestId
    serial: int
    result: bytes = b"{}"


class Failed(Event, frozen=True):
    """a handler failed, or the dispatch refused the request"""

    id: RequestId
    serial: int
    code: int
    message: str
    data: "Json | Absent" = ABSENT


class Progressed(Event, frozen=True):
    """a handler came further; `token` is the client's"""

    id: RequestId
    serial: int
    token: RequestId
    progress: float
    total: float | None = None
    message: str = ""


class Notified(Event, frozen=True):
    """a notification to the client was made; `params` is its encoded object"""

    method: str
    params: bytes | None = None
    about: RequestId | None = None


class Asked(Event, frozen=True):
    """a handler asks something of the client; `params` is its encoded object"""

    key: Key
    method: str
    params: bytes | None = None
    about: RequestId | None = None


class Withdrew(Event, frozen=True):
    """whoever asked something of the client no longer waits for the answer"""

    key: Key
    reason: str = ""


class DrainAsked(Event, frozen=True):
    """the connection is to end when what runs has ended"""


class StopAsked(Event, frozen=True):
    """the connection is to end at once"""


# --- what the clock does, and what follows from what happened ---------------------------------------------------------


class DrainExpired(Event, frozen=True):
    """the time for running handlers ran out"""


class Emptied(Event, frozen=True):
    """nothing is in flight any more (made by the core while draining)"""


# --- what to do -------------------------------------------------------------------------------------------------------


class Effect(msgspec.Struct, frozen=True):
    """Something the driver is to do, in the order given."""


class Serve(Effect, frozen=True, gc=False):
    """Run the handler for this request; then step `Finished` or `Failed` with the same id and serial.

    `params` and the Raw members of `meta` are views of the frame: decode them before the next one is read. `meta` is
    None in the handshake era, where the client said once what it can (`ServerConnection.client`).
    """

    id: RequestId
    serial: int
    method: Method
    params: Raw | None
    version: str
    meta: RequestMeta | None = None


class StopServing(Effect, frozen=True):
    """Cancel that handler: its answer is not wanted, and would not be sent."""

    id: RequestId
    serial: int
    reason: str = ""


class Send(Effect, frozen=True, gc=False):
    """Write this frame. `error` is what the core refused, for the HTTP status and for logs."""

    frame: bytes
    about: RequestId | None = None
    error: McpError | None = None


class Deliver(Effect, frozen=True):
    """Hand this notification to whoever listens; `params` is a view of the frame."""

    method: str
    params: Raw | None


class Complete(Effect, frozen=True):
    """The client answered what was asked of it; `result` is a view of the frame."""

    key: Key
    result: Raw


class Fail(Effect, frozen=True):
    """What was asked of the client ended with this error."""

    key: Key
    error: McpError


class Transition(Effect, frozen=True):
    """The state changed: telemetry. On the way to `draining`, end the subscriptions too."""

    source: str
    target: str
    reason: str


class Violation(Effect, frozen=True):
    """The client broke a rule and we go on: telemetry and a warning. `count` is how many so far."""

    reason: str
    size: int = 0
    count: int = 0


class Stray(Effect, frozen=True):
    """A response that nobody waits for, `late` or `unknown`, and how many so far."""

    kind: str
    count: int


class Close(Effect, frozen=True):
    """Everything is answered or cancelled: flush what was sent and close the transport."""


class ClientFacts(msgspec.Struct, frozen=True):
    """What a client of the handshake era said of itself; `version` is the revision agreed on."""

    version: str
    info: bytes = b"{}"
    capabilities: bytes = b"{}"


# What one turn of the core comes to, to be done in this order.
Effects: TypeAlias = list[Effect]

__all__ = [
    "ArrayEnded",
    "ArrayReceived",
    "Asked",
    "CancelReceived",
    "ClientFacts",
    "ClientGone",
    "Close",
    "Complete",
    "Deliver",
    "DiscoverRequested",
    "DrainAsked",
    "DrainExpired",
    "DuplicateRequested",
    "Effect",
    "Effects",
    "Emptied",
    "Event",
    "Fail",
    "Failed",
    "Finished",
    "InitializeRequested",
    "InitializedReceived",
    "InvalidReceived",
    "Key",
    "MethodRequested",
    "NotificationReceived",
    "Notified",
    "OversizeReceived",
    "PingRequested",
    "Progressed",
    "RequestEvent",
    "ResponseReceived",
    "Send",
    "Serve",
    "StatelessRequested",
    "StopAsked",
    "StopServing",
    "Stray",
    "Transition",
    "UnknownRequested",
    "UnreadableReceived",
    "UnsupportedRequested",
    "Violation",
    "Withdrew",
]
