"""A server's connection: accepts frames and events, returns effects, and does no I/O.

`ServerConnection` runs the table of `_table` and owns the components that the actions use: the requests of the client
(`_peer_requests`), requests to it (`_outgoing_requests`), and what was agreed with it (`_negotiation`). It has no
clock, task, stream or handler and calls nothing back.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from jackstay.errors import InvalidEventError, RequestId, UsageError
from jackstay.protocol._machine import readable_name
from jackstay.protocol.server import events as e
from jackstay.protocol.server._config import ServerConfig
from jackstay.protocol.server._message_classifier import classify
from jackstay.protocol.server._negotiation import FIRST_STATES, NO_METHODS, Negotiation
from jackstay.protocol.server._peer_requests import PeerRequests
from jackstay.protocol.server._stateless import may_name_version, read_meta, read_params
from jackstay.protocol.server._states import ServerState
from jackstay.protocol.server._table import CELLS, ENTRIES
from jackstay.protocol.server.events import Send, Serve
from jackstay.protocol.wire._json_text import MAX_SHALLOW_OBJECTS, MAX_SHALLOW_TEXT, OPENS_ARRAY
from jackstay.protocol.wire._jsonrpc import MIN_OBJECT, Message, Request, decode, read_plain_request
from jackstay.types import DECODE_ERRORS

if TYPE_CHECKING:
    from jackstay.protocol.server._outgoing_requests import OutgoingRequest, OutgoingRequests

# Used for every request.
_STATELESS, _DRAINING = ServerState.STATELESS, ServerState.DRAINING
_CAPITAL_V, _BACKSLASH = b"V\\"
_encode = msgspec.json.Encoder().encode  # writes an integer faster than `%d`


class ServerConnection:
    """One connection of a server. Pass it what happens and perform the effects it returns, in order.

    Pass frames to `receive`, results to `finish` and every other event to `step`. Sleep until `wake_at`, then step the
    events that are `due`. Only `step` needs the time: no frame and no result sets a deadline.

    `version` is the revision of an HTTP request: the connection then starts in `operating` or `stateless`; without it
    in `fresh`. `is_post` means that the connection is a single POST: no requests can be sent to its client, and in the
    stateless era the end of the response cancels the request. `client` restores the handshake of a session, and
    `request_ids` yields the ids of requests to the client, in ascending order (default: from 1 on). With
    `is_strict` an event that is impossible in the current state raises `InvalidEventError`; otherwise it is counted.

    Raises: UsageError for a version that the configuration does not include.
    """

    __slots__ = (
        "_counts",
        "_methods",
        "_outgoing",
        "_request_ids",
        "config",
        "in_flight",
        "is_post",
        "is_strict",
        "max_concurrent",
        "max_frame_bytes",
        "negotiation",
        "now",
        "out",
        "peer_requests",
        "state",
        "wake_at",
    )

    def __init__(
        self,
        config: ServerConfig,
        *,
        version: str | None = None,
        is_post: bool = False,
        client: e.ClientParams | None = None,
        request_ids: Iterator[int] | None = None,
        is_strict: bool = False,
    ) -> None:
        self.config = config
        self.is_post = is_post
        self.is_strict = is_strict
        self.max_concurrent = config.options.max_concurrent
        self.max_frame_bytes = limit = config.options.max_frame_bytes
        # The effects of the current step.
        self.out: list[e.Effect] = []
        # Created on first use: there may be thousands of idle connections, and most of them need neither.
        self._counts: dict[str, int] | None = None
        self._outgoing: OutgoingRequests | None = None
        self._request_ids = request_ids
        self.negotiation = Negotiation(config, version, client)
        self.peer_requests = PeerRequests(self.out, limit)
        # The serial numbers of the requests in flight, by id.
        self.in_flight: Mapping[RequestId, int] = self.peer_requests.in_flight
        self.state = FIRST_STATES[version]
        # The methods that `receive` passes to handlers without the table. The first state of a revision serves them.
        self._methods = NO_METHODS if version is None else config.served[version]
        # The time of the current step, and the drain deadline: set while draining, the only timer.
        self.now = 0.0
        self.wake_at: float | None = None

    def __repr__(self) -> str:
        version = "" if self.version is None else f" {self.version}"
        return f"<ServerConnection {self.state.value}{version}, {len(self.in_flight)} in flight>"

    @property
    def version(self) -> str | None:
        """The negotiated revision, or that of the first stateless request; None while `fresh`."""
        return self.negotiation.version

    @property
    def client(self) -> e.ClientParams | None:
        """The parameters of the client's handshake; None without one."""
        return self.negotiation.client

    @property
    def counts(self) -> Mapping[str, int]:
        """How often something was dropped or failed without an error being raised."""
        return self._counts or {}

    @property
    def outgoing(self) -> "OutgoingRequests":
        """The requests to the client."""
        if self._outgoing is None:
            from jackstay.protocol.server._outgoing_requests import OutgoingRequests  # noqa: PLC0415  # few need it

            self._outgoing = OutgoingRequests(self.out, self.max_frame_bytes, self._request_ids)
        return self._outgoing

    @property
    def has_outgoing(self) -> bool:
        """True if a request to the client was sent or queued, ever."""
        return self._outgoing is not None

    @property
    def outgoing_requests(self) -> "Mapping[int, OutgoingRequest]":
        """The pending requests to the client (key, method, related request id), by id."""
        return {} if self._outgoing is None else self._outgoing.pending

    def release_memory(self) -> None:
        """Release the memory of tables that are empty: a `dict` keeps it for the next item."""
        if not self.in_flight:
            self.peer_requests.in_flight.clear()

    # --- events -------------------------------------------------------------------------------------------------------

    def receive(self, frame: bytes, message: Message | None = None) -> e.Effects:
        """Process a frame. The effects contain views of it: decode what is needed before reading the next frame.

        `message` is the decoded frame if the caller has it: over HTTP it is needed for routing.
        """
        accepted = self.accept(frame, message)
        return [accepted] if isinstance(accepted, Serve) else self.process(accepted, len(frame))

    def accept(self, frame: bytes, message: Message | None = None) -> Serve | Message:
        """Decode a frame, as the first half of `receive`; for anything but `Serve` call `process` next.

        A request in a state that serves it becomes a `Serve` without the table; tests check that both ways agree.
        """
        if message is None:
            size = len(frame)
            if (size <= MAX_SHALLOW_TEXT or (size <= MAX_SHALLOW_OBJECTS and OPENS_ARRAY not in frame)) and (
                frame.isascii()  # the text needs no check, see `decode`
            ):
                try:
                    message = read_plain_request(frame)
                except DECODE_ERRORS:
                    return decode(frame)
                params = message.params
                if params is not None and params < MIN_OBJECT:
                    return decode(frame)
            else:
                message = decode(frame)
                if type(message) is not Request:
                    return message
                params = message.params
        elif type(message) is not Request:
            return message
        else:
            params = message.params
        id = message.id
        requests = self.peer_requests
        in_flight = requests.in_flight
        method = self._methods.get(message.method)
        if method is None or id in in_flight or len(in_flight) >= self.max_concurrent:
            return message
        version = self.negotiation.version
        assert version is not None  # a state with methods has one
        meta = None
        if self.state is not _STATELESS:
            if (
                (_CAPITAL_V in frame or _BACKSLASH in frame)
                and self.config.stateless
                and may_name_version(frame)
                and read_meta(params) is not None
            ):
                return message
        elif params is None:
            return message
        else:
            try:
                meta = read_params(params).meta  # as `read_meta`, without a call
            except DECODE_ERRORS:
                return message
            if meta.version != version or meta.capabilities < MIN_OBJECT:
                return message
        requests.serial = serial = requests.serial + 1
        in_flight[id] = serial
        return Serve(id, serial, method, params, version, meta)

    def process(self, message: Message, size: int) -> e.Effects:
        """Process a message that `accept` returned, in a frame of `size` bytes, as the second half of `receive`."""
        return self._process(self.classify(message, size))

    def finish(self, id: RequestId, serial: int, result: bytes) -> e.Effects:
        """Process the encoded result of a handler; equivalent to stepping `Finished`."""
        frame = self.respond(id, serial, result)
        return self._process(e.Finished(id, serial, result)) if frame is None else [Send(frame, id)]

    def respond(self, id: RequestId, serial: int, result: bytes) -> bytes | None:
        """Return the response with this result, to be sent, if this is all that `finish` does; else None: call it."""
        requests = self.peer_requests
        in_flight = requests.in_flight
        if self._methods and in_flight.get(id) == serial and id not in requests.progress and not requests.batches:
            # As `encode_result`, without a call: the id was decoded, so it can be encoded.
            frame = b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (_encode(id), result)
            if len(frame) <= self.max_frame_bytes:
                del in_flight[id]
                return frame
        return None

    def step(self, event: e.Event, now: float) -> e.Effects:
        """Process an event.

        Raises:
            UsageError, FrameTooLargeError: a notification or progress cannot be sent; the state is unchanged.
        """
        self.now = now
        return self._process(event)

    def due(self, now: float) -> list[e.Event]:
        """Return the expired timers as events to step."""
        if self.wake_at is None or now < self.wake_at:
            return []
        self.wake_at = None
        return [e.DrainExpired()]

    # --- running the table --------------------------------------------------------------------------------------------

    def _process(self, event: e.Event) -> e.Effects:
        self.out.clear()
        self.fire(event)
        if self.state is _DRAINING and not self.in_flight:
            self.fire(e.Drained())
        effects = self.out.copy()
        self.out.clear()  # effects contain views of frames: do not keep the frames alive until the next step
        return effects

    def fire(self, event: e.Event) -> None:
        """Run the cell for the event and the state. Actions fire the members of a batch."""
        cells = CELLS.get(type(event))
        if cells is None:
            raise UsageError(f"not an event of ServerConnection: {type(event).__name__}", path="event")
        cell = cells[self.state]
        while cell.guard is not None and not cell.guard(self, event):
            assert cell.otherwise is not None  # every guard has an alternative: tests check every cell
            cell = cell.otherwise
        if cell.is_impossible:
            self.count(f"impossible {type(event).__name__}")
            if self.is_strict:
                raise InvalidEventError(type(event).__name__, self.state.value)
            return
        for action in cell.actions:
            action(self, event)
        if cell.to is not None:
            self._enter(ServerState(cell.to), event)
        elif not cell.actions:
            self.count(f"ignored {type(event).__name__}")

    def _enter(self, target: ServerState, event: e.Event) -> None:
        self.out.append(e.Transition(self.state.value, target.value, readable_name(type(event).__name__)))
        self.state = target
        self._methods = self.negotiation.served_methods(target)
        for action in ENTRIES.get(target, ()):
            action(self, event)

    # --- for actions --------------------------------------------------------------------------------------------------

    def classify(self, message: Message, size: int) -> e.Event:
        """Return the event for a message in a frame of `size` bytes."""
        return classify(message, size, self.negotiation, self.in_flight)

    def count(self, name: str) -> int:
        """Increment a counter and return its value."""
        if self._counts is None:
            self._counts = {}
        self._counts[name] = count = self._counts.get(name, 0) + 1
        return count
