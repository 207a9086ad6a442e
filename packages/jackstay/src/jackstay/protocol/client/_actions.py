"""What the cells of the client's table do: actions, then guards. A docstring is the text in docs/protocol.md.

An action passes its event to the component that it concerns (`c.calls`, `c.negotiation`, ...). What a component decides
that may change the state comes back as an event, which the action passes to the table.
"""

from math import inf
from typing import TYPE_CHECKING

from jackstay.errors import FrameTooLargeError, McpError, ProtocolError, ShutdownError, StateError, TransportError
from jackstay.protocol._methods import METHODS
from jackstay.protocol._versions import REVISIONS
from jackstay.protocol.client import events as e
from jackstay.protocol.client._exchange import ExchangeEvent, ExchangeState, Role
from jackstay.protocol.client._health import Health
from jackstay.protocol.client._message_classifier import progress_token
from jackstay.protocol.client._negotiation import Negotiation, ProbeHistory
from jackstay.protocol.client._recovery import SESSIONS_NOT_KEPT
from jackstay.protocol.client._settings import MAX_INVALID_FRAMES, SESSION_LOSS_WINDOW, STABLE_AFTER
from jackstay.protocol.client._states import ClientState
from jackstay.protocol.client._subscriptions import Subscriptions
from jackstay.protocol.client._transport import TransportLink, TransportStatus
from jackstay.protocol.wire._jsonrpc import ErrorCode, Malformed, encode_result

if TYPE_CHECKING:
    from jackstay.protocol.client._connection import ClientConnection as Client

ALLOWED_BEFORE_READY = frozenset(name for name, row in METHODS.items() if row.is_early)

# --- calls and other requests of users --------------------------------------------------------------------------------


def write(c: "Client", event: e.Called) -> None:
    """new id, deadline, write"""
    c.calls.make(event, may_send=True)


def queue(c: "Client", event: e.Called) -> None:
    """new id, deadline, queue it"""
    c.calls.make(event, may_send=False)


def refuse(c: "Client", event: e.Called | e.Notified) -> None:
    """StateError"""
    at = c.calls.timers.at(e.BackoffElapsed)
    error = StateError(c.state.value, retry_in=None if at is None else max(0.0, at - c.calls.now))
    c.calls.refuse(event, error)


def refuse_draining(c: "Client", event: e.Called) -> None:
    """ShutdownError"""
    c.calls.refuse(event, ShutdownError("the client is shutting down and accepts no new calls"))


def refuse_ended(c: "Client", event: e.Called | e.Notified) -> None:
    """ShutdownError or ClosedError"""
    c.calls.refuse(event, _ended_error(c))


def _ended_error(c: "Client") -> McpError:
    return c.recovery.ended_error(is_closing=c.state is ClientState.CLOSING)


def notify(c: "Client", event: e.Notified) -> None:
    """write it"""
    try:
        c.peer_requests.notify(event.method, event.params)
    except McpError as error:
        c.calls.refuse(event, error)


def drain(c: "Client", _: e.Event) -> None:
    """refuse new calls from now on"""
    c.drain_at = min(c.drain_at, c.calls.now)


def end_drain(c: "Client", _: e.Event) -> None:
    """accept calls again"""
    c.drain_at = inf


def add_waiter(c: "Client", event: e.ReadyRequested) -> None:
    """wait"""
    c.waiters.add(event.caller)


def drop_waiter(c: "Client", event: e.WaitCancelled) -> None:
    """stop waiting"""
    c.waiters.drop(event.caller)


def release_waiters(c: "Client", _: e.Event) -> None:
    """release waiters"""
    c.waiters.release(None)


def end_waiters(c: "Client", _: e.Event) -> None:
    """raise in every waiter"""
    c.waiters.release(_ended_error(c))


def cancel_call(c: "Client", event: e.CallCancelled) -> None:
    """withdraw or cancel it"""
    exchange = c.calls.pending.get(event.id)
    if exchange is not None:
        c.calls.advance(exchange, ExchangeEvent.CANCELLED)
        c.send_queued()


def expire(c: "Client", event: e.Expired) -> None:
    """TimeoutError; withdraw or cancel it"""
    exchange = c.calls.pending.get(event.id)
    if exchange is not None:
        c.calls.expire(exchange)
        c.send_queued()


def retry(c: "Client", event: e.RetryDue) -> None:
    """send it again"""
    exchange = c.calls.pending.get(event.id)
    if exchange is not None and exchange.state is ExchangeState.BUSY:
        c.calls.send_request(exchange)


def handle_busy(c: "Client", event: e.Refused) -> None:
    """retry, wait, or BackpressureError"""
    exchange = c.calls.find_sent(event.id)
    if exchange is None:
        c.count("ignored Refused")
        return
    c.calls.became_full()
    c.calls.advance(exchange, ExchangeEvent.REFUSED)


def flush(c: "Client", _: e.Event) -> None:
    """send queued calls"""
    c.calls.became_writable()
    c.send_queued()


def send_more(c: "Client", _: e.Event) -> None:
    """send more queued calls"""
    c.send_queued()


def mark_unsent(c: "Client", event: e.PostQueued) -> None:
    """mark as not sent"""
    exchange = c.calls.find_sent(event.id)
    if exchange is not None:
        exchange.is_unsent = True


def mark_sent(c: "Client", event: e.PostStarted) -> None:
    """mark as sent"""
    exchange = c.calls.find_sent(event.id)
    if exchange is not None:
        exchange.is_unsent = False


def add_subscription(c: "Client", event: e.Subscribed) -> None:
    """store it"""
    c.subscriptions.add(event)


def open_subscription(c: "Client", event: e.Subscribed) -> None:
    """open it"""
    c.subscriptions.open(event, c.agreed.era)


def forget_subscription(c: "Client", event: e.Unsubscribed) -> None:
    """remove and end it"""
    c.subscriptions.forget(event.key)


def reopen(c: "Client", _: e.Event) -> None:
    """open subscriptions again"""
    c.subscriptions.reopen(c.agreed.era)


# --- the transport ----------------------------------------------------------------------------------------------------


def spawn(c: "Client", _: e.Event) -> None:
    """epoch+1, spawn"""
    c.epoch += 1
    if c.transport.status is TransportStatus.KEPT:
        c.recovery.session_renewed_at = c.calls.now
    c.calls.reset_transport()
    last = c.negotiation
    c.negotiation = Negotiation(c.calls, last.known_era, last.probe_history, last.offered)
    c.health = Health(c.calls)
    c.transport = TransportLink(c.calls, TransportStatus.OPEN)
    c.emit(e.Spawn(c.epoch))


def close(c: "Client", _: e.Event) -> None:
    """close the transport"""
    c.transport.close(c.epoch)


def close_late(c: "Client", event: e.Spawned) -> None:
    """close that late spawn"""
    c.emit(e.Close(event.epoch))


def mark_reaped(c: "Client", _: e.Event) -> None:
    """mark as reaped"""
    c.transport.ended()


def report_leak(c: "Client", _: e.Event) -> None:
    """log the process id"""
    c.emit(e.Leak(c.epoch))


# --- negotiation ------------------------------------------------------------------------------------------------------


def _continue(c: "Client", outcome: e.Event | None) -> None:
    if outcome is not None:
        c.fire(outcome)


def open_negotiation(c: "Client", _: e.Event) -> None:
    """probe or initialize"""
    _continue(c, c.negotiation.open())


def send_initialize(c: "Client", _: e.Event) -> None:
    """send initialize, unless it is open"""
    _continue(c, c.negotiation.send_initialize())


def try_version(c: "Client", event: e.VersionProposed) -> None:
    """try that era and version, at most 3 steps"""
    _continue(c, c.negotiation.try_version(event))


def negotiate(c: "Client", event: e.ResponseReceived | e.ExchangeLost) -> None:
    """continue the negotiation with it"""
    _continue(c, c.negotiation.handle_response(event))


def restart_handshake(c: "Client", event: e.SessionLost) -> None:
    """initialize again without a session"""
    _continue(c, c.negotiation.restart(event.id))


def finish_negotiation(c: "Client", event: e.Negotiated) -> None:
    """store version, capabilities and server info"""
    c.server = event.server
    c.negotiation.finish(event.server)


# --- failures and reconnecting ----------------------------------------------------------------------------------------


def arm_connect(c: "Client", _: e.Event) -> None:
    """arm the connect deadline"""
    c.calls.timers.arm(e.ConnectExpired, c.calls.now + c.settings.start_timeout(c.recovery.slow_starts))


def record_cause(c: "Client", event: e.Event) -> None:
    """record the cause"""
    c.negotiation.record_failure(event)
    c.recovery.record(event, c.transport, c.health.check_method)


def start_backoff(c: "Client", event: e.Event) -> None:
    """count a failure, arm backoff"""
    c.recovery.start_backoff(is_reset=isinstance(event, e.ResetReceived))


def check_attempts(c: "Client", _: e.Event) -> None:
    """check whether attempts are left"""
    if c.server is None and c.recovery.is_exhausted():
        c.fire(e.AttemptsExhausted())


def forget_failures(c: "Client", _: e.Event) -> None:
    """failures = 0"""
    c.recovery.failures = 0


def reset_calls(c: "Client", _: e.Event) -> None:
    """ResetError for every call that was sent"""
    c.calls.reset()


def end_calls(c: "Client", _: e.Event) -> None:
    """fail every call"""
    c.peer_requests.stop()
    c.calls.connection_closed(c.recovery.cause or ShutdownError())


def drop_transport(c: "Client", _: e.Event) -> None:
    """unless the HTTP client is kept: close the transport, fail sent calls, keep queued calls"""
    if c.transport.status is not TransportStatus.KEPT:
        c.transport.close(c.epoch)
        c.peer_requests.stop()
        c.calls.connection_lost(c.recovery.cause or TransportError("the connection was lost"))


def keep_client(c: "Client", _: e.Event) -> None:
    """keep the HTTP client and its open requests, drop the session"""
    c.transport.status = TransportStatus.KEPT
    c.peer_requests.stop()
    c.calls.renew_session()


def requeue(c: "Client", event: e.SessionLost | e.OldSessionLost) -> None:
    """queue that request again, or SessionLostError after the last attempt"""
    c.health.received()  # a refusal is a response too
    exchange = c.calls.find_sent(event.id)
    if exchange is not None and exchange.role is Role.CALL:
        c.calls.requeue(exchange)


def warn_about_sessions(c: "Client", _: e.Event) -> None:
    """warn once that the server does not keep sessions"""
    if not c.recovery.has_warned:
        c.recovery.has_warned = True
        c.emit(e.Warn(SESSIONS_NOT_KEPT))


def fail_exchange(c: "Client", event: e.ExchangeLost) -> None:
    """fail that call only"""
    if event.was_declined and event.epoch == c.epoch:
        c.health.received()  # a refusal is a response too
    exchange = c.calls.find_sent(event.id)
    if exchange is None:
        c.count("ignored ExchangeLost")
        return
    c.calls.fail(exchange, event.error)
    c.calls.abandon(exchange)
    c.send_queued()


def clear(c: "Client", _: e.Event) -> None:
    """clear tables and timers"""
    c.calls.clear()
    c.subscriptions = Subscriptions(c.calls)


def sweep(c: "Client", _: e.Event) -> None:
    """remove expired tombstones"""
    c.calls.sweep()
    c.calls.timers.arm(e.SweepDue, c.calls.now + c.settings.tombstone_sweep)


# --- health -----------------------------------------------------------------------------------------------------------


def arm_ready_timers(c: "Client", _: e.Event) -> None:
    """arm the keepalive and stable timers"""
    c.recovery.slow_starts = 0
    c.calls.timers.arm(e.BecameStable, c.calls.now + STABLE_AFTER)
    c.health.begin(c.agreed.era)


def keep_alive(c: "Client", _: e.Event) -> None:
    """send a keepalive if nothing was received"""
    if not c.health.keep_alive():
        c.fire(e.KeepaliveMissed())


def check_if_silent(c: "Client", event: e.Expired | e.CallCancelled) -> None:
    """send a health check if nothing was received since"""
    c.health.check_if_silent(event.id, is_cancelled=isinstance(event, e.CallCancelled))


def end_check(c: "Client", _: e.Event) -> None:
    """end the health check, send queued calls"""
    c.health.end_check()
    c.send_queued()


# --- messages from the server -----------------------------------------------------------------------------------------


def record_message(c: "Client", _: e.Event) -> None:
    """the server responds"""
    c.health.received()
    c.transport.message_received()


def receive_members(c: "Client", event: e.BatchReceived) -> None:
    """process each member by these rows, in order"""
    has_counted = False
    for member in event.members:
        if isinstance(member, Malformed) and not member.is_response:
            if has_counted:
                continue  # a frame counts once, however many of its members are invalid
            has_counted = True
        c.receive(member, event.size)


def refuse_batch(c: "Client", event: e.BatchReceived) -> None:
    """it is an invalid frame"""
    error = ProtocolError("a JSON array, but this revision has no batches", code=ErrorCode.INVALID_REQUEST)
    c.fire(e.InvalidFrameReceived(error, event.size))


def complete(c: "Client", event: e.ResponseReceived) -> None:
    """complete the call, send queued calls"""
    if event.result is not None:
        c.recovery.failures = 0
    c.calls.advance(c.calls.pending[event.id], ExchangeEvent.ANSWERED, event.error or event.result)
    c.send_queued()


def answer_subscription(c: "Client", event: e.ResponseReceived) -> None:
    """it is open, or has ended"""
    c.subscriptions.answered(c.calls.pending[event.id], event.error)


def end_keepalive(c: "Client", event: e.ResponseReceived) -> None:
    """the keepalive has ended"""
    c.calls.remove(c.calls.pending[event.id])


def count_stray(c: "Client", event: e.StrayReceived) -> None:
    """count it as late or unknown"""
    c.calls.count_stray(event.id, event.error)


def count(c: "Client", _: e.Event) -> None:
    """count it"""
    c.count("stale")


def stop_serving(c: "Client", event: e.CancelReceived) -> None:
    """cancel the handler, or drop its response"""
    c.peer_requests.cancel(event.id)


def end_subscription(c: "Client", event: e.CancelReceived) -> None:
    """that subscription has ended"""
    exchange = c.calls.find_sent(event.id)
    assert exchange is not None  # the guard found it
    c.subscriptions.cancelled(exchange)


def deliver(c: "Client", event: e.NotificationReceived) -> None:
    """deliver to its call or to the inbox"""
    if event.method != "notifications/progress":
        c.emit(e.Deliver(event.method, event.params))
        return
    exchange = c.calls.find_sent(progress_token(event.params))
    if exchange is None or event.params is None:
        c.count("ignored progress")
        return
    c.calls.advance(exchange, ExchangeEvent.PROGRESSED)
    if exchange.role is Role.CALL:
        c.emit(e.ReportProgress(exchange.caller, exchange.id, event.params))


def respond_to_ping(c: "Client", event: e.RequestReceived) -> None:
    """respond with {}"""
    c.peer_requests.respond(event, encode_result(event.id, b"{}"))


def refuse_early_request(c: "Client", event: e.RequestReceived) -> None:
    """-32600"""
    c.peer_requests.refuse(event, ErrorCode.INVALID_REQUEST, "not allowed before the handshake is complete")


def serve(c: "Client", event: e.RequestReceived) -> None:
    """run the handler, or an error if the id or the number of requests does not allow it"""
    c.peer_requests.serve(event)


def report_request(c: "Client", event: e.RequestReceived) -> None:
    """report a violation"""
    c.emit(e.Violation(f"the server sent {event.method}, which is not allowed in the stateless era", event.size))


def reply(c: "Client", event: e.Finished) -> None:
    """send it, unless cancelled"""
    if not c.peer_requests.finish(event):
        c.count("ignored Finished")


def keep_frame(c: "Client", event: e.FrameRefused) -> None:
    """keep it until the transport is writable"""
    c.calls.became_full()
    c.peer_requests.unsent.append((event.response_to, event.frame))


def send_kept(c: "Client", _: e.Event) -> None:
    """send kept frames"""
    c.peer_requests.send_kept()


def count_invalid_frame(c: "Client", event: e.InvalidFrameReceived) -> None:
    """count an invalid frame"""
    transport, error = c.transport, event.error
    hint = transport.invalid_frame_received(error, is_first_start=c.server is None)
    c.emit(e.Violation(f"{error}{hint}", event.size))  # the message quotes the line, which helps to fix the server
    if transport.invalid_frames >= MAX_INVALID_FRAMES:
        failure = ProtocolError(f"{MAX_INVALID_FRAMES} invalid frames in a row", quote=transport.last_line)
        failure.__cause__ = error
        c.fire(e.TooManyInvalidFrames(failure))


def report_violation(c: "Client", event: e.InitializeReceived | e.OversizeReceived) -> None:
    """report a violation"""
    error = c.recovery.cause_of(event, c.transport, c.health.check_method)
    size = error.size if isinstance(error, FrameTooLargeError) else getattr(event, "size", 0)
    c.emit(e.Violation(error.message, size))


# --- guards -----------------------------------------------------------------------------------------------------------


def waits_for_ready(c: "Client", event: e.Called) -> bool:
    """wait_for_ready"""
    return c.settings.wait_for_ready if event.wait_for_ready is None else event.wait_for_ready


def is_draining(c: "Client", event: e.Called) -> bool:
    """draining, and the call is new"""
    return (c.calls.now if event.began_at is None else event.began_at) >= c.drain_at


def would_be_lost(c: "Client", event: e.Called) -> bool:
    """a health check is open, and wait_for_ready"""
    return c.health.is_checking and waits_for_ready(c, event)


def was_opened(_: "Client", event: e.Subscribed) -> bool:
    """a call has opened it"""
    return event.is_open


def is_reaped(c: "Client", _: e.Event) -> bool:
    """old transport ended"""
    return c.transport.status is TransportStatus.NONE


def is_kept(c: "Client", _: e.Event) -> bool:
    """the HTTP client is kept"""
    return c.transport.status is TransportStatus.KEPT


def may_start(c: "Client", _: e.Event) -> bool:
    """old transport ended, or the HTTP client is kept"""
    return c.transport.status in (TransportStatus.NONE, TransportStatus.KEPT)


def has_elapsed(c: "Client", _: e.Event) -> bool:
    """backoff elapsed"""
    return e.BackoffElapsed not in c.calls.timers


def may_have_exited_on_probe(c: "Client", _: e.Event) -> bool:
    """the probe has no response, for the first time (not a failure, no delay)"""
    return c.negotiation.is_probing and c.negotiation.probe_history is ProbeHistory.HARMLESS


def has_repeated_exit(c: "Client", event: e.WentDown) -> bool:
    """never ready, and it exited again in the same way without a message"""
    last = c.recovery.last_exit
    is_repeated = last is not None and event.code == last and c.transport.ended_without_message(event)
    return is_repeated and c.server is None and c.calls.settings.max_attempts is None


def is_check_open(c: "Client", _: e.Event) -> bool:
    """a health check is open"""
    return c.health.check > 0


def has_batches(c: "Client", event: e.BatchReceived) -> bool:
    """the revision has batches, and it has members"""
    return REVISIONS[c.agreed.version].has_batches and len(event.members) > 0


def is_check_unanswered(c: "Client", _: e.Event) -> bool:
    """no message since"""
    return c.health.is_checking


def is_session_too_new(c: "Client", _: e.Event) -> bool:
    """session under 10 s old"""
    last = c.recovery.session_renewed_at
    return last is not None and c.calls.now - last <= SESSION_LOSS_WINDOW


def answers_negotiation(c: "Client", event: e.ResponseReceived | e.ExchangeLost | e.SessionLost) -> bool:
    """it belongs to the probe or the handshake"""
    return event.id in (c.negotiation.probe_id, c.negotiation.handshake_id)


def is_call(c: "Client", event: e.ResponseReceived) -> bool:
    """it belongs to a call"""
    exchange = c.calls.find_sent(event.id)
    return exchange is not None and exchange.role is Role.CALL


def is_subscription(c: "Client", event: e.ResponseReceived | e.CancelReceived) -> bool:
    """it belongs to a subscription"""
    exchange = c.calls.find_sent(event.id)
    return exchange is not None and exchange.role is Role.SUBSCRIPTION


def is_in_progress(c: "Client", event: e.CancelReceived) -> bool:
    """a handler runs for it, or its response waits"""
    return c.peer_requests.is_in_progress(event.id)


def is_disconnected(c: "Client", _: e.Event) -> bool:
    """the HTTP client is not kept"""
    return c.transport.status is not TransportStatus.KEPT


def is_early(c: "Client", event: e.NotificationReceived) -> bool:
    """a log message, `list_changed`, or progress over HTTP"""
    is_progress = event.method == "notifications/progress"
    return event.method in ALLOWED_BEFORE_READY or (is_progress and c.calls.is_http)


def has_no_handshake(c: "Client", _: e.Event) -> bool:
    """only the stateless era is possible"""
    return c.negotiation.handshake_id is None and not c.negotiation.is_probing


def is_ping(_: "Client", event: e.RequestReceived) -> bool:
    """a ping"""
    return event.method == "ping"


def has_no_server_requests(c: "Client", _: e.Event) -> bool:
    """the stateless era"""
    return not REVISIONS[c.agreed.version].has_server_requests


def has_open_posts(c: "Client", _: e.Event) -> bool:
    """HTTP: POSTs are open across a session loss"""
    return any(x.role is Role.CALL and x.state is ExchangeState.SENT for x in c.calls.pending.values())
