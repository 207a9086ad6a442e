"""Events of a client's connection (past tense) and the effects they have (verbs).

An event of a transport has the epoch of its transport, so that a late event of an old one cannot affect a new one. An
event about one request over HTTP is valid in any epoch, because requests outlive a lost session. The driver creates
the errors inside events, because it knows the exit code and the stderr tail.
"""

from typing import TypeAlias

import msgspec

from jackstay.errors import JsonRpcError, McpError
from jackstay.protocol._versions import Era
from jackstay.protocol.wire._jsonrpc import Single

# An opaque value by which the driver finds the caller; the core only returns it.
Caller: TypeAlias = object


class Event(msgspec.Struct, frozen=True):
    """The base class of events. A docstring of an event is its description in docs/protocol.md."""


# --- from the user ----------------------------------------------------------------------------------------------------


class CallFields(msgspec.Struct, kw_only=True):
    """What an `Exchange` copies from `Called`."""

    # Members of `_meta` from the caller, encoded.
    meta: bytes = b""
    # If it is made on behalf of another client: the members of `_meta` that describe that client, encoded.
    on_behalf_of: bytes = b""
    may_replay: bool = False
    wants_progress: bool = False


class Called(CallFields, Event, frozen=True, kw_only=True):  # type: ignore[misc]  # msgspec allows frozen subclasses
    """a call was made; `params` is encoded and has no `_meta`, `meta` are the members of `_meta` from the caller"""

    caller: Caller
    method: str
    params: bytes = b"{}"
    # UNSET (for the times) and None (for the rest): use the setting.
    timeout: float | msgspec.UnsetType | None = msgspec.UNSET
    max_timeout: float | msgspec.UnsetType | None = msgspec.UNSET
    wait_for_ready: bool | None = None
    busy: str | None = None
    # For a further request of a call: when the call began, and when its soft deadline was last extended. None: now.
    began_at: float | None = None
    moved_at: float | None = None


class Notified(Event, frozen=True, kw_only=True):
    """a notification is to be sent to the server"""

    caller: Caller
    method: str
    params: bytes = b"{}"


class Finished(Event, frozen=True):
    """a handler finished a request of the server; `error` is an encoded error object; if empty, `result` is sent"""

    id: int | str
    result: bytes = b"{}"
    error: bytes = b""


class Subscribed(Event, frozen=True):
    """a subscription is to be kept open across reconnects; one request per era, None where the era has none"""

    key: str
    handshake: tuple[str, bytes] | None
    stateless: tuple[str, bytes] | None
    # True: a call has opened it already, and it is opened again only after the next reconnect.
    is_open: bool = False


class Unsubscribed(Event, frozen=True):
    """a subscription is to be ended"""

    key: str


class ReadyRequested(Event, frozen=True):
    """a caller waits for ready"""

    caller: Caller


class WaitCancelled(Event, frozen=True):
    """a caller no longer waits for ready"""

    caller: Caller


class CallCancelled(Event, frozen=True):
    """the caller cancelled a call"""

    id: int


class DrainRequested(Event, frozen=True):
    """new calls are to be refused from now on; further requests of earlier calls are not"""


class DrainCancelled(Event, frozen=True):
    """calls are to be accepted again"""


class StopRequested(Event, frozen=True):
    """the connection is to be closed"""


# --- from timers ------------------------------------------------------------------------------------------------------


class Expired(Event, frozen=True):
    """the soft or the hard deadline of a call passed"""

    id: int


class RetryDue(Event, frozen=True):
    """it is time to send a refused frame again"""

    id: int


class ConnectExpired(Event, frozen=True):
    """the time limit from spawn to ready expired"""


class ProbeExpired(Event, frozen=True):
    """no response to the probe yet: it is time to send `initialize` too"""


class BackoffElapsed(Event, frozen=True):
    """the delay before the next attempt is over"""


class CloseExpired(Event, frozen=True):
    """closing the transport took longer than all of its steps may take"""


class SweepDue(Event, frozen=True):
    """it is time to remove expired tombstones"""


class CheckExpired(Event, frozen=True):
    """the time limit of a health check expired"""


class KeepaliveDue(Event, frozen=True):
    """it is time to check whether anything was received"""


class Resumed(Event, frozen=True):
    """the transport accepted or refused the calls sent so far, and more are queued"""


class BecameStable(Event, frozen=True):
    """the connection has been ready for long enough to count as stable"""


# --- from the transport -----------------------------------------------------------------------------------------------


class TransportEvent(Event, frozen=True):
    """The base class of events that are only valid in the epoch of their transport."""

    epoch: int


class Spawned(TransportEvent, frozen=True):
    """the transport was started, and frames can be sent"""


class SpawnFailed(TransportEvent, frozen=True):
    """the transport could not be started; a later attempt may succeed"""

    error: McpError


class SpawnRefused(TransportEvent, frozen=True):
    """the transport could not be started, and no later attempt can succeed"""

    error: McpError


class WentDown(TransportEvent, frozen=True):
    """the transport ended or a write failed; `code` is the exit code of the process, if there is one"""

    error: McpError
    code: int | None = None
    was_silent: bool = False


class Reaped(TransportEvent, frozen=True):
    """the transport has ended, with all of its processes and files"""


class Refused(TransportEvent, frozen=True):
    """the transport is busy and did not accept the frame of this call"""

    id: int


class FrameRefused(TransportEvent, frozen=True):
    """the transport is busy and did not accept a response or a notification, which must be sent later"""

    frame: bytes
    # The request of the server that it responds to; None: it is not a response.
    response_to: int | str | None = None


class BecameWritable(TransportEvent, frozen=True):
    """the transport accepts frames again"""


class ExchangeLost(Event, frozen=True):
    """one request failed (HTTP): it was never sent, or its HTTP response ended without a JSON-RPC response"""

    epoch: int
    id: int
    error: McpError
    # True: the server declined it without a JSON-RPC response, which before ready is part of the negotiation.
    was_declined: bool = False


class PostQueued(TransportEvent, frozen=True):
    """the request waits for a free connection (HTTP): no byte of it was sent"""

    id: int


class PostStarted(Event, frozen=True):
    """a request that waited for a connection is being sent (HTTP): from now on it may run"""

    epoch: int
    id: int


class SessionLost(TransportEvent, frozen=True):
    """the server did not know the session and refused this request (HTTP 404)"""

    id: int


class StaleEventReceived(TransportEvent, frozen=True):
    """an event of a transport of an earlier epoch was received"""


class SpawnedLate(Event, frozen=True):
    """a transport of an earlier epoch was started after all"""

    epoch: int


class OldSessionLost(Event, frozen=True):
    """the server did not know the session of an earlier epoch and refused this request (HTTP 404)"""

    epoch: int
    id: int


# --- from received frames: created by the connection itself -----------------------------------------------------------


class MessageReceived(Event, frozen=True):
    """a valid message was received; the event of its kind follows"""


class BatchReceived(Event, frozen=True):
    """a JSON array was received"""

    members: tuple[Single, ...]
    size: int


class ResponseReceived(Event, frozen=True):
    """a response to an open request was received"""

    id: int
    result: msgspec.Raw | None
    error: McpError | None = None


class StrayReceived(Event, frozen=True):
    """a response was received that belongs to no open request"""

    id: int | str | None
    error: JsonRpcError | None = None


class CancelReceived(Event, frozen=True):
    """`notifications/cancelled` was received"""

    id: int | str | None


class NotificationReceived(Event, frozen=True):
    """another notification was received"""

    method: str
    params: msgspec.Raw | None


class RequestReceived(Event, frozen=True):
    """a request of the server was received"""

    id: int | str
    method: str
    params: msgspec.Raw | None
    size: int = 0


class InitializeReceived(Event, frozen=True):
    """the server sent `initialize`, which only a client may send"""

    size: int = 0


class ResetReceived(Event, frozen=True):
    """the server reset the connection"""


class InvalidFrameReceived(Event, frozen=True):
    """a frame was received that is not valid JSON-RPC"""

    error: McpError
    size: int


class OversizeReceived(TransportEvent, frozen=True):
    """a frame over the size limit was received"""

    error: McpError


# --- consequences of other events: created by the connection itself ---------------------------------------------------


class TooManyInvalidFrames(Event, frozen=True):
    """too many invalid frames were received in a row"""

    error: McpError


class Negotiated(Event, frozen=True):
    """era and revision are agreed"""

    server: "ServerFacts"


class VersionProposed(Event, frozen=True):
    """the other era, or another revision of this one, is to be tried"""

    era: Era
    version: str


class NegotiationFailed(Event, frozen=True):
    """the negotiation failed; a later attempt may succeed"""

    error: McpError


class NegotiationRefused(Event, frozen=True):
    """the negotiation failed, and no later attempt can succeed"""

    error: McpError


class KeepaliveMissed(Event, frozen=True):
    """the server did not respond to two keepalives"""


class AttemptsExhausted(Event, frozen=True):
    """the maximum number of attempts has failed"""


# --- effects ----------------------------------------------------------------------------------------------------------


class Effect(msgspec.Struct, frozen=True):
    """The base class of effects: what the driver must do, in the order given."""


class Spawn(Effect, frozen=True):
    """Start a transport. Then step `Spawned`, `SpawnFailed` or `SpawnRefused`."""

    epoch: int


class Close(Effect, frozen=True):
    """Close the transport of that epoch, starting or started; may occur twice. Then step `Reaped`."""

    epoch: int


class Send(Effect, frozen=True):
    """Pass this frame to the transport.

    If the transport is busy: step `Refused` if the frame has an `id`, `FrameRefused` if it has `must_arrive`; else only
    count it.
    """

    frame: bytes
    number: int
    id: int | None = None
    must_arrive: bool = False
    response_to: int | str | None = None


class Resume(Effect, frozen=True):
    """More calls are queued than are sent at once: step `Resumed` after the outcome of this turn's frames."""


class Withdraw(Effect, frozen=True):
    """Remove this call's frame from the transport's queue; it has not been written."""

    id: int
    number: int


class CloseResponse(Effect, frozen=True):
    """Close this call's HTTP response; in the stateless era that cancels the request."""

    id: int


class Complete(Effect, frozen=True):
    """The call has a result, a view of the frame: decode or copy it before the next frame is read."""

    caller: Caller
    id: int
    result: msgspec.Raw


class Fail(Effect, frozen=True):
    """The call failed with this error."""

    caller: Caller
    id: int
    error: McpError


class Accept(Effect, frozen=True):
    """The call has this id from now on: it is new, or is sent again."""

    caller: Caller
    id: int


class Release(Effect, frozen=True):
    """End the wait for ready of this caller: ready if `error` is None."""

    caller: Caller
    error: McpError | None


class Deliver(Effect, frozen=True):
    """Add this notification to the inbox."""

    method: str
    params: msgspec.Raw | None


class ReportProgress(Effect, frozen=True):
    """Report progress of this call to its caller."""

    caller: Caller
    id: int
    params: msgspec.Raw


class Serve(Effect, frozen=True):
    """Run the handler for this request of the server; then step `Finished`."""

    id: int | str
    method: str
    params: msgspec.Raw | None


class StopServing(Effect, frozen=True):
    """Cancel that handler; its result is not used."""

    id: int | str


class EndSubscription(Effect, frozen=True):
    """That subscription has ended; it may be opened again."""

    key: str
    error: McpError | None


class Transition(Effect, frozen=True):
    """The state changed: emit telemetry and notify listeners."""

    source: str
    target: str
    reason: McpError | None
    epoch: int
    attempt: int


class Violation(Effect, frozen=True):
    """The server violated the protocol and the connection continues: emit telemetry and log a warning."""

    reason: str
    size: int


class Warn(Effect, frozen=True):
    """Log this as a warning."""

    message: str


class Stray(Effect, frozen=True):
    """A response that belongs to no open request: `late` or `unknown`, how many so far, and what it was."""

    kind: str
    count: int
    id: int | str | None
    error: JsonRpcError | None = None


class Leak(Effect, frozen=True):
    """The transport of that epoch could not be closed in time: log its process."""

    epoch: int


class ServerFacts(msgspec.Struct, frozen=True):
    """What a server sent about itself in the negotiation."""

    version: str
    era: Era
    info: bytes = b"{}"
    capabilities: bytes = b"{}"
    instructions: str = ""


# The effects of one event, in order.
Effects: TypeAlias = list[Effect]

__all__ = [name for name, kind in list(globals().items()) if isinstance(kind, type(Event)) or kind is Effects]
