"""Actions of the table for users: calls, notifications, subscriptions, waiting for ready."""

import msgspec

from jackstay.errors import BackpressureError, FrameTooLargeError, McpError, StateError
from jackstay.protocol._versions import Era
from jackstay.protocol.client import events as e
from jackstay.protocol.client._core import ClientCore
from jackstay.protocol.client._exchange import Exchange, ExchangeEvent, ExchangeState, Role
from jackstay.protocol.client._settings import MAX_HANDLERS
from jackstay.protocol.client._table import Timer
from jackstay.protocol.wire._jsonrpc import ErrorCode, encode_error, encode_notification, encode_result


class UserActions(ClientCore):
    """Actions for requests of the user."""

    __slots__ = ()

    def _write(self, event: e.Called) -> None:
        self.calls.make(event, may_send=True)

    def _queue_or_refuse(self, event: e.Called) -> None:
        waits = self.settings.wait_for_ready if event.wait_for_ready is None else event.wait_for_ready
        if waits:
            self.calls.make(event, may_send=False)
        else:
            self._refuse(event)

    def _refuse(self, event: e.Called | e.Notified) -> None:
        at = self.calls.timers.at(Timer.BACKOFF)
        error = StateError(self.state.value, retry_in=None if at is None else max(0.0, at - self.calls.now))
        self._do(e.Fail(event.caller, 0, error.about(event.method, None)))

    def _refuse_ended(self, event: e.Called | e.Notified) -> None:
        self._do(e.Fail(event.caller, 0, self._ended().about(event.method, None)))

    def _notify(self, event: e.Notified) -> None:
        limit = self.settings.max_frame_bytes
        try:
            frame = encode_notification(event.method, event.params)
            if len(frame) > limit:
                raise FrameTooLargeError(len(frame), limit)
            if len(self._unsent) >= MAX_HANDLERS:
                raise BackpressureError(f"too many frames wait for the server to read: the limit is {MAX_HANDLERS}")
        except McpError as error:
            self._do(e.Fail(event.caller, 0, error.about(event.method, None)))
        else:
            self._send_message(frame)
            self._do(e.Release(event.caller, None))

    def _reply(self, event: e.Replied) -> None:
        if event.id not in self._serving:
            self._count("ignored Replied")  # the server cancelled the request, or has exited
            return
        del self._serving[event.id]
        if event.error:
            id = msgspec.json.encode(event.id)
            frame = b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (id, event.error)
        else:
            frame = encode_result(event.id, event.result)
        if len(frame) > self.settings.max_frame_bytes:
            # The server waits for a response: send an error that fits.
            frame = encode_error(event.id, ErrorCode.INTERNAL_ERROR, "the response is too large to be sent")
        self._send_message(frame, event.id)

    def _subscribe(self, event: e.Subscribed) -> None:
        self._subscriptions[event.key] = event
        if not event.is_open:
            self._open_subscription(event)

    def _remember_subscription(self, event: e.Subscribed) -> None:
        self._subscriptions[event.key] = event

    def _forget_subscription(self, event: e.Unsubscribed) -> None:
        self._subscriptions.pop(event.key, None)
        for exchange in self._subscription_exchanges(event.key):
            self.calls.advance(exchange, ExchangeEvent.CANCELLED)

    def _subscription_exchanges(self, key: str) -> list[Exchange]:
        return [x for x in self.calls.pending.values() if x.role is Role.SUBSCRIPTION and x.caller == key]

    def _open_subscription(self, event: e.Subscribed) -> None:
        assert self.server is not None  # only while ready
        form = event.stateless if self.server.era is Era.STATELESS else event.handshake
        if form is not None:
            self.calls.make_internal(*form, Role.SUBSCRIPTION, caller=event.key)

    def _reopen(self, _: e.Event) -> None:
        for subscription in self._subscriptions.values():
            self._open_subscription(subscription)

    def _add_waiter(self, event: e.ReadyRequested) -> None:
        self._waiters[event.caller] = None

    def _drop_waiter(self, event: e.WaitCancelled) -> None:
        self._waiters.pop(event.caller, None)

    def _release(self, event: e.ReadyRequested) -> None:
        self._do(e.Release(event.caller, None))

    def _release_with_reason(self, event: e.ReadyRequested) -> None:
        self._do(e.Release(event.caller, self._ended()))

    def _return_server(self, event: e.ServerRequested) -> None:
        self._do(e.ReturnServer(event.caller, self.server, is_stale=False))

    def _return_last_server(self, event: e.ServerRequested) -> None:
        error = None if self.server is not None else StateError(self.state.value)
        self._do(e.ReturnServer(event.caller, self.server, is_stale=True, error=error))

    def _cancel_call(self, event: e.CallCancelled) -> None:
        exchange = self.calls.pending.get(event.id)
        if exchange is not None:
            self.calls.advance(exchange, ExchangeEvent.CANCELLED)
            self._flush_if_ready()

    def _expire(self, event: e.Expired) -> None:
        exchange = self.calls.pending.get(event.id)
        if exchange is not None:
            self.calls.expire(exchange)
            self._flush_if_ready()

    def _retry(self, event: e.RetryDue) -> None:
        exchange = self.calls.pending.get(event.id)
        if exchange is not None and exchange.state is ExchangeState.BUSY:
            self.calls.send_request(exchange)

    def _handle_busy(self, event: e.Refused) -> None:
        exchange = self.calls.pending.get(event.id)
        if exchange is None or exchange.state is not ExchangeState.SENT:
            self._count("ignored Refused")
            return
        self.calls.is_full = True
        self.calls.advance(exchange, ExchangeEvent.REFUSED)

    def _flush(self, _: e.Event) -> None:
        self.calls.is_full = False
        self.calls.flush()

    def _send_more(self, _: e.Event) -> None:
        self.calls.flush()

    def _keep_frame(self, event: e.FrameRefused) -> None:
        self.calls.is_full = True
        self._unsent.append((event.response_to, event.frame))

    def _send_kept(self, _: e.Event) -> None:
        kept, self._unsent = self._unsent, []
        for response_to, frame in kept:
            self.calls.send_message(frame, response_to)

    def _mark_unsent(self, event: e.PostQueued) -> None:
        exchange = self._open_exchange(event.id)
        if exchange is not None:
            exchange.is_unsent = True

    def _mark_sent(self, event: e.PostStarted) -> None:
        exchange = self._open_exchange(event.id)
        if exchange is not None:
            exchange.is_unsent = False
