"""What the peer sends: frames made into events, and what the table's names mean for them.

Above: `_connection`. Below: `_core`, `_jsonrpc`.
"""

import msgspec

from jackstay.errors import FrameTooLargeError, JsonRpcError, ProtocolError
from jackstay.protocol._versions import REVISIONS
from jackstay.protocol.client import events as e
from jackstay.protocol.client._core import ClientCore
from jackstay.protocol.client._exchange import ExchangeEvent, Role
from jackstay.protocol.client._negotiation import speaks_both
from jackstay.protocol.client._settings import MAX_HANDLERS, MAX_STRIKES, RUBBISH_SHARE
from jackstay.protocol.client._table import ClientState, Do, Timer
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

RESETS = frozenset({"$/reset", "notifications/reset"})

# What a server may say before the handshake is over (2025-11-25 basic/lifecycle), and what is worth keeping of it.
EARLY = frozenset(
    {
        "notifications/message",
        "notifications/tools/list_changed",
        "notifications/resources/list_changed",
        "notifications/prompts/list_changed",
    }
)


class FrameRows(ClientCore):
    """Rows of the table that begin with a frame."""

    __slots__ = ()

    def _take(self, message: Single | Batch, size: int) -> None:
        if isinstance(message, Batch):
            self._take_batch(message, size)
            return
        if isinstance(message, Malformed):
            self._take_malformed(message, size)
            return
        self.calls.received_after = self.calls.number
        if not self._was_sane:
            self._was_sane = True
            if self._connect_by is not None and Timer.CONNECT in self.calls.timers:
                self.calls.timers.arm(Timer.CONNECT, self._connect_by)
        self._strikes = 0
        if self.calls.check:
            self._end_check(message)
        self._fire(self._event_of(message, size))

    def _take_batch(self, batch: Batch, size: int) -> None:
        version = self.server.version if self.server is not None and self.state is ClientState.READY else ""
        if not batch.members or not (version and REVISIONS[version].has_batches):
            error = ProtocolError(
                "an array where this revision has no batches", code=ErrorCode.INVALID_REQUEST
            )
            self._fire(e.GarbageReceived(error, size))
            return
        epoch, has_struck = self.epoch, False
        for member in batch.members:
            if self.epoch != epoch or self.state is not ClientState.READY:
                return  # a member before this one ended the connection
            if isinstance(member, Malformed) and not member.is_answer:
                if has_struck:
                    continue  # one bad line is one strike, however many members it has
                has_struck = True
            self._take(member, size)

    def _take_malformed(self, message: Malformed, size: int) -> None:
        exchange = self._open_exchange(message.id) if message.is_answer else None
        if exchange is not None:
            # It was meant as an answer to this call: whoever waits for it must not wait for ever.
            self._fire(e.AnswerReceived(exchange.id, None, message.as_error(sent=True)))
        else:
            self._fire(e.GarbageReceived(message.as_error(), size))

    def _event_of(self, message: Request | Notification | Result | Error, size: int) -> e.Event:
        if isinstance(message, Result | Error):
            exchange = self._open_exchange(message.id)
            if exchange is None:
                return e.StrayReceived(message.id)
            if isinstance(message, Result):
                return e.AnswerReceived(exchange.id, message.result)
            data = None if message.data is msgspec.UNSET else message.data
            return e.AnswerReceived(exchange.id, None, JsonRpcError(message.code, message.message, data))
        if isinstance(message, Request):
            if message.method == "initialize":
                return e.InitializeReceived(size)
            return e.RequestReceived(message.id, message.method, message.params, size)
        if message.method in RESETS:
            return e.ResetReceived()
        if message.method == "notifications/cancelled":
            return e.CancelReceived(self._cancelled_id(message.params))
        return e.NotificationReceived(message.method, message.params)

    def _cancelled_id(self, params: msgspec.Raw | None) -> int | str | None:
        try:
            return None if params is None else _read_cancelled(params).request_id
        except msgspec.DecodeError:
            return None

    def _complete(self, event: e.AnswerReceived) -> None:
        exchange = self.calls.pending[event.id]
        if exchange.role is Role.CALL:
            if event.result is not None:
                self._failures = 0
            self.calls.advance(exchange, ExchangeEvent.ANSWERED, event.error or event.result)
            self._flush_if_ready()
            return
        self.calls.forget(exchange)
        is_over = event.error is not None or exchange.method == "subscriptions/listen"
        if exchange.role is Role.STANDING and is_over:
            self._do(e.EndSubscription(str(exchange.caller), event.error))

    def _count_stray(self, event: e.StrayReceived) -> None:
        calls = self.calls
        if isinstance(event.id, int) and calls.tombstones.holds(event.id, calls.now):
            calls.tombstones.exhume(event.id)
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
        if exchange is not None and exchange.role is Role.STANDING:
            self.calls.bury(exchange)
            self._do(e.EndSubscription(str(exchange.caller), None))
        else:
            self._count("ignored CancelReceived")

    def _keep_if_early(self, event: e.NotificationReceived) -> None:
        if event.method in EARLY:
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
            self._do(e.Report(exchange.caller, exchange.id, event.params))

    def _answer_ping_only(self, event: e.RequestReceived) -> None:
        talk = self._negotiation
        if talk.handshake_id is None and talk.probe_id is not None and speaks_both(self.settings):
            # A stateless server sends no requests (2026-07-28 basic): this one has a handshake, and need not be waited for.
            self.calls.timers.disarm(Timer.PROBE)
            self.DO[Do.SEND_INITIALIZE](self, event)
        if talk.handshake_id is None:
            self._do(e.Violation(f"{event.method} asked before the handshake", event.size))
        elif event.method == "ping":
            self._answer(event, encode_result(event.id, b"{}"))
        else:
            self._refuse_request(event, ErrorCode.INVALID_REQUEST, "not before the handshake is over")

    def _serve(self, event: e.RequestReceived) -> None:
        assert self.server is not None  # only while ready
        if not REVISIONS[self.server.version].has_server_requests:
            self._do(e.Violation(f"{event.method} asked in the stateless era", event.size))
        elif event.method == "ping":
            self._answer(event, encode_result(event.id, b"{}"))
        elif event.id in self._serving or self._is_unsent(event.id):
            self._refuse_request(event, ErrorCode.INVALID_REQUEST, "a request with this id is being served")
        elif len(self._serving) + len(self._unsent) >= MAX_HANDLERS:  # an answer that waits is not done
            self._refuse_request(event, ErrorCode.INTERNAL_ERROR, f"{MAX_HANDLERS} requests are being served")
        else:
            self._serving[event.id] = None
            self._do(e.Serve(event.id, event.method, event.params))

    def _refuse_request(self, event: e.RequestReceived, code: ErrorCode, message: str) -> None:
        self._answer(event, encode_error(event.id, code, message))

    def _answer(self, event: e.RequestReceived, frame: bytes) -> None:
        """Answer at once. A server that asks and asks and reads nothing is answered no more: somebody must pay for it."""
        if len(self._unsent) >= MAX_HANDLERS:
            reason = f"{event.method} asked while {MAX_HANDLERS} answers wait to be read"
            self._do(e.Violation(reason, event.size))
        else:
            self._say(frame, event.id)

    def _strike(self, event: e.GarbageReceived) -> None:
        self._strikes += 1
        error = event.error
        self._last_line = getattr(error, "quote", "")
        # With the line: whoever reads the log can mend the server.
        self._do(e.Violation(f"{error}{self._hint_at_printing()}", event.size))
        if not self._was_sane and not self._was_ready and self._strikes == 1:
            self._hurry_connect()
        if self._strikes >= MAX_STRIKES:
            said = ProtocolError(f"{MAX_STRIKES} bad lines in a row", quote=self._last_line)
            said.__cause__ = error
            self._fire(e.StruckOut(said))

    def _hint_at_printing(self) -> str:
        if self.is_http or self._last_line.lstrip()[:1] in ("", "{", "["):
            return ""
        return ": the server prints to its standard output, which is reserved for MCP messages"

    def _hurry_connect(self) -> None:
        """A program that prints something else is hardly an MCP server: it gets little time to send a message of MCP."""
        settings, timers = self.settings, self.calls.timers
        at = timers.at(Timer.CONNECT)
        soon = self.calls.now + settings.init_timeout * RUBBISH_SHARE
        if settings.max_attempts in (None, 1) and at is not None and soon < at:
            self._connect_by = at
            timers.arm(Timer.CONNECT, soon)

    def _violate(self, event: e.InitializeReceived | e.OversizeReceived) -> None:
        error = self._cause_of(event)
        size = error.size if isinstance(error, FrameTooLargeError) else getattr(event, "size", 0)
        self._do(e.Violation(error.message, size))
