"""What can happen to a client's connection (events, past tense) and what is to be done about it (effects, verbs).

Events of a transport carry the epoch of the transport they come from, so that an old one cannot touch a new one. Errors
inside events were made by the driver, which knows the exit code and the last words on stderr; the core only passes
them on. `caller` is whatever the driver uses to find its caller again.

Above: `_table`, `_connection`, and the driver in the client's room. Below: `_exchange`, `_versions`.
"""

from typing import TypeAlias

import msgspec

from jackstay.errors import McpError
from jackstay.protocol._versions import Era
from jackstay.protocol.client._exchange import Caller


class Event(msgspec.Struct, frozen=True):
    """Something happened."""


# --- what the user does -----------------------------------------------------------------------------------------------


class Called(Event, frozen=True, kw_only=True):
    """a call was made; `params` is its encoded object without `_meta`, `meta` the members of the caller's own"""

    caller: Caller
    method: str
    params: bytes = b"{}"
    meta: bytes = b""
    # For whom it is made, where that is not us: the members of `_meta` that say so in the stateless era, encoded.
    speaker: bytes = b""
    # UNSET (for the times) and None (for the rest): as the settings say.
    timeout: float | msgspec.UnsetType | None = msgspec.UNSET
    max_timeout: float | msgspec.UnsetType | None = msgspec.UNSET
    wait_for_ready: bool | None = None
    busy: str | None = None
    may_replay: bool = False
    wants_progress: bool = False
    # For a request that continues a call: when the call began, and when its soft deadline was last moved. None: now.
    began_at: float | None = None
    moved_at: float | None = None


class Notified(Event, frozen=True, kw_only=True):
    """a notification to the server was made"""

    caller: Caller
    method: str
    params: bytes = b"{}"


class Replied(Event, frozen=True):
    """a handler answered a request of the server's; `error` is an encoded error object, else `result` is sent"""

    id: int | str
    result: bytes = b"{}"
    error: bytes = b""


class Subscribed(Event, frozen=True):
    """a subscription is wanted for as long as the connection lives; one form for each era, None where it has none"""

    key: str
    handshake: tuple[str, bytes] | None
    stateless: tuple[str, bytes] | None
    # True: it was opened by a call already, and needs opening only after the next loss.
    is_open: bool = False


class Unsubscribed(Event, frozen=True):
    """a subscription is no longer wanted"""

    key: str


class ReadyAsked(Event, frozen=True):
    """somebody waits for ready"""

    caller: Caller


class WaitGivenUp(Event, frozen=True):
    """somebody no longer waits for ready"""

    caller: Caller


class ServerAsked(Event, frozen=True):
    """somebody asks what the server is and can"""

    caller: Caller


class GaveUp(Event, frozen=True):
    """the caller of a call no longer waits"""

    id: int


class StopAsked(Event, frozen=True):
    """the connection is to end"""


# --- what the clock does ----------------------------------------------------------------------------------------------


class Expired(Event, frozen=True):
    """the soft or the hard deadline of a call passed"""

    id: int


class RetryDue(Event, frozen=True):
    """it is time to offer a refused frame again"""

    id: int


class ConnectExpired(Event, frozen=True):
    """the time from spawn to ready ran out"""


class ProbeExpired(Event, frozen=True):
    """the probe stayed unanswered for long enough to send `initialize` too"""


class BackoffElapsed(Event, frozen=True):
    """the wait before the next attempt is over"""


class CloseExpired(Event, frozen=True):
    """closing the transport took longer than all its steps"""


class SweepDue(Event, frozen=True):
    """it is time to sweep the tombstones"""


class CheckExpired(Event, frozen=True):
    """the time to answer a check ran out; the check was sent because a call got no answer"""


class KeepaliveDue(Event, frozen=True):
    """it is time to see whether anything was heard"""


class Resumed(Event, frozen=True):
    """what was offered so far has been taken or refused, and more waits"""


class Settled(Event, frozen=True):
    """the connection has been ready for long enough to count as sound"""


# --- what the transport does ------------------------------------------------------------------------------------------


class TransportEvent(Event, frozen=True):
    """Something about the transport of one epoch."""

    epoch: int


class Spawned(TransportEvent, frozen=True):
    """the transport was started"""


class SpawnFailed(TransportEvent, frozen=True):
    """the transport could not be started, and may be another time"""

    error: McpError


class SpawnRefused(TransportEvent, frozen=True):
    """the transport could not be started, and never will"""

    error: McpError


class CameUp(TransportEvent, frozen=True):
    """frames can be sent"""


class WentDown(TransportEvent, frozen=True):
    """the transport ended, or a write failed; `code` is how the process exited, where there is one"""

    error: McpError
    code: int | None = None
    was_silent: bool = False


class Reaped(TransportEvent, frozen=True):
    """the transport is gone, with every process and file of it"""


class Wrote(TransportEvent, frozen=True):
    """frames up to this number have been given to the operating system"""

    through: int


class Refused(TransportEvent, frozen=True):
    """the transport is busy and took nothing of this call's frame"""

    id: int


class FrameRefused(TransportEvent, frozen=True):
    """the transport is busy and took nothing of an answer or a notification, which must arrive all the same"""

    frame: bytes
    # The request of the server's that it answers; None: it answers none.
    answers: int | str | None = None


class RoomMade(TransportEvent, frozen=True):
    """the transport takes frames again"""


class ExchangeLost(TransportEvent, frozen=True):
    """one request failed alone (HTTP): never sent, or its response ended without the answer"""

    id: int
    error: McpError
    # True: the server declined it without a JSON-RPC answer, which before ready is part of the negotiation.
    was_declined: bool = False


class PostQueued(TransportEvent, frozen=True):
    """the request waits for a free connection (HTTP): nothing of it was sent"""

    id: int


class PostStarted(TransportEvent, frozen=True):
    """sending a request that waited begins (HTTP): from now on it may run"""

    id: int


class SessionLost(TransportEvent, frozen=True):
    """the server forgot the session and refused this request (HTTP 404)"""

    id: int


class StaleHappened(TransportEvent, frozen=True):
    """something happened to a transport of an earlier epoch"""


# --- what the peer sends: made by the core from frames ----------------------------------------------------------------


class AnswerReceived(Event, frozen=True):
    """an answer to a call that is open arrived"""

    id: int
    result: msgspec.Raw | None
    error: McpError | None = None


class StrayReceived(Event, frozen=True):
    """an answer arrived that nobody waits for"""

    id: int | str | None


class CancelReceived(Event, frozen=True):
    """`notifications/cancelled` arrived"""

    id: int | str | None


class NotificationReceived(Event, frozen=True):
    """another notification arrived"""

    method: str
    params: msgspec.Raw | None


class RequestReceived(Event, frozen=True):
    """the server asks something"""

    id: int | str
    method: str
    params: msgspec.Raw | None
    size: int = 0


class InitializeReceived(Event, frozen=True):
    """the server sends `initialize`, which only a client may"""

    size: int = 0


class ResetReceived(Event, frozen=True):
    """the server resets the connection"""


class GarbageReceived(Event, frozen=True):
    """something arrived that is not JSON-RPC"""

    error: McpError
    size: int


class OversizeReceived(TransportEvent, frozen=True):
    """a frame over the limit arrived"""

    error: McpError


# --- what follows from what happened: made by the core ----------------------------------------------------------------


class StruckOut(Event, frozen=True):
    """too many bad lines in a row"""

    error: McpError


class Negotiated(Event, frozen=True, kw_only=True):
    """era and revision are agreed"""

    version: str
    server: "ServerFacts"


class Offered(Event, frozen=True):
    """the other era, or another revision of this one, is offered"""

    era: Era
    version: str


class NegotiationFailed(Event, frozen=True):
    """era and revision could not be agreed, and may be another time"""

    error: McpError


class NegotiationRefused(Event, frozen=True):
    """era and revision cannot be agreed, now or later"""

    error: McpError


class KeepaliveMissed(Event, frozen=True):
    """the server gave no sign of life, twice"""


class AttemptsExhausted(Event, frozen=True):
    """as many attempts as allowed have failed"""


# --- what to do -------------------------------------------------------------------------------------------------------


class Effect(msgspec.Struct, frozen=True):
    """Something the driver is to do, in the order given."""


class Spawn(Effect, frozen=True):
    """Start a transport. Then step `Spawned` and `CameUp`, or `SpawnFailed`, or `SpawnRefused`."""

    epoch: int


class Close(Effect, frozen=True):
    """Close the transport of that epoch, starting or started; may be said twice. Then step `Reaped`."""

    epoch: int


class Send(Effect, frozen=True):
    """Hand this frame to the transport.

    If it is busy, step `Refused` when `id` is a call's, `FrameRefused` with `answers` when it must arrive; else count it.
    """

    frame: bytes
    number: int
    id: int | None = None
    must_arrive: bool = False
    answers: int | str | None = None


class Resume(Effect, frozen=True):
    """More calls wait than are offered at once: step `Resumed` after what this turn's frames came to."""


class Withdraw(Effect, frozen=True):
    """Take this call's frame back from the transport's queue: it is not written yet, and must not be."""

    id: int
    number: int


class HangUp(Effect, frozen=True):
    """Close this call's HTTP response: in the stateless era that is the cancel."""

    id: int


class Complete(Effect, frozen=True):
    """The call was answered. `result` is a view of the frame: decode or copy it before the next one is read."""

    caller: Caller
    id: int
    result: msgspec.Raw


class Fail(Effect, frozen=True):
    """The call ended with this error."""

    caller: Caller
    id: int
    error: McpError


class Accept(Effect, frozen=True):
    """The call has this id from now on: it was made, or made again after a loss."""

    caller: Caller
    id: int


class Release(Effect, frozen=True):
    """Whoever waited for ready waits no longer: ready if `error` is None."""

    caller: Caller
    error: McpError | None


class Tell(Effect, frozen=True):
    """What is known of the server; `is_stale` when it is from before the last loss."""

    caller: Caller
    server: "ServerFacts | None"
    is_stale: bool
    error: McpError | None = None


class Deliver(Effect, frozen=True):
    """Put this notification into the inbox."""

    method: str
    params: msgspec.Raw | None


class Report(Effect, frozen=True):
    """Progress for this call."""

    caller: Caller
    id: int
    params: msgspec.Raw


class Serve(Effect, frozen=True):
    """Run the handler for this request of the server's; then step `Replied`."""

    id: int | str
    method: str
    params: msgspec.Raw | None


class StopServing(Effect, frozen=True):
    """Cancel that handler; its answer is not wanted."""

    id: int | str


class EndSubscription(Effect, frozen=True):
    """That subscription has ended; it may be wanted again."""

    key: str
    error: McpError | None


class Transition(Effect, frozen=True):
    """The state changed: telemetry, and everybody who watches."""

    source: str
    target: str
    reason: McpError | None
    epoch: int
    attempt: int


class Violation(Effect, frozen=True):
    """The peer broke a rule and we go on: telemetry and a warning."""

    reason: str
    size: int


class Warn(Effect, frozen=True):
    """Log this as a warning."""

    message: str


class Stray(Effect, frozen=True):
    """An answer that nobody waits for: `late` or `unknown`, and how many so far."""

    kind: str
    count: int


class Leak(Effect, frozen=True):
    """The transport of that epoch could not be closed in time: log its process."""

    epoch: int


class ServerFacts(msgspec.Struct, frozen=True):
    """What a server said of itself when era and revision were agreed."""

    version: str
    era: Era
    info: bytes = b"{}"
    capabilities: bytes = b"{}"
    instructions: str = ""


# What one turn of the core comes to, to be done in this order.
Effects: TypeAlias = list[Effect]

__all__ = [
    "Accept",
    "AnswerReceived",
    "AttemptsExhausted",
    "BackoffElapsed",
    "Called",
    "CameUp",
    "CancelReceived",
    "CheckExpired",
    "Close",
    "CloseExpired",
    "Complete",
    "ConnectExpired",
    "Deliver",
    "Effect",
    "Effects",
    "EndSubscription",
    "Event",
    "ExchangeLost",
    "Expired",
    "Fail",
    "FrameRefused",
    "GarbageReceived",
    "GaveUp",
    "HangUp",
    "InitializeReceived",
    "KeepaliveDue",
    "KeepaliveMissed",
    "Leak",
    "Negotiated",
    "NegotiationFailed",
    "NegotiationRefused",
    "NotificationReceived",
    "Notified",
    "Offered",
    "OversizeReceived",
    "PostQueued",
    "PostStarted",
    "ProbeExpired",
    "ReadyAsked",
    "Reaped",
    "Refused",
    "Release",
    "Replied",
    "Report",
    "RequestReceived",
    "ResetReceived",
    "Resume",
    "Resumed",
    "RetryDue",
    "RoomMade",
    "Send",
    "Serve",
    "ServerAsked",
    "ServerFacts",
    "SessionLost",
    "Settled",
    "Spawn",
    "SpawnFailed",
    "SpawnRefused",
    "Spawned",
    "StaleHappened",
    "StopAsked",
    "StopServing",
    "Stray",
    "StrayReceived",
    "StruckOut",
    "Subscribed",
    "SweepDue",
    "Tell",
    "Transition",
    "TransportEvent",
    "Unsubscribed",
    "Violation",
    "WaitGivenUp",
    "Warn",
    "WentDown",
    "Withdraw",
    "Wrote",
]
