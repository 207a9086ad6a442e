"""What the cells of the client's table do: actions, then guards. A docstring is the text in docs/protocol.md.

An action passes its event to the component that it concerns (`c.calls`, `c.negotiation`, ...). What a component decides
that may change the state comes back as an event, which the action passes to the table.
"""

from typing import TYPE_CHECKING

from jackstay.errors import FrameTooLargeError, McpError, ProtocolError, ShutdownError, StateError, TransportError
from jackstay.protocol._methods import METHODS
from jackstay.protocol._versions import REVISIONS, Era
from jackstay.protocol.client import events as e
from jackstay.protocol.client._exchange import ExchangeEvent, ExchangeState, Role
from jackstay.protocol.client._message_classifier import progress_token
from jackstay.protocol.client._negotiation import Negotiation, ProbeHistory
from jackstay.protocol.client._recovery import SESSIONS_NOT_KEPT
from jackstay.protocol.client._settings import MAX_INVALID_FRAMES, SESSION_LOSS_WINDOW, STABLE_AFTER
from jackstay.protocol.client._states import ClientState
from jackstay.protocol.client._transport import TransportLink, TransportStatus
from jackstay.protocol.wire._jsonrpc import ErrorCode, encode_notification, encode_result

if TYPE_CHECKING:
    from jackstay.protocol.client._connection import ClientConnection as Client

ALLOWED_BEFORE_READY = frozenset(name for name, row in METHODS.items() if row.is_early)

# --- calls and other requests of users --------------------------------------------------------------------------------


def write(c: "Client", event: e.Called) -> None:
    """new id, deadline, write"""
    c.calls.make(event, may_send=True)


def queue_or_refuse(c: "Client", event: e.Called) -> None:
    """queue it, or StateError"""
    waits = c.settings.wait_for_ready if event.wait_for_ready is None else event.wait_for_ready
    if waits:
        c.calls.make(event, may_send=False)
    else:
        refuse(c, event)


def refuse(c: "Client", event: e.Called | e.Notified) -> None:
    """StateError"""
    at = c.calls.timers.at(e.BackoffElapsed)
    error = StateError(c.state.value, retry_in=None if at is None else max(0.0, at - c.calls.now))
    c.calls.refuse(event, error)


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


def add_waiter(c: "Client", event: e.ReadyRequested) -> None:
    """wait"""
    c.waiters[event.caller] = None


def drop_waiter(c: "Client", event: e.WaitCancelled) -> None:
    """stop waiting"""
    c.waiters.pop(event.caller, None)


def release_waiters(c: "Client", _: e.Event) -> None:
    """release waiters"""
    _release(c, None)


def end_waiters(c: "Client", _: e.Event) -> None:
    """raise in every waiter"""
    _release(c, _ended_error(c))


def _release(c: "Client", error: McpError | None) -> None:
    for caller in c.waiters:
        c.emit(e.Release(caller, error))
    c.waiters = {}


def cancel_call(c: "Client", event: e.CallCancelled) -> None:
    """withdraw or cancel it"""
    exchange = c.calls.pending.get(event.id)
    if exchange is not None:
        c.calls.advance(exchange, ExchangeEvent.CANCELLED)
        c.calls.flush()


def expire(c: "Client", event: e.Expired) -> None:
    """TimeoutError; withdraw or cancel it"""
    exchange = c.calls.pending.get(event.id)
    if exchange is not None:
        c.calls.expire(exchange)
        c.calls.flush()


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
    c.calls.is_full = True
    c.calls.advance(exchange, ExchangeEvent.REFUSED)


def flush(c: "Client", _: e.Event) -> None:
    """send queued calls"""
    c.calls.is_full = False
    c.calls.flush()


def send_more(c: "Client", _: e.Event) -> None:
    """send more queued calls"""
    c.calls.flush()


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


def remember_subscription(c: "Client", event: e.Subscribed) -> None:
    """store it"""
    c.subscriptions[event.key] = event


def subscribe(c: "Client", event: e.Subscribed) -> None:
    """store and open it"""
    c.subscriptions[event.key] = event
    if not event.is_open:
        _open_subscription(c, event)


def _open_subscription(c: "Client", event: e.Subscribed) -> None:
    """Send its request, if the era has one."""
    form = event.stateless if c.agreed.era is Era.STATELESS else event.handshake
    if form is not None:
        c.calls.make_internal(*form, Role.SUBSCRIPTION, caller=event.key)


def forget_subscription(c: "Client", event: e.Unsubscribed) -> None:
    """remove and end it"""
    c.subscriptions.pop(event.key, None)
    for exchange in list(c.calls.pending.values()):
        if exchange.role is Role.SUBSCRIPTION and exchange.caller == event.key:
            c.calls.advance(exchange, ExchangeEvent.CANCELLED)


def reopen(c: "Client", _: e.Event) -> None:
    """open subscriptions again"""
    for event in c.subscriptions.values():
        _open_subscription(c, event)


# --- the transport ----------------------------------------------------------------------------------------------------


def spawn(c: "Client", _: e.Event) -> None:
    """epoch+1, spawn"""
    c.epoch += 1
    if c.transport.status is TransportStatus.KEPT:
        c.recovery.session_renewed_at = c.calls.now
    c.calls.request_meta = b""
    c.calls.reset_transport()
    c.negotiation = Negotiation(c.calls, c.negotiation.known_era, c.negotiation.probe_history)
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
    """send initialize too"""
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
    if event.server.era is Era.HANDSHAKE:
        c.peer_requests.send(encode_notification("notifications/initialized"))


# --- failures and reconnecting ----------------------------------------------------------------------------------------


def arm_connect(c: "Client", _: e.Event) -> None:
    """arm the connect deadline"""
    c.calls.timers.arm(e.ConnectExpired, c.calls.now + c.settings.start_timeout(c.recovery.slow_starts))


def record_cause(c: "Client", event: e.Event) -> None:
    """record the cause"""
    if c.state is ClientState.INITIALIZING:
        c.negotiation.record_failure(event)
    elif isinstance(event, e.ConnectExpired):
        c.negotiation.known_era = None
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
    c.calls.connection_closed(c.recovery.reason or ShutdownError())


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
    c.calls.received_after = c.calls.number  # a refusal is a response too
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
        c.calls.received_after = c.calls.number  # a refusal is a response too
    exchange = c.calls.find_sent(event.id)
    if exchange is None:
        c.count("ignored ExchangeLost")
        return
    c.calls.fail(exchange, event.error)
    c.calls.abandon(exchange)
    c.calls.flush()


def clear(c: "Client", _: e.Event) -> None:
    """clear tables and timers"""
    c.calls.clear()
    c.subscriptions.clear()


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


# --- messages from the server -----------------------------------------------------------------------------------------


def complete(c: "Client", event: e.ResponseReceived) -> None:
    """complete the call"""
    exchange = c.calls.pending[event.id]
    if exchange.role is Role.CALL:
        if event.result is not None:
            c.recovery.failures = 0
        c.calls.advance(exchange, ExchangeEvent.ANSWERED, event.error or event.result)
        c.calls.flush()
        return
    c.calls.remove(exchange)
    is_over = event.error is not None or exchange.method == "subscriptions/listen"
    if exchange.role is Role.SUBSCRIPTION and is_over:
        c.emit(e.EndSubscription(str(exchange.caller), event.error))


def count_stray(c: "Client", event: e.StrayReceived) -> None:
    """count it as late or unknown"""
    c.calls.count_stray(event.id, event.error)


def count(c: "Client", _: e.Event) -> None:
    """count it"""
    c.count("stale")


def stop_serving(c: "Client", event: e.CancelReceived) -> None:
    """cancel the handler, or end that subscription"""
    if c.peer_requests.cancel(event.id):
        return
    exchange = c.calls.find_sent(event.id)
    if exchange is not None and exchange.role is Role.SUBSCRIPTION:
        c.calls.abandon(exchange)
        c.emit(e.EndSubscription(str(exchange.caller), None))
    else:
        c.count("ignored CancelReceived")


def keep_if_early(c: "Client", event: e.NotificationReceived) -> None:
    """deliver log and list_changed"""
    if event.method in ALLOWED_BEFORE_READY or (event.method == "notifications/progress" and c.calls.is_http):
        deliver(c, event)
    else:
        c.count("ignored NotificationReceived")


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


def answer_ping_only(c: "Client", event: e.RequestReceived) -> None:
    """send initialize too; respond to ping, others -32600; stateless only: violation"""
    if c.negotiation.is_probing and c.negotiation.handshake_id is None:
        # A stateless server sends no requests (2026-07-28 basic), so do not wait for the probe any longer.
        c.calls.timers.disarm(e.ProbeExpired)
        send_initialize(c, event)
    if c.negotiation.handshake_id is None:
        c.emit(e.Violation(f"the server sent {event.method} before the handshake", event.size))
    elif event.method == "ping":
        c.peer_requests.respond(event, encode_result(event.id, b"{}"))
    else:
        reason = "not allowed before the handshake is complete"
        c.peer_requests.refuse(event, ErrorCode.INVALID_REQUEST, reason)


def serve(c: "Client", event: e.RequestReceived) -> None:
    """handshake: ping, handler, or -32601; stateless: violation"""
    if REVISIONS[c.agreed.version].has_server_requests:
        c.peer_requests.serve(event)
    else:
        reason = f"the server sent {event.method}, which is not allowed in the stateless era"
        c.emit(e.Violation(reason, event.size))


def reply(c: "Client", event: e.Finished) -> None:
    """send it, unless cancelled"""
    if not c.peer_requests.finish(event):
        c.count("ignored Finished")


def keep_frame(c: "Client", event: e.FrameRefused) -> None:
    """keep it until the transport is writable"""
    c.calls.is_full = True
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


def is_check_unanswered(c: "Client", _: e.Event) -> bool:
    """no message since"""
    return c.calls.is_checking


def is_session_too_new(c: "Client", _: e.Event) -> bool:
    """session under 10 s old"""
    last = c.recovery.session_renewed_at
    return last is not None and c.calls.now - last <= SESSION_LOSS_WINDOW


def answers_negotiation(c: "Client", event: e.ResponseReceived | e.ExchangeLost | e.SessionLost) -> bool:
    """it belongs to the probe or the handshake"""
    return event.id in (c.negotiation.probe_id, c.negotiation.handshake_id)


def is_open_post(c: "Client", event: e.ResponseReceived) -> bool:
    """HTTP: a POST open across a session loss"""
    exchange = c.calls.find_sent(event.id)
    return exchange is not None and exchange.role is Role.CALL


def has_open_posts(c: "Client", _: e.Event) -> bool:
    """HTTP: POSTs are open across a session loss"""
    return any(x.role is Role.CALL and x.state is ExchangeState.SENT for x in c.calls.pending.values())
