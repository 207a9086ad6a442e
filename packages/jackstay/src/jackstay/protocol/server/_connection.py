"""A server's connection: takes what happened and the time, returns what to do, and touches nothing else.

`ServerConnection` runs the table of `_table`: for an event it looks up the cell of its state, asks the cell's
question, does what the cell names and goes where it says. Everything it decides comes out as effects, in order. It
holds no clock, no task, no stream and no handler, and calls nothing back, so nothing can be re-entered.

Two things do not walk the table: a request in a state that serves it, and its result. They are what a server does all
day, so they take one lookup each; a test holds both ways of doing them together.

Above: the driver in the server's room. Below: `_intake` and `_requests` (what the table's names mean),
`_core` (the walk), `_table` (when).
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
from jackstay.protocol._machine import words
from jackstay.protocol._methods import METHODS, Sender, is_known
from jackstay.protocol.server import events as e
from jackstay.protocol.server._intake import IntakeRows
from jackstay.protocol.server._requests import RequestRows
from jackstay.protocol.server._stateless import RequestMeta, declares, may_name_version, read_meta
from jackstay.protocol.server._table import Do, ServerState, When
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


class ServerConnection(IntakeRows, RequestRows):
    """One connection of a server. Feed it what happens; do what it returns, in order.

    `receive` takes frames, `finish` results, `step` everything else; sleep until `wake_at` and step what is `due`.
    `version` starts it where an HTTP request stands: in `operating` or `stateless`, by its era; without it the
    connection is `fresh`. `is_post` says that it is one POST and not more: nothing can be asked of its client, and in
    the stateless era its end is a cancel. `client` restores what a session's handshake said. With `is_strict` a pair
    that the table calls impossible raises `InvalidEventError`; otherwise it is counted.

    Raises: UsageError, for a version that the offer does not include.
    """

    __slots__ = ()

    def receive(self, frame: bytes, now: float) -> e.Effects:
        """Take a frame. The effects hold views of it: decode what is needed before the next frame is read."""
        return self.receive_message(decode(frame), frame, now)

    def receive_message(self, message: Message, frame: bytes, now: float) -> e.Effects:
        """The same for who has decoded the frame already: HTTP looks at a message before it gets here."""
        if type(message) is Request:
            row = self._rows.get(message.method)
            id, in_flight = message.id, self._in_flight
            if row is not None and id not in in_flight and len(in_flight) < self._max_concurrent:
                version = self._version
                assert version is not None  # a state that has rows has a version
                meta = None
                if self._needs_meta or (self._is_dual and may_name_version(frame)):
                    meta = read_meta(message.params)
                if meta is None:
                    is_served = not self._needs_meta
                else:
                    is_served = self._needs_meta and type(meta) is RequestMeta and meta.version == version
                if is_served:
                    self._exchanges.serial = serial = self._exchanges.serial + 1
                    in_flight[id] = serial
                    return [Serve(id, serial, row, message.params, version, meta)]  # type: ignore[arg-type]  # no flaw gets here
        return self.take(message, len(frame), now)

    def finish(self, id: RequestId, serial: int, result: bytes, now: float) -> e.Effects:
        """Take the encoded result of a handler; the same as stepping `Finished`."""
        if self._rows and self._in_flight.get(id) == serial and self._exchanges.is_plain:
            frame = encode_result(id, result)
            if len(frame) <= self._offer.options.max_frame_bytes:
                del self._in_flight[id]
                return [Send(frame, id)]
        return self.step(e.Finished(id, serial, result), now)

    def take(self, message: Message, size: int, now: float) -> e.Effects:
        """Take a message that is decoded already, as `receive` takes a frame; `size` is for reports."""
        return self.step(self._classify(message, size), now)

    def due(self, now: float) -> list[e.Event]:
        """The timers that have run out, as events to step."""
        if self._drain_at is None or now < self._drain_at:
            return []
        self._drain_at = None
        return [e.DrainExpired()]

    def step(self, event: e.Event, now: float) -> e.Effects:
        """Take an event.

        Raises:
            UsageError, FrameTooLargeError: for a notification or progress that cannot be sent; nothing has changed.
        """
        self._now = now
        self._out.clear()
        self._fire(event)
        if type(event) is e.ArrayReceived and self._exchanges.is_in_array:
            for index, member in enumerate(event.batch.members):
                self._exchanges.look_at(index)
                self._fire(self._classify(member, event.size))
            self._fire(e.ArrayEnded())
        if self.state is S.DRAINING and not self._in_flight:
            self._fire(e.Emptied())
        effects = self._out.copy()
        self._out.clear()  # effects hold views of frames, and ours would keep them alive until the next step
        return effects

    # --- handlers -------------------------------------------------------------------------------------------------------

    def _answer(self, event: e.Finished | e.Failed) -> None:
        if isinstance(event, e.Finished):
            frame = encode_result(event.id, event.result)
        else:
            try:
                frame = encode_error(event.id, event.code, event.message, event.data)
            except UsageError:
                # Whoever waits for the answer must not pay for data that is not JSON.
                self._exchanges.count("error not encoded")
                frame = encode_error(event.id, event.code, "the error could not be encoded")
        self._exchanges.settle(event.id, frame)

    def _count_late(self, _: e.Finished | e.Failed) -> None:
        self._exchanges.count("late result")

    def _is_current(self, event: e.Finished | e.Failed) -> bool:
        return self._exchanges.is_current(event.id, event.serial)

    def _advances(self, event: e.Progressed) -> bool:
        exchanges = self._exchanges
        return exchanges.is_current(event.id, event.serial) and exchanges.would_advance(
            event.id, event.progress
        )

    def _report(self, event: e.Progressed) -> None:
        params: dict[str, Json] = {"progressToken": event.token, "progress": event.progress}
        if event.total is not None:
            params["total"] = event.total
        # 2024-11-05 has no message; a peer of it ignores one (its schema leaves params open).
        if event.message:
            params["message"] = event.message
        self._notify(e.Notified("notifications/progress", encode_json(params), event.id))
        self._exchanges.advance(event.id, event.progress)

    def _count_backward(self, _: e.Progressed) -> None:
        self._exchanges.count("progress dropped")

    # --- what we say by ourselves -----------------------------------------------------------------------------------------

    def _notify(self, event: e.Notified) -> None:
        self._out.append(self._encode_notified(event))

    def _encode_notified(self, event: e.Notified) -> Send:
        frame = encode_notification(event.method, event.params)
        if len(frame) > self._offer.options.max_frame_bytes:
            raise FrameTooLargeError(len(frame), self._offer.options.max_frame_bytes)
        return Send(frame, event.about)

    def _may_go_early(self, event: e.Notified | e.Asked) -> bool:
        if isinstance(event, e.Asked):
            return event.method == "ping"
        return event.about is not None or event.method == "notifications/message"

    def _hold(self, event: e.Notified | e.Asked) -> None:
        if isinstance(event, e.Asked):
            self._asks.held.append(event)
            return
        send = self._encode_notified(
            event
        )  # now: what cannot be sent is its maker's error, not the next frame's
        if len(self._asks) >= self._max_concurrent:
            self._exchanges.count("notification not held")
        else:
            self._asks.held.append(send)

    def _release_held(self, _: e.Event) -> None:
        held, self._asks.held = self._asks.held, []
        for waiting in held:
            if isinstance(waiting, e.Asked):
                self._asks.ask(waiting)
            else:
                self._out.append(waiting)

    def _drop_held(self, _: e.Event) -> None:
        for _notification in range(self._asks.drop_held()):
            self._exchanges.count("notification not held")

    def _is_undeclared(self, event: e.Asked) -> bool:
        if (
            self._is_post
            or self.client is None
            or not is_known(event.method, self.client.version, Sender.SERVER)
        ):
            return True
        capability = METHODS[event.method].capability
        return bool(capability) and not declares(_read_object(self.client.capabilities), capability)

    def _fail_ask_capability(self, event: e.Asked) -> None:
        row = METHODS.get(event.method)
        required = (row.capability if row is not None else "") or event.method
        if self.state is S.STATELESS:
            said = "a stateless client is asked inside a result, not by a request"
        elif self._is_post:
            said = f"sessions are off, so the client cannot be asked for {required}"
        else:
            said = f"the client did not declare {required}"
        self._out.append(e.Fail(event.key, CapabilityError(required, said)))

    def _are_asks_full(self, _: e.Asked) -> bool:
        return len(self._asks) >= self._max_concurrent

    def _ask(self, event: e.Asked) -> None:
        self._asks.ask(event)

    def _withdraw_ask(self, event: e.Withdrew) -> None:
        self._asks.withdraw(event.key, event.reason)

    def _fail_ask_early(self, event: e.Asked) -> None:
        self._out.append(e.Fail(event.key, StateError(self.state.value)))

    def _fail_ask_shutdown(self, event: e.Asked) -> None:
        self._out.append(e.Fail(event.key, ShutdownError("the connection is ending")))

    def _fail_ask_full(self, event: e.Asked) -> None:
        limit = self._max_concurrent
        self._out.append(e.Fail(event.key, BackpressureError(f"{limit} requests to the client are open")))

    # --- the end --------------------------------------------------------------------------------------------------------

    def _is_one_post(self, _: e.Event) -> bool:
        return self._is_post

    def _end_asks(self, _: e.Event) -> None:
        self._asks.fail_all()

    def _stop_running(self, event: e.Event) -> None:
        self._exchanges.stop_all(words(type(event).__name__))

    def _flush_batches(self, _: e.Event) -> None:
        self._exchanges.flush_arrays()

    def _close(self, _: e.Event) -> None:
        self._out.append(e.Close())

    def _arm_drain(self, _: e.Event) -> None:
        self._drain_at = self._now + self._offer.options.drain_timeout

    def _rest(self, _: e.Event) -> None:
        self._drain_at = None


# The name says the code; the message brings it.
_SAME = {Do.ANSWER_UNREADABLE: "answer_malformed", Do.ANSWER_INVALID: "answer_malformed"}

ServerConnection.DO = {do: getattr(ServerConnection, f"_{_SAME.get(do, do.name.lower())}") for do in Do}

ServerConnection.WHEN = {
    When.BATCH_IS_ALLOWED: ServerConnection._is_batch_allowed,
    When.IS_OURS: ServerConnection._is_ours,
    When.IS_IN_FLIGHT: ServerConnection._is_in_flight,
    When.IS_CURRENT: ServerConnection._is_current,
    When.ADVANCES: ServerConnection._advances,
    When.HAS_FLAW: ServerConnection._has_flaw,
    When.IS_UNKNOWN: ServerConnection._is_unknown,
    When.IS_FULL: ServerConnection._is_full,
    When.IS_STRICT: ServerConnection._wants_sequence,
    When.IS_POST: ServerConnection._is_one_post,
    When.IS_LASTING: ServerConnection._is_lasting,
    When.NO_HANDSHAKE: ServerConnection._speaks_no_handshake,
    When.HAS_BAD_PARAMS: ServerConnection._has_bad_params,
    When.MAY_GO_EARLY: ServerConnection._may_go_early,
    When.IS_UNDECLARED: ServerConnection._is_undeclared,
    When.ASKS_ARE_FULL: ServerConnection._are_asks_full,
}
