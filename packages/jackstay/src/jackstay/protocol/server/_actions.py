"""What the cells of the server's table do: actions, then guards. A docstring is the text in docs/protocol.md.

An action applies its event to the component that it concerns (`c.peer_requests`, `c.outgoing`, `c.negotiation`). The
error response of a refusal has the reason in `data`; its `Send` also has the exception, for the HTTP status and logs.
"""

from math import inf
from typing import TYPE_CHECKING

from jackstay.errors import (
    BackpressureError,
    CapabilityError,
    FrameTooLargeError,
    GuardRefusedError,
    InvalidEventError,
    Json,
    MachineError,
    ProtocolError,
    RequestId,
    ShutdownError,
    StateError,
    UnknownEventError,
    UsageError,
)
from jackstay.protocol._machine import readable_name
from jackstay.protocol._methods import METHODS
from jackstay.protocol.server import events as e
from jackstay.protocol.server._stateless import InvalidMeta, RequestMeta
from jackstay.protocol.server._states import ServerState
from jackstay.protocol.wire._jsonrpc import (
    ABSENT,
    ErrorCode,
    Malformed,
    encode_error,
    encode_notification,
    encode_result,
    request_id_at_start,
)
from jackstay.types import encode_json

if TYPE_CHECKING:
    from jackstay.protocol.server._connection import ServerConnection as Server

# How much of an unsupported version an error quotes. A revision is a date; a peer may send anything.
MAX_QUOTED_VERSION = 64

# --- frames that are not messages -------------------------------------------------------------------------------------


def reject_oversize(c: "Server", event: e.OversizeReceived) -> None:
    """-32600, skip to the next frame"""
    error = FrameTooLargeError(event.size, c.max_frame_bytes)
    id = request_id_at_start(event.start, event.end)
    c.peer_requests.reject(error, ABSENT if id is None else id, c.negotiation.unreadable_id, error.details)


def reject_unreadable(c: "Server", event: e.UnreadableReceived) -> None:
    """-32700"""
    _reject_malformed(c, event.message)


def reject_invalid(c: "Server", event: e.InvalidReceived) -> None:
    """-32600"""
    _reject_malformed(c, event.message)


def _reject_malformed(c: "Server", message: Malformed) -> None:
    # The id of a response is one of ours; in an error response it would be read as one of the client's.
    id = ABSENT if message.is_response else message.id
    data: dict[str, Json] = {"path": message.path} if message.path else {}
    c.peer_requests.reject(message.as_error(), id, c.negotiation.unreadable_id, data)


def reject_batch(c: "Server", event: e.BatchReceived) -> None:
    """-32600 for the whole batch"""
    error = ProtocolError(c.negotiation.batch_problem(event.batch), code=ErrorCode.INVALID_REQUEST)
    c.peer_requests.reject(error, ABSENT, c.negotiation.unreadable_id, {})


def count_violation(
    c: "Server", event: e.OversizeReceived | e.UnreadableReceived | e.BatchReceived | e.InvalidReceived
) -> None:
    """count a violation"""
    _report_violation(c, readable_name(type(event).__name__), event.size)


def _report_violation(c: "Server", reason: str, size: int = 0) -> None:
    c.out.append(e.Violation(reason, size, c.count("violation")))


def process_batch(c: "Server", event: e.BatchReceived) -> None:
    """process each member by these rows, in order, and send the responses as one batch once all are there"""
    requests = c.peer_requests
    requests.open_batch(event.batch)
    for index, member in enumerate(event.batch.members):
        requests.member = index
        c.fire(c.classify(member, event.size))
    requests.close_batch()


# --- responses and notifications --------------------------------------------------------------------------------------


def complete_outgoing(c: "Server", event: e.ResponseReceived) -> None:
    """complete our request"""
    c.outgoing.complete(event.response)


def fail_outgoing_malformed(c: "Server", event: e.InvalidReceived) -> None:
    """fail our request with that id"""
    message = event.message
    if message.is_response and message.id in c.outgoing_requests:
        assert isinstance(message.id, int)
        c.outgoing.fail(message.id, message.as_error(sent=True))


def count_stray(c: "Server", event: e.ResponseReceived) -> None:
    """count it"""
    kind = c.outgoing.classify_stray(event.response.id)
    c.out.append(e.Stray(kind, c.count(f"{kind} response")))


def drop_response(c: "Server", event: e.ResponseReceived) -> None:
    """drop, count a violation"""
    _report_violation(c, "response in the stateless era", event.size)


def accept_initialized(c: "Server", event: e.InitializedReceived) -> None:
    """do nothing"""


def cancel(c: "Server", event: e.CancelReceived) -> None:
    """cancel the handler, send no response"""
    assert event.id is not None
    c.peer_requests.stop(event.id, event.reason)


def deliver(c: "Server", event: e.NotificationReceived) -> None:
    """deliver"""
    c.out.append(e.Deliver(event.method, event.params))


# --- requests ---------------------------------------------------------------------------------------------------------


def serve(c: "Server", event: e.MethodRequested) -> None:
    """serve"""
    assert c.version is not None  # the states that serve have one
    c.peer_requests.serve(event.request, event.row, c.version, None)


def serve_stateless(c: "Server", event: e.StatelessRequested) -> None:
    """serve"""
    assert isinstance(event.meta, RequestMeta)
    assert event.row is not None
    if c.version is None:
        c.negotiation.version = event.meta.version
    c.peer_requests.serve(event.request, event.row, event.meta.version, event.meta)


def respond_discover(c: "Server", event: e.DiscoverRequested) -> None:
    """respond with versions and capabilities"""
    _reply(c, event, c.config.discover_result)


def respond_ping(c: "Server", event: e.PingRequested) -> None:
    """respond with {}"""
    _reply(c, event, b"{}")


def initialize(c: "Server", event: e.InitializeRequested) -> None:
    """respond, store the client's parameters"""
    assert event.client is not None
    _reply(c, event, c.negotiation.initialize(event.client))


def respond_initialize(c: "Server", event: e.InitializeRequested) -> None:
    """respond, store nothing"""
    assert event.client is not None
    _reply(c, event, c.negotiation.respond(event.client)[1])


def _reply(c: "Server", event: e.RequestEvent, result: bytes) -> None:
    c.peer_requests.reply(encode_result(event.request.id, result), event.request.id)


# --- refusals ---------------------------------------------------------------------------------------------------------


def _refuse(c: "Server", event: e.RequestEvent, error: MachineError) -> None:
    assert error.code is not None
    id = event.request.id
    c.peer_requests.reply(encode_error(id, error.code, error.message, error.data()), id, error)


def _refuse_by_guard(
    c: "Server", event: e.RequestEvent, code: ErrorCode, reason: str, more: "dict[str, Json] | None" = None
) -> None:
    name, method = type(event).__name__, event.request.method
    _refuse(c, event, GuardRefusedError(reason, event=name, state=c.state.value, code=code, method=method, more=more))


def refuse_duplicate(c: "Server", event: e.DuplicateRequested) -> None:
    """-32600, the id is in flight"""
    _refuse_by_guard(c, event, ErrorCode.INVALID_REQUEST, "a request with this id is in flight")
    _report_violation(c, readable_name(type(event).__name__))


def refuse_version(c: "Server", event: e.UnsupportedRequested) -> None:
    """-32022 with the supported list"""
    _refuse_revision(c, event, event.version, c.config.supported)


def refuse_handshake(c: "Server", event: e.InitializeRequested) -> None:
    """-32022 with the stateless revisions"""
    # Those with a handshake are what was just refused.
    _refuse_revision(c, event, "" if event.client is None else event.client.version, c.config.stateless)


def _refuse_revision(c: "Server", event: e.RequestEvent, requested: str, supported: tuple[str, ...]) -> None:
    more: dict[str, Json] = {"supported": list(supported), "requested": requested[:MAX_QUOTED_VERSION]}
    _refuse_by_guard(c, event, ErrorCode.UNSUPPORTED_PROTOCOL_VERSION, "unsupported protocol version", more)


def refuse_meta(c: "Server", event: e.DiscoverRequested | e.StatelessRequested | e.MethodRequested) -> None:
    """-32602, naming the key of _meta"""
    invalid = InvalidMeta("_meta", "is missing")
    if not isinstance(event, e.MethodRequested):
        assert isinstance(event.meta, InvalidMeta)
        invalid = event.meta
    _refuse_by_guard(c, event, ErrorCode.INVALID_PARAMS, f"{invalid.key} {invalid.reason}", {"key": invalid.key})


def refuse_params(c: "Server", event: e.InitializeRequested) -> None:
    """-32602, naming the member"""
    _refuse_by_guard(c, event, ErrorCode.INVALID_PARAMS, event.problem)


def refuse_unknown(c: "Server", event: e.RequestEvent) -> None:
    """-32601"""
    _refuse(c, event, UnknownEventError(type(event).__name__, c.state.value, method=event.request.method))


def refuse_sequence(c: "Server", event: e.RequestEvent) -> None:
    """sequence error -32001"""
    _refuse_order(c, event, ErrorCode.SEQUENCE_ERROR)


def refuse_stateless(c: "Server", event: e.StatelessRequested) -> None:
    """sequence error -32600"""
    # Nothing may be allocated in -32000 to -32019 from 2026-07-28 on (basic/index, "Error codes").
    _refuse_order(c, event, ErrorCode.INVALID_REQUEST)


def _refuse_order(c: "Server", event: e.RequestEvent, code: ErrorCode) -> None:
    _refuse(c, event, InvalidEventError(type(event).__name__, c.state.value, method=event.request.method, code=code))


def refuse_shutdown(c: "Server", event: e.RequestEvent) -> None:
    """-32603, shutting down, retryable"""
    more: dict[str, Json] = {"retryable": True, "mayHaveRun": False}
    _refuse_by_guard(c, event, ErrorCode.INTERNAL_ERROR, "server is shutting down", more)


def refuse_busy(c: "Server", event: e.RequestEvent) -> None:
    """-32603, busy, retryable"""
    more: dict[str, Json] = {"retryable": True, "mayHaveRun": False, "reason": "busy"}
    _refuse_by_guard(c, event, ErrorCode.INTERNAL_ERROR, "too many requests are in flight", more)


# --- handlers ---------------------------------------------------------------------------------------------------------


def respond(c: "Server", event: e.Finished | e.Failed) -> None:
    """send the response, or add it to its batch"""
    if isinstance(event, e.Finished):
        frame = encode_result(event.id, event.result)
    else:
        try:
            frame = encode_error(event.id, event.code, event.message, event.data)
        except UsageError:
            # The client still needs a response if the data is not JSON.
            c.count("error not encoded")
            frame = encode_error(event.id, event.code, "the error could not be encoded")
    c.peer_requests.respond(event.id, _fit(c, event.id, frame))


def _fit(c: "Server", id: RequestId, frame: bytes) -> bytes:
    """Return the frame, or an error response instead of one over the limit, which the client would not accept."""
    limit = c.max_frame_bytes
    if len(frame) <= limit:
        return frame
    c.count("response too large")
    data: dict[str, Json] = {"size": len(frame), "limit": limit}
    message = f"response too large: {len(frame)} bytes, limit {limit}; raise max_frame_bytes on both sides"
    return encode_error(id, ErrorCode.INTERNAL_ERROR, message, data)


def count_late(c: "Server", _: e.Finished | e.Failed) -> None:
    """drop, count it as late"""
    c.count("late result")


def send_progress(c: "Server", event: e.Progressed) -> None:
    """send progress"""
    params: dict[str, Json] = {"progressToken": event.token, "progress": event.progress}
    if event.total is not None:
        params["total"] = event.total
    # 2024-11-05 has no `message`; its schema allows additional members, so clients ignore it.
    if event.message:
        params["message"] = event.message
    notify(c, e.Notified("notifications/progress", encode_json(params), event.id))
    c.peer_requests.progress[event.id] = event.progress


def drop_progress(c: "Server", _: e.Progressed) -> None:
    """drop, count it as not increasing"""
    c.count("progress dropped")


# --- messages that the server sends on its own ------------------------------------------------------------------------


def notify(c: "Server", event: e.Notified) -> None:
    """send it"""
    c.out.append(_encode(c, event))


def _encode(c: "Server", event: e.Notified) -> e.Send:
    frame = encode_notification(event.method, event.params)
    if len(frame) > c.max_frame_bytes:
        raise FrameTooLargeError(len(frame), c.max_frame_bytes)
    return e.Send(frame, event.related_request_id)


def queue_notification(c: "Server", event: e.Notified) -> None:
    """queue it until initialized"""
    send = _encode(c, event)  # now: what cannot be sent is its maker's error, not the next frame's
    if len(c.outgoing) >= c.max_concurrent:
        c.count("notification dropped")
    else:
        c.outgoing.queued.append(send)


def queue_outgoing(c: "Server", event: e.OutgoingRequested) -> None:
    """queue it until initialized"""
    c.outgoing.queued.append(event)


def send_queued(c: "Server", _: e.Event) -> None:
    """send what was queued"""
    if c.has_outgoing:
        c.outgoing.send_queued()


def drop_queued(c: "Server", _: e.Event) -> None:
    """drop what was queued"""
    if c.has_outgoing:
        for _notification in range(c.outgoing.drop_queued()):
            c.count("notification dropped")


def send_outgoing(c: "Server", event: e.OutgoingRequested) -> None:
    """assign an id, send it"""
    c.outgoing.send(event)


def cancel_outgoing(c: "Server", event: e.OutgoingCancelled) -> None:
    """send notifications/cancelled"""
    c.outgoing.cancel(event.key, event.reason)


def fail_outgoing_early(c: "Server", event: e.OutgoingRequested) -> None:
    """StateError"""
    c.out.append(e.Fail(event.key, StateError(c.state.value)))


def fail_outgoing_full(c: "Server", event: e.OutgoingRequested) -> None:
    """BackpressureError"""
    c.out.append(e.Fail(event.key, BackpressureError(f"{c.max_concurrent} requests to the client are pending")))


def fail_outgoing_capability(c: "Server", event: e.OutgoingRequested) -> None:
    """CapabilityError"""
    row = METHODS.get(event.method)
    required = (row.capability if row is not None else "") or event.method
    if c.state is ServerState.STATELESS:
        message = "requests to a stateless client must be part of a result (input_required)"
    elif c.is_post:
        message = f"sessions are off, so {required} cannot be requested from the client"
    else:
        message = f"the client did not declare {required}"
    c.out.append(e.Fail(event.key, CapabilityError(required, message)))


def fail_outgoing_shutdown(c: "Server", event: e.OutgoingRequested) -> None:
    """ShutdownError"""
    c.out.append(e.Fail(event.key, ShutdownError("the connection is closing")))


# --- shutdown ---------------------------------------------------------------------------------------------------------


def arm_drain(c: "Server", _: e.Event) -> None:
    """set the drain deadline"""
    c.wake_at = c.now + c.config.options.drain_timeout


def clear_deadline(c: "Server", _: e.Event) -> None:
    """clear the drain deadline"""
    c.wake_at = None


def fail_all_outgoing(c: "Server", _: e.Event) -> None:
    """fail all requests to the client"""
    if c.has_outgoing:
        c.outgoing.fail_all()


def cancel_running(c: "Server", event: e.Event) -> None:
    """cancel all handlers"""
    c.peer_requests.stop_all(readable_name(type(event).__name__))


def flush_batches(c: "Server", _: e.Event) -> None:
    """send incomplete batches"""
    c.peer_requests.flush_batches()


def close(c: "Server", _: e.Event) -> None:
    """flush, close the transport"""
    c.out.append(e.Close())


# --- guards -----------------------------------------------------------------------------------------------------------


def is_batch_allowed(c: "Server", event: e.BatchReceived) -> bool:
    """2025-03-26, 1 to 100 members, no initialize"""
    return not c.negotiation.batch_problem(event.batch)


def is_expected(c: "Server", event: e.ResponseReceived) -> bool:
    """it responds to a request of ours"""
    return event.response.id in c.outgoing_requests


def is_in_flight(c: "Server", event: e.CancelReceived) -> bool:
    """that request is in flight"""
    return event.id in c.in_flight


def is_current(c: "Server", event: e.Finished | e.Failed) -> bool:
    """the request is still in flight"""
    return c.in_flight.get(event.id) == event.serial


def advances(c: "Server", event: e.Progressed) -> bool:
    """the request is in flight and its progress increases"""
    # Progress must increase (2025-11-25 basic/utilities/progress). NaN never does.
    last = c.peer_requests.progress.get(event.id, -inf)
    return c.in_flight.get(event.id) == event.serial and last < event.progress < inf


def has_invalid_meta(_: "Server", event: e.DiscoverRequested | e.StatelessRequested) -> bool:
    """a key of _meta is missing or invalid"""
    return isinstance(event.meta, InvalidMeta)


def is_unknown(_: "Server", event: e.StatelessRequested) -> bool:
    """the revision has no such method"""
    return event.row is None


def is_full(c: "Server", _: e.Event) -> bool:
    """max_concurrent are in flight"""
    return len(c.in_flight) >= c.max_concurrent


def is_strict_handshake(c: "Server", _: e.Event) -> bool:
    """strict"""
    return c.config.options.strict


def is_post(c: "Server", _: e.Event) -> bool:
    """the connection is one POST"""
    return c.is_post


def is_not_post(c: "Server", _: e.Event) -> bool:
    """the connection is more than one POST"""
    return not c.is_post


def has_no_handshake(c: "Server", _: e.Event) -> bool:
    """no revision with a handshake is supported"""
    return not c.config.handshake


def has_bad_params(_: "Server", event: e.InitializeRequested) -> bool:
    """its params are invalid"""
    return event.client is None


def may_notify_early(_: "Server", event: e.Notified) -> bool:
    """it is a log message, or belongs to a request"""
    return event.related_request_id is not None or event.method == "notifications/message"


def is_ping(_: "Server", event: e.OutgoingRequested) -> bool:
    """it is a ping"""
    return event.method == "ping"


def is_undeclared(c: "Server", event: e.OutgoingRequested) -> bool:
    """the client did not declare it, or cannot be reached"""
    return c.is_post or not c.negotiation.accepts(event.method)


def is_outgoing_full(c: "Server", _: e.OutgoingRequested) -> bool:
    """max_concurrent requests to the client are pending"""
    return len(c.outgoing) >= c.max_concurrent
