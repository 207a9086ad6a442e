"""Forwards messages between two targets unchanged; `jackstay record` uses it.

`downstream` is the client's side (`own_stdio()`), `upstream` the server's. A slow side slows the other. When the client
disconnects, its open requests get a moment to finish; when the server ends, its last messages are delivered first.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Final

import msgspec

from jackstay.errors import Json, McpError, RequestId, TransportError
from jackstay.protocol.wire import (
    Error,
    ErrorCode,
    Message,
    Notification,
    Request,
    Result,
    decode,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
)
from jackstay.testing._interactions import cancelled_id, meta_of, read_members, read_params, with_subscription
from jackstay.testing._recording import MAX_RECORDED_FRAME
from jackstay.transport import ExchangeTransport, Target, Transport
from jackstay.types import META_PROTOCOL_VERSION, META_SUBSCRIPTION_ID, encode_json

if TYPE_CHECKING:
    from jackstay.protocol.http import ParamHeader

logger = logging.getLogger("jackstay.testing")

# After the client has disconnected: how long to wait for the server's next message before its requests are abandoned.
DRAIN_TIMEOUT: Final = 1.0

# For the final flush, and for each step of closing the server. Together with the above less than the two seconds that
# clients wait before they kill a process.
FLUSH: Final = 0.25
CLOSE_STEP: Final = 0.4


# The first id that is given to a request: beyond the ids that clients use, and exact as a double.
FIRST: Final = 1 << 48


class RelayResult(msgspec.Struct, frozen=True):
    """How it ended: `error` is that of the server's side, or None if the client disconnected."""

    error: McpError | None = None
    was_silent: bool = False


class IdMap:
    """Maps request ids of a client to ids that HTTP transports accept, integers other than 0, in both directions.

    A request with another id gets a new one on its way to the server. Its own id is restored in the response, in the
    cancellation, and where a subscription is named by the id of its request. Everything else is unchanged.
    """

    def __init__(self) -> None:
        self._numbers = count(FIRST)
        self._given: dict[RequestId, int] = {}
        self._own: dict[RequestId, RequestId] = {}

    def own(self, id: RequestId) -> RequestId:
        """Return the client's id for an id that is used over HTTP."""
        return self._own.get(id, id)

    def given(self, id: RequestId) -> RequestId:
        """Return the id that is used over HTTP for the client's id."""
        return self._given.get(id, id)

    def forget(self, id: RequestId) -> None:
        """Remove the client's id of a request that has ended."""
        if id in self._given:
            del self._own[self._given.pop(id)]

    def to_server(self, message: Message, frame: bytes) -> bytes:
        """Return the client's frame with ids that HTTP accepts."""
        if isinstance(message, Request):
            if isinstance(message.id, int) and message.id != 0 and message.id not in self._own:
                return frame
            number = self._given[message.id] = next(self._numbers)
            self._own[number] = message.id
            return encode_request(number, message.method, message.params)
        if isinstance(message, Notification) and message.method == "notifications/cancelled" and self._given:
            params = read_params(message.params)
            id = cancelled_id(params)
            if isinstance(params, dict) and id in self._given:
                return encode_notification(message.method, encode_json({**params, "requestId": self._given[id]}))
        return frame

    def to_client(self, message: Message, frame: bytes) -> bytes:
        """Return the server's frame with the client's ids."""
        if isinstance(message, Error) and message.id in self._own:
            return encode_error(self._own[message.id], message.code, message.message, message.data)
        if isinstance(message, Result):
            renamed = self._renamed(message.result)
            if renamed is not None or message.id in self._own:
                return encode_result(self.own(message.id), renamed or message.result)
        elif isinstance(message, Notification):
            renamed = self._renamed(message.params)
            if renamed is not None:
                return encode_notification(message.method, renamed)
        return frame

    def _renamed(self, raw: msgspec.Raw | None) -> bytes | None:
        """Return the body with the client's id of its subscription, or None if that is not mapped."""
        if not self._own or raw is None:
            return None
        members = read_members(raw)
        id = meta_of(members).get(META_SUBSCRIPTION_ID)
        return with_subscription(members, self._own[id]) if isinstance(id, int) and id in self._own else None


class _End:
    """One of the two sides: frames that are pulled here are sent at the other.

    Only the server's side over HTTP calls the methods from `exchange_lost` on.
    """

    def __init__(self, relay: "_Relay") -> None:
        self.relay = relay
        self.transport: Transport | None = None
        self.other: _End = self  # set by `_Relay`
        self.waiting: deque[bytes] = deque()  # pulled, and not yet sent at the other side
        self.number = 0
        self.is_down = False

    def pump(self) -> None:
        """Forward frames as long as the other side accepts them."""
        while self.transport is not None and self.other.transport is not None:
            if self.waiting:
                if not self.other.accept(self.waiting[0]):
                    return
                self.waiting.popleft()
                continue
            frame = self.transport.next_frame()
            if frame is None:
                break
            if isinstance(frame, McpError):
                logger.error("dropped a message: %s", frame)
            else:
                forward = self.relay.to_server if self is self.relay.downstream else self.relay.to_client
                forward(decode(frame), frame)
        self.relay.changed.set()

    def accept(self, frame: bytes) -> bool:
        """Send a frame here. False: not yet. A frame that cannot be sent at all is logged and dropped."""
        assert self.transport is not None  # checked by `pump()`
        try:
            is_taken = self.transport.send(frame, self.number + 1)
        except McpError as error:  # not a message, or over the limit
            logger.error("dropped a message: %s", error)
            return True
        self.number += is_taken
        return is_taken

    # --- the handler of a transport -----------------------------------------------------------------------------------

    def frames_arrived(self) -> None:
        """See `TransportHandler.frames_arrived`."""
        self.pump()

    def wrote(self, through: int) -> None:
        """See `TransportHandler.wrote`."""

    def room_made(self) -> None:
        """See `TransportHandler.room_made`."""
        self.other.pump()

    def went_down(self, error: McpError, exit_code: int | None, was_silent: bool) -> None:  # noqa: ARG002
        """See `TransportHandler.went_down`."""
        self.is_down = True
        self.pump()
        self.relay.ended(self, RelayResult(error, was_silent))

    def exchange_lost(self, id: int, error: McpError, was_declined: bool) -> None:
        """See `ExchangeHandler.exchange_lost`. The client gets an error response."""
        # "Method not found" is what a client that probes for the era expects.
        code = ErrorCode.METHOD_NOT_FOUND if was_declined else ErrorCode.INTERNAL_ERROR
        self._fail(id, code, str(error), {"mayHaveRun": error.may_have_run})

    def queued(self, id: int) -> None:
        """See `ExchangeHandler.queued`."""

    def started(self, id: int) -> None:
        """See `ExchangeHandler.started`."""

    def session_lost(self, id: int) -> None:
        """See `ExchangeHandler.session_lost`. There are no sessions over stdio: the connection ends."""
        error = TransportError("the server dropped the session")
        if id:
            self._fail(id, ErrorCode.INTERNAL_ERROR, str(error), {"mayHaveRun": False})
        self.relay.ended(self, RelayResult(error))

    def header_params(self, tool: str) -> "Sequence[ParamHeader]":
        """See `ExchangeHandler.header_params`. From the last tool list that was forwarded."""
        return self.relay.header_param_rows.get(tool, ())

    def _fail(self, id: int, code: int, message: str, data: Json) -> None:
        own = self.relay.id_map.own(id)
        self.relay.answered(own)
        self.waiting.append(encode_error(own, code, message, data))
        self.pump()


class _Relay:
    """The two sides, and the state of the relay."""

    def __init__(self, *, is_http: bool) -> None:
        self.is_http = is_http
        self.downstream = _End(self)
        self.upstream = _End(self)
        self.downstream.other, self.upstream.other = self.upstream, self.downstream
        self.id_map = IdMap()
        self.changed = asyncio.Event()
        self.header_param_rows: dict[str, Sequence[ParamHeader]] = {}
        # Open requests of the client, by its id: the method, and whether it is of the stateless era.
        self._open: dict[RequestId, tuple[str, bool]] = {}
        self.outcome: asyncio.Future[RelayResult] = asyncio.get_running_loop().create_future()

    def ended(self, end: _End, passed: RelayResult) -> None:
        """Record the outcome; the side that ends first determines it."""
        if not self.outcome.done():
            self.outcome.set_result(passed if end is self.upstream else RelayResult())
        self.changed.set()

    def answered(self, id: RequestId) -> None:
        """This request of the client has ended."""
        self._open.pop(id, None)
        self.id_map.forget(id)

    # --- passing ------------------------------------------------------------------------------------------------------

    def to_server(self, message: Message, frame: bytes) -> None:
        """Queue a frame of the client."""
        if isinstance(message, Request):
            meta = meta_of(read_params(message.params))
            self._open[message.id] = (message.method, META_PROTOCOL_VERSION in meta)
        if self.is_http and isinstance(message, Notification) and self._aborts(message):
            return
        self.downstream.waiting.append(self.id_map.to_server(message, frame) if self.is_http else frame)

    def to_client(self, message: Message, frame: bytes) -> None:
        """Queue a frame of the server."""
        sent = self.id_map.to_client(message, frame)
        if isinstance(message, Result | Error) and message.id is not None:
            own = self.id_map.own(message.id)
            if self.is_http and isinstance(message, Result) and self._open.get(own, ("", False))[0] == "tools/list":
                self._note_header_params(message.result)
            self.answered(own)
        self.upstream.waiting.append(sent)

    def _aborts(self, message: Notification) -> bool:
        """Handle a cancellation in the stateless era: over HTTP a request is cancelled by closing its response."""
        id = cancelled_id(read_params(message.params))
        if message.method != "notifications/cancelled" or id is None or not self._open.get(id, ("", False))[1]:
            return False
        number = self.id_map.given(id)
        assert isinstance(self.upstream.transport, ExchangeTransport)  # it is HTTP
        assert isinstance(number, int)  # other ids were mapped to one
        self.upstream.transport.abort(number)
        self.answered(id)
        return True

    def _note_header_params(self, result: msgspec.Raw) -> None:
        """Record the arguments that HTTP repeats in headers, for each tool (2026-07-28 "Schema Extension")."""
        from jackstay.protocol.http import read_param_headers  # noqa: PLC0415  # only over HTTP

        tools = read_members(result).get("tools")
        for tool in tools if isinstance(tools, list) else []:
            if isinstance(tool, dict):
                self.header_param_rows[str(tool.get("name"))] = read_param_headers(tool.get("inputSchema")).rows

    # --- running ------------------------------------------------------------------------------------------------------

    async def run(self) -> RelayResult:
        """Run until one side ends."""
        self.downstream.pump()
        self.upstream.pump()
        outcome = await self.outcome
        while outcome.error is None and not self.upstream.is_down:
            if all(method == "subscriptions/listen" for method, _ in self._open.values()):
                break
            self.changed.clear()
            if not await finishes_within(DRAIN_TIMEOUT, self.changed.wait()):  # for the next message
                break
        assert self.downstream.transport is not None  # it was opened
        await finishes_within(DRAIN_TIMEOUT, self._until(lambda: not self.upstream.waiting))
        await finishes_within(FLUSH, self.downstream.transport.flush())
        return outcome

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.changed.clear()
            await self.changed.wait()


async def pass_through(downstream: Target, upstream: Target) -> RelayResult:
    """Open both targets and forward messages until one side ends. Cancel it to stop.

    Raises: TransportError, if one of them cannot be opened.
    """
    relay = _Relay(is_http=upstream.is_http)
    opened: list[Transport] = []
    try:
        for end, target in ((relay.upstream, upstream), (relay.downstream, downstream)):
            transport = await target.open(end, MAX_RECORDED_FRAME, CLOSE_STEP)
            opened.append(transport)
            end.transport = transport
        return await relay.run()
    finally:
        for end in (relay.downstream, relay.upstream):
            end.transport = None
        for transport in opened:
            await transport.close()


async def finishes_within(seconds: float, work: Awaitable[object]) -> bool:
    """Wait for `work` for at most `seconds`. False: it was not finished in time, and was cancelled."""
    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError:
        return False
    return True
