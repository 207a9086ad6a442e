"""Frames from the server: the events they become, and the actions of the table for them."""

import msgspec

from jackstay.errors import FrameTooLargeError, JsonRpcError, ProtocolError
from jackstay.protocol._methods import METHODS
from jackstay.protocol._versions import REVISIONS
from jackstay.protocol.client import events as e
from jackstay.protocol.client._core import ClientCore
from jackstay.protocol.client._exchange import ExchangeEvent, Role
from jackstay.protocol.client._negotiation import supports_both_eras
from jackstay.protocol.client._settings import MAX_HANDLERS, MAX_INVALID_FRAMES, NON_MCP_OUTPUT_SHARE
from jackstay.protocol.client._table import Action, ClientState, Timer
from jackstay.protocol.wire._jsonrpc import (
    Batch,
    Error,
    ErrorCode,
    Malformed,
    Notification,
    Request,
    Result,
    Single,
    encode_error,
    encode_result,
)


class _Token(msgspec.Struct, rename="camel"):
    progress_token: int | str


class _Cancelled(msgspec.Struct, rename="camel"):
    request_id: int | str | None = None


_read_token = msgspec.json.Decoder(_Token).decode
_read_cancelled = msgspec.json.Decoder(_Cancelled).decode

RESET_METHODS = frozenset({"$/reset", "notifications/reset"})

ALLOWED_BEFORE_READY = frozenset(name for name, row in METHODS.items() if row.is_early)


class FrameActions(ClientCore):
    """Actions for received frames."""

    __slots__ = ()

    def _accept(self, message: Single | Batch, size: int) -> None:
        if isinstance(message, Batch):
            self._accept_batch(message, size)
            return
        if isinstance(message, Malformed):
            self._accept_malformed(message, size)
            return
        self.calls.received_after = self.calls.number
        if not self._has_received_message:
            self._has_received_message = True
            if self._connect_deadline is not None and Timer.CONNECT in self.calls.timers:
                self.calls.timers.arm(Timer.CONNECT, self._connect_deadline)
        self._invalid_frames = 0
        if self.calls.check:
            self._end_check(message)
        self._fire(self._event_of(message, size))

    def _accept_batch(self, batch: Batch, size: int) -> None:
        version = self.server.version if self.server is not None and self.state is ClientState.READY else ""
        if not batch.members or not (version and REVISIONS[version].has_batches):
            error = ProtocolError("a JSON array, but this revision has no batches", code=ErrorCode.INVALID_REQUEST)
            self._fire(e.InvalidFrameReceived(error, size))
            return
        epoch, has_counted = self.epoch, False
        for member in batch.members:
            if self.epoch != epoch or self.state is not ClientState.READY:
                return  # a member before this one ended the connection
            if isinstance(member, Malformed) and not member.is_response:
                if has_counted:
                    continue  # a frame counts once, however many of its members are invalid
                has_counted = True
            self._accept(member, size)

    def _accept_malformed(self, message: Malformed, size: int) -> None:
        exchange = self._open_exchange(message.id) if message.is_response else None
        if exchange is not None:
            # It is the response to this call: fail the call, or its caller would wait until the deadline.
            self._fire(e.ResponseReceived(exchange.id, None, message.as_error(sent=True)))
        else:
            self._fire(e.InvalidFrameReceived(message.as_error(), size))

    def _event_of(self, message: Request | Notification | Result | Error, size: int) -> e.Event:
        if isinstance(message, Result | Error):
            exchange = self._open_exchange(message.id)
            if exchange is None:
                return e.StrayReceived(message.id)
            if isinstance(message, Result):
                return e.ResponseReceived(exchange.id, message.result)
            data = None if message.data is msgspec.UNSET else message.data
            return e.ResponseReceived(exchange.id, None, JsonRpcError(message.code, message.message, data))
        if isinstance(message, Request):
            if message.method == "initialize":
                return e.InitializeReceived(size)
            return e.RequestReceived(message.id, message.method, message.params, size)
        if message.method in RESET_METHODS:
            return e.ResetReceived()
        if message.method == "notifications/cancelled":
            return e.CancelReceived(self._cancelled_id(message.params))
        return e.NotificationReceived(message.method, message.params)

    def _cancelled_id(self, params: msgspec.Raw | None) -> int | str | None:
        try:
            return None if params is None else _read_cancelled(params).request_id
        except msgspec.DecodeError:
            return None

    def _complete(self, event: e.ResponseReceived) -> None:
        exchange = self.calls.pending[event.id]
        if exchange.role is Role.CALL:
            if event.result is not None:
                self._failures = 0
            self.calls.advance(exchange, ExchangeEvent.ANSWERED, event.error or event.result)
            self._flush_if_ready()
            return
        self.calls.remove(exchange)
        is_over = event.error is not None or exchange.method == "subscriptions/listen"
        if exchange.role is Role.SUBSCRIPTION and is_over:
            self._do(e.EndSubscription(str(exchange.caller), event.error))

    def _count_stray(self, event: e.StrayReceived) -> None:
        calls = self.calls
        if isinstance(event.id, int) and calls.tombstones.contains(event.id, calls.now):
            calls.tombstones.discard(event.id)
            calls.late += 1
            self._do(e.Stray("late", calls.late))
        else:
            calls.unknown += 1
            self._do(e.Stray("unknown", calls.unknown))

    def _count_stale(self, _: e.Event) -> None:
        self._count("stale")

    def _stop_serving(self, event: e.CancelReceived) -> None:
        if event.id in self._serving:
            del self._serving[event.id]
            self._do(e.StopServing(event.id))
            return
        if self._is_unsent(event.id):
            self._unsent = [kept for kept in self._unsent if kept[0] != event.id]
            return
        exchange = self._open_exchange(event.id)
        if exchange is not None and exchange.role is Role.SUBSCRIPTION:
            self.calls.abandon(exchange)
            self._do(e.EndSubscription(str(exchange.caller), None))
        else:
            self._count("ignored CancelReceived")

    def _keep_if_early(self, event: e.NotificationReceived) -> None:
        if event.method in ALLOWED_BEFORE_READY:
            self._do(e.Deliver(event.method, event.params))
        elif event.method == "notifications/progress" and self.is_http:
            self._progress(event)
        else:
            self._count("ignored NotificationReceived")

    def _deliver(self, event: e.NotificationReceived) -> None:
        if event.method == "notifications/progress":
            self._progress(event)
        else:
            self._do(e.Deliver(event.method, event.params))

    def _progress(self, event: e.NotificationReceived) -> None:
        try:
            token = None if event.params is None else _read_token(event.params).progress_token
        except msgspec.DecodeError:
            token = None
        exchange = self._open_exchange(token)
        if exchange is None or event.params is None:
            self._count("ignored progress")
            return
        self.calls.advance(exchange, ExchangeEvent.PROGRESSED)
        if exchange.role is Role.CALL:
            self._do(e.ReportProgress(exchange.caller, exchange.id, event.params))

    def _answer_ping_only(self, event: e.RequestReceived) -> None:
        negotiation = self._negotiation
        if negotiation.handshake_id is None and negotiation.probe_id is not None and supports_both_eras(self.settings):
            # A stateless server sends no requests (2026-07-28 basic), so do not wait for the probe any longer.
            self.calls.timers.disarm(Timer.PROBE)
            self.ACTIONS[Action.SEND_INITIALIZE](self, event)
        if negotiation.handshake_id is None:
            self._do(e.Violation(f"the server sent {event.method} before the handshake", event.size))
        elif event.method == "ping":
            self._answer(event, encode_result(event.id, b"{}"))
        else:
            self._refuse_request(event, ErrorCode.INVALID_REQUEST, "not allowed before the handshake is complete")

    def _serve(self, event: e.RequestReceived) -> None:
        assert self.server is not None  # only while ready
        if not REVISIONS[self.server.version].has_server_requests:
            reason = f"the server sent {event.method}, which is not allowed in the stateless era"
            self._do(e.Violation(reason, event.size))
        elif event.method == "ping":
            self._answer(event, encode_result(event.id, b"{}"))
        elif event.id in self._serving or self._is_unsent(event.id):
            self._refuse_request(event, ErrorCode.INVALID_REQUEST, "a request with this id is already in progress")
        elif len(self._serving) + len(self._unsent) >= MAX_HANDLERS:  # a queued response counts
            self._refuse_request(event, ErrorCode.INTERNAL_ERROR, f"{MAX_HANDLERS} requests are already in progress")
        else:
            self._serving[event.id] = None
            self._do(e.Serve(event.id, event.method, event.params))

    def _refuse_request(self, event: e.RequestReceived, code: ErrorCode, message: str) -> None:
        self._answer(event, encode_error(event.id, code, message))

    def _answer(self, event: e.RequestReceived, frame: bytes) -> None:
        """Respond immediately, unless too many responses wait: a server that reads none gets no more of them."""
        if len(self._unsent) >= MAX_HANDLERS:
            reason = f"the server sent {event.method} while {MAX_HANDLERS} responses wait for it to read"
            self._do(e.Violation(reason, event.size))
        else:
            self._send_message(frame, event.id)

    def _count_invalid_frame(self, event: e.InvalidFrameReceived) -> None:
        self._invalid_frames += 1
        error = event.error
        self._last_line = getattr(error, "quote", "")
        # The message quotes the line, which helps to fix the server.
        self._do(e.Violation(f"{error}{self._stdout_hint()}", event.size))
        if not self._has_received_message and self.server is None and self._invalid_frames == 1:
            self._shorten_connect_deadline()
        if self._invalid_frames >= MAX_INVALID_FRAMES:
            failure = ProtocolError(f"{MAX_INVALID_FRAMES} invalid frames in a row", quote=self._last_line)
            failure.__cause__ = error
            self._fire(e.TooManyInvalidFrames(failure))

    def _stdout_hint(self) -> str:
        if self.is_http or self._last_line.lstrip()[:1] in ("", "{", "["):
            return ""
        return ": the server prints to its standard output, which is reserved for MCP messages"

    def _shorten_connect_deadline(self) -> None:
        """Shorten the connect deadline: a program that prints other output is probably not an MCP server."""
        settings, timers = self.settings, self.calls.timers
        at = timers.at(Timer.CONNECT)
        soon = self.calls.now + settings.init_timeout * NON_MCP_OUTPUT_SHARE
        if settings.max_attempts in (None, 1) and at is not None and soon < at:
            self._connect_deadline = at
            timers.arm(Timer.CONNECT, soon)

    def _report_violation(self, event: e.InitializeReceived | e.OversizeReceived) -> None:
        error = self._cause_of(event)
        size = error.size if isinstance(error, FrameTooLargeError) else getattr(event, "size", 0)
        self._do(e.Violation(error.message, size))
