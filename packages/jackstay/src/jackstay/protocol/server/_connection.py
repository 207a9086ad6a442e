"""The sans-I/O core of a server's connection: it receives events and the time, and returns effects.

`ServerConnection` looks up the cell for the event and its state, evaluates the guards, runs the actions and changes the
state. It has no clock, task, stream or handler and calls nothing back. A request in a serving state and its result
bypass the table for speed; a test checks that both paths agree.
"""

from collections.abc import Callable

import msgspec

from jackstay.errors import (
    BackpressureError,
    CapabilityError,
    FrameTooLargeError,
    Json,
    RequestId,
    ShutdownError,
    StateError,
    UsageError,
)
from jackstay.protocol._machine import readable_name
from jackstay.protocol._methods import METHODS, Sender, is_known
from jackstay.protocol.server import events as e
from jackstay.protocol.server._message_classifier import MessageClassifier
from jackstay.protocol.server._requests import RequestActions
from jackstay.protocol.server._stateless import (
    BACKSLASH,
    CAPITAL_V,
    RequestMeta,
    declares,
    may_name_version,
    read_meta,
)
from jackstay.protocol.server._table import Action, Guard, ServerState
from jackstay.protocol.server.events import Send, Serve
from jackstay.protocol.wire._jsonrpc import (
    Message,
    Request,
    decode,
    encode_error,
    encode_notification,
    encode_result,
)
from jackstay.types import encode_json

_read_object: Callable[[bytes], dict[str, Json]] = msgspec.json.Decoder(dict).decode

S = ServerState


class ServerConnection(MessageClassifier, RequestActions):
    """One connection of a server. Pass it what happens and execute the effects it returns, in order.

    Pass frames to `receive`, results to `finish` and every other event to `step`. Sleep until `wake_at`, then step the
    events that are `due`. Only `step` needs the time: no frame and no result sets a deadline.

    `version` is the revision of an HTTP request: the connection then starts in `operating` or `stateless`; without it
    in `fresh`. `is_post` means that the connection is a single POST: no requests can be sent to its client, and in the
    stateless era the end of the response cancels the request. `client` restores the handshake of a session. With
    `is_strict` an event that is impossible in the current state raises `InvalidEventError`; otherwise it is counted.

    Raises: UsageError for a version that the configuration does not include.
    """

    __slots__ = ()

    def receive(self, frame: bytes, message: Message | None = None) -> e.Effects:
        """Process a frame. The effects contain views of it: decode what is needed before reading the next frame.

        `message` is the decoded frame if the caller has it: over HTTP it is needed for routing.
        """
        if message is None:
            message = decode(frame)
        if type(message) is Request:
            row = self._rows.get(message.method)
            id, in_flight = message.id, self._in_flight
            if row is not None and id not in in_flight and len(in_flight) < self._max_concurrent:
                version = self._version
                assert version is not None  # a state that has rows has a version
                meta = None
                if self._needs_meta or (
                    self._is_dual and (CAPITAL_V in frame or BACKSLASH in frame) and may_name_version(frame)
                ):
                    meta = read_meta(message.params)
                if meta is None:
                    is_served = not self._needs_meta
                else:
                    is_served = self._needs_meta and type(meta) is RequestMeta and meta.version == version
                if is_served:
                    self._exchanges.serial = serial = self._exchanges.serial + 1
                    in_flight[id] = serial
                    # `meta` is never InvalidMeta here.
                    return [Serve(id, serial, row, message.params, version, meta)]  # type: ignore[arg-type]
        return self.process(message, len(frame))

    def finish(self, id: RequestId, serial: int, result: bytes) -> e.Effects:
        """Process the encoded result of a handler; equivalent to stepping `Finished`."""
        if self._rows and self._in_flight.get(id) == serial and self._exchanges.is_plain:
            frame = encode_result(id, result)
            if len(frame) <= self._config.options.max_frame_bytes:
                del self._in_flight[id]
                return [Send(frame, id)]
        return self._process(e.Finished(id, serial, result))

    def process(self, message: Message, size: int) -> e.Effects:
        """Process a decoded message by the table alone; `size` is reported with violations."""
        return self._process(self._classify(message, size))

    def due(self, now: float) -> list[e.Event]:
        """Return the expired timers as events to step."""
        if self.wake_at is None or now < self.wake_at:
            return []
        self.wake_at = None
        return [e.DrainExpired()]

    def step(self, event: e.Event, now: float) -> e.Effects:
        """Process an event.

        Raises:
            UsageError, FrameTooLargeError: a notification or progress cannot be sent; the state is unchanged.
        """
        self._now = now
        return self._process(event)

    def _process(self, event: e.Event) -> e.Effects:
        self._out.clear()
        self._fire(event)
        if type(event) is e.BatchReceived and self._exchanges.is_in_batch:
            for index, member in enumerate(event.batch.members):
                self._exchanges.select_member(index)
                self._fire(self._classify(member, event.size))
            self._fire(e.BatchEnded())
        if self.state is S.DRAINING and not self._in_flight:
            self._fire(e.Drained())
        effects = self._out.copy()
        self._out.clear()  # effects contain views of frames: do not keep the frames alive until the next step
        return effects

    # --- handlers ---

    def _respond(self, event: e.Finished | e.Failed) -> None:
        if isinstance(event, e.Finished):
            frame = encode_result(event.id, event.result)
        else:
            try:
                frame = encode_error(event.id, event.code, event.message, event.data)
            except UsageError:
                # The client still needs a response if the data is not JSON.
                self._exchanges.count("error not encoded")
                frame = encode_error(event.id, event.code, "the error could not be encoded")
        self._exchanges.respond(event.id, frame)

    def _count_late(self, _: e.Finished | e.Failed) -> None:
        self._exchanges.count("late result")

    def _is_current(self, event: e.Finished | e.Failed) -> bool:
        return self._exchanges.is_current(event.id, event.serial)

    def _advances(self, event: e.Progressed) -> bool:
        exchanges = self._exchanges
        return exchanges.is_current(event.id, event.serial) and exchanges.would_advance(event.id, event.progress)

    def _send_progress(self, event: e.Progressed) -> None:
        params: dict[str, Json] = {"progressToken": event.token, "progress": event.progress}
        if event.total is not None:
            params["total"] = event.total
        # 2024-11-05 has no `message`; its schema allows additional members, so clients ignore it.
        if event.message:
            params["message"] = event.message
        self._notify(e.Notified("notifications/progress", encode_json(params), event.id))
        self._exchanges.advance(event.id, event.progress)

    def _drop_progress(self, _: e.Progressed) -> None:
        self._exchanges.count("progress dropped")

    # --- notifications and requests to the client ---

    def _notify(self, event: e.Notified) -> None:
        self._out.append(self._encode_notification(event))

    def _encode_notification(self, event: e.Notified) -> Send:
        frame = encode_notification(event.method, event.params)
        if len(frame) > self._config.options.max_frame_bytes:
            raise FrameTooLargeError(len(frame), self._config.options.max_frame_bytes)
        return Send(frame, event.related_request_id)

    def _may_send_early(self, event: e.Notified | e.OutgoingRequested) -> bool:
        if isinstance(event, e.OutgoingRequested):
            return event.method == "ping"
        return event.related_request_id is not None or event.method == "notifications/message"

    def _queue(self, event: e.Notified | e.OutgoingRequested) -> None:
        if isinstance(event, e.OutgoingRequested):
            self._outgoing.queued.append(event)
            return
        send = self._encode_notification(event)  # now: what cannot be sent is its maker's error, not the next frame's
        if len(self._outgoing) >= self._max_concurrent:
            self._exchanges.count("notification dropped")
        else:
            self._outgoing.queued.append(send)

    def _send_queued(self, _: e.Event) -> None:
        queued, self._outgoing.queued = self._outgoing.queued, []
        for waiting in queued:
            if isinstance(waiting, e.OutgoingRequested):
                self._outgoing.send(waiting)
            else:
                self._out.append(waiting)

    def _drop_queued(self, _: e.Event) -> None:
        for _notification in range(self._outgoing.drop_queued()):
            self._exchanges.count("notification dropped")

    def _is_undeclared(self, event: e.OutgoingRequested) -> bool:
        if self._is_post or self.client is None or not is_known(event.method, self.client.version, Sender.SERVER):
            return True
        capability = METHODS[event.method].capability
        return bool(capability) and not declares(_read_object(self.client.capabilities), capability)

    def _fail_outgoing_capability(self, event: e.OutgoingRequested) -> None:
        row = METHODS.get(event.method)
        required = (row.capability if row is not None else "") or event.method
        if self.state is S.STATELESS:
            message = "requests to a stateless client must be part of a result (input_required)"
        elif self._is_post:
            message = f"sessions are off, so {required} cannot be requested from the client"
        else:
            message = f"the client did not declare {required}"
        self._out.append(e.Fail(event.key, CapabilityError(required, message)))

    def _is_outgoing_full(self, _: e.OutgoingRequested) -> bool:
        return len(self._outgoing) >= self._max_concurrent

    def _send_outgoing(self, event: e.OutgoingRequested) -> None:
        self._outgoing.send(event)

    def _cancel_outgoing(self, event: e.OutgoingCancelled) -> None:
        self._outgoing.cancel(event.key, event.reason)

    def _fail_outgoing_early(self, event: e.OutgoingRequested) -> None:
        self._out.append(e.Fail(event.key, StateError(self.state.value)))

    def _fail_outgoing_shutdown(self, event: e.OutgoingRequested) -> None:
        self._out.append(e.Fail(event.key, ShutdownError("the connection is closing")))

    def _fail_outgoing_full(self, event: e.OutgoingRequested) -> None:
        limit = self._max_concurrent
        self._out.append(e.Fail(event.key, BackpressureError(f"{limit} requests to the client are pending")))

    # --- shutdown ---

    def _is_single_post(self, _: e.Event) -> bool:
        return self._is_post

    def _fail_all_outgoing(self, _: e.Event) -> None:
        self._outgoing.fail_all()

    def _cancel_running(self, event: e.Event) -> None:
        self._exchanges.stop_all(readable_name(type(event).__name__))

    def _flush_batches(self, _: e.Event) -> None:
        self._exchanges.flush_batches()

    def _close(self, _: e.Event) -> None:
        self._out.append(e.Close())

    def _arm_drain(self, _: e.Event) -> None:
        self.wake_at = self._now + self._config.options.drain_timeout

    def _clear_deadline(self, _: e.Event) -> None:
        self.wake_at = None


ServerConnection.ACTIONS = {
    Action.REJECT_OVERSIZE: ServerConnection._reject_oversize,
    # One method implements both: the message determines the code.
    Action.REJECT_UNREADABLE: ServerConnection._reject_malformed,
    Action.REJECT_INVALID: ServerConnection._reject_malformed,
    Action.REJECT_BATCH: ServerConnection._reject_batch,
    Action.COUNT_VIOLATION: ServerConnection._count_violation,
    Action.OPEN_BATCH: ServerConnection._open_batch,
    Action.CLOSE_BATCH: ServerConnection._close_batch,
    Action.COMPLETE_OUTGOING: ServerConnection._complete_outgoing,
    Action.FAIL_OUTGOING_MALFORMED: ServerConnection._fail_outgoing_malformed,
    Action.COUNT_STRAY: ServerConnection._count_stray,
    Action.DROP_RESPONSE: ServerConnection._drop_response,
    Action.CANCEL: ServerConnection._cancel,
    Action.DELIVER: ServerConnection._deliver,
    Action.SERVE: ServerConnection._serve,
    Action.RESPOND_DISCOVER: ServerConnection._respond_discover,
    Action.RESPOND_PING: ServerConnection._respond_ping,
    Action.INITIALIZE: ServerConnection._initialize,
    Action.RESPOND_INITIALIZE: ServerConnection._respond_initialize,
    Action.REFUSE_DUPLICATE: ServerConnection._refuse_duplicate,
    Action.REFUSE_VERSION: ServerConnection._refuse_version,
    Action.REFUSE_HANDSHAKE: ServerConnection._refuse_handshake,
    Action.REFUSE_META: ServerConnection._refuse_meta,
    Action.REFUSE_PARAMS: ServerConnection._refuse_params,
    Action.REFUSE_UNKNOWN: ServerConnection._refuse_unknown,
    Action.REFUSE_SEQUENCE: ServerConnection._refuse_sequence,
    Action.REFUSE_STATELESS: ServerConnection._refuse_stateless,
    Action.REFUSE_SHUTDOWN: ServerConnection._refuse_shutdown,
    Action.REFUSE_BUSY: ServerConnection._refuse_busy,
    Action.RESPOND: ServerConnection._respond,
    Action.COUNT_LATE: ServerConnection._count_late,
    Action.SEND_PROGRESS: ServerConnection._send_progress,
    Action.DROP_PROGRESS: ServerConnection._drop_progress,
    Action.NOTIFY: ServerConnection._notify,
    Action.QUEUE: ServerConnection._queue,
    Action.SEND_QUEUED: ServerConnection._send_queued,
    Action.DROP_QUEUED: ServerConnection._drop_queued,
    Action.SEND_OUTGOING: ServerConnection._send_outgoing,
    Action.FAIL_OUTGOING_EARLY: ServerConnection._fail_outgoing_early,
    Action.FAIL_OUTGOING_FULL: ServerConnection._fail_outgoing_full,
    Action.FAIL_OUTGOING_CAPABILITY: ServerConnection._fail_outgoing_capability,
    Action.FAIL_OUTGOING_SHUTDOWN: ServerConnection._fail_outgoing_shutdown,
    Action.CANCEL_OUTGOING: ServerConnection._cancel_outgoing,
    Action.ARM_DRAIN: ServerConnection._arm_drain,
    Action.FAIL_ALL_OUTGOING: ServerConnection._fail_all_outgoing,
    Action.CANCEL_RUNNING: ServerConnection._cancel_running,
    Action.FLUSH_BATCHES: ServerConnection._flush_batches,
    Action.CLEAR_DEADLINE: ServerConnection._clear_deadline,
    Action.CLOSE: ServerConnection._close,
}

ServerConnection.GUARDS = {
    Guard.BATCH_IS_ALLOWED: ServerConnection._is_batch_allowed,
    Guard.IS_EXPECTED: ServerConnection._is_expected,
    Guard.IS_IN_FLIGHT: ServerConnection._is_in_flight,
    Guard.IS_CURRENT: ServerConnection._is_current,
    Guard.ADVANCES: ServerConnection._advances,
    Guard.HAS_INVALID_META: ServerConnection._has_invalid_meta,
    Guard.IS_UNKNOWN: ServerConnection._is_unknown,
    Guard.IS_FULL: ServerConnection._is_full,
    Guard.IS_STRICT: ServerConnection._is_strict_handshake,
    Guard.IS_POST: ServerConnection._is_single_post,
    Guard.IS_NOT_POST: ServerConnection._is_not_post,
    Guard.NO_HANDSHAKE: ServerConnection._has_no_handshake,
    Guard.HAS_BAD_PARAMS: ServerConnection._has_bad_params,
    Guard.MAY_SEND_EARLY: ServerConnection._may_send_early,
    Guard.IS_UNDECLARED: ServerConnection._is_undeclared,
    Guard.OUTGOING_IS_FULL: ServerConnection._is_outgoing_full,
}
