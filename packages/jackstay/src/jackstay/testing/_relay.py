"""Joins two targets: what comes from the one goes to the other, unchanged. This is how `jackstay record` stands in the middle.

The front is where a client is, `own_stdio()`; the back is how to reach the server. A frame that cannot be sent yet is held, and
nothing more is pulled from where it came: a slow client slows its server, as it would without us. When the client leaves, what
it asked for is waited for a moment; when the server ends, what it said last is delivered, and the client sees the end.

Over HTTP every request can fail alone, which a stream has no word for: the client gets an error for it.

Must never know what is asked or answered. Above: the commands. Below: the contract of `jackstay.transport`, `_numbering`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
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
)
from jackstay.testing._numbering import Numbering
from jackstay.testing._patience import within
from jackstay.testing._recording import MAX_RECORDED_FRAME
from jackstay.testing._scripts import meta_of, read_params
from jackstay.transport import ExchangeTransport, Target, Transport
from jackstay.types import META_PROTOCOL_VERSION

if TYPE_CHECKING:
    from jackstay.protocol.http import ParamHeader

logger = logging.getLogger("jackstay.testing")

# After the client left: so long without a word of the server's, and what it asked for is given up.
PATIENCE: Final = 1.0

# For what is still to be written at the end, and for each step of the server's end. Together with the above less than the two
# seconds that clients wait before they kill (connection.md, section 8).
FLUSH: Final = 0.25
CLOSE_STEP: Final = 0.4


class Passed(msgspec.Struct, frozen=True):
    """How it ended: with the server's end and why, or because the client left (`error` is None)."""

    error: McpError | None = None
    was_silent: bool = False


class _End:
    """One of the two ends: what is pulled here is sent at the other."""

    def __init__(self, relay: "_Relay") -> None:
        self.relay = relay
        self.transport: Transport | None = None
        self.other: _End = self  # until there are two
        self.waiting: deque[bytes] = deque()  # pulled, and not yet sent at the other end
        self.number = 0
        self.is_down = False

    def pump(self) -> None:
        """Move what is here, as long as the other end takes it."""
        while self.transport is not None and self.other.transport is not None:
            if self.waiting:
                if not self.other.take(self.waiting[0]):
                    return
                self.waiting.popleft()
                continue
            frame = self.transport.next_frame()
            if frame is None:
                break
            if isinstance(frame, McpError):
                logger.error("a message is lost: %s", frame)
            else:
                self.relay.passing(self, decode(frame), frame)
        self.relay.changed.set()

    def take(self, frame: bytes) -> bool:
        """Send it here. False: not yet. What can never be sent is told, and dropped."""
        assert self.transport is not None  # asked by `pump()`
        try:
            is_taken = self.transport.send(frame, self.number + 1)
        except McpError as error:  # no message at all, where only messages can be sent; or over the limit
            logger.error("a message is lost: %s", error)
            return True
        self.number += is_taken
        return is_taken

    # --- the owner of a transport -------------------------------------------------------------------------------------

    def frames_arrived(self) -> None:
        """As the contract says."""
        self.pump()

    def wrote(self, through: int) -> None:
        """As the contract says."""

    def room_made(self) -> None:
        """As the contract says."""
        self.other.pump()

    def went_down(self, error: McpError, exit_code: int | None, was_silent: bool) -> None:  # noqa: ARG002  the error has it
        """As the contract says."""
        self.is_down = True
        self.pump()
        self.relay.ended(self, Passed(error, was_silent))


class _HttpEnd(_End):
    """The back, where it is reached over HTTP."""

    def exchange_lost(self, id: int, error: McpError, was_declined: bool) -> None:
        """As the contract says: the client gets an error in place of the answer."""
        # Refused as unknown, which is what a client that asks for the era has to hear.
        code = ErrorCode.METHOD_NOT_FOUND if was_declined else ErrorCode.INTERNAL_ERROR
        self._fail(id, code, str(error), {"mayHaveRun": error.may_have_run})

    def queued(self, id: int) -> None:
        """As the contract says."""

    def started(self, id: int) -> None:
        """As the contract says."""

    def session_lost(self, id: int) -> None:
        """As the contract says. A client over stdio has no word for a new session: it must start anew."""
        error = TransportError("the server forgot the session")
        if id:
            self._fail(id, ErrorCode.INTERNAL_ERROR, str(error), {"mayHaveRun": False})
        self.relay.ended(self, Passed(error))

    def marked_arguments(self, tool: str) -> "Sequence[ParamHeader]":
        """As the contract says, by the list that passed last."""
        return self.relay.marked.get(tool, ())

    def _fail(self, id: int, code: int, message: str, data: Json) -> None:
        own = self.relay.numbering.own(id)
        self.relay.answered(own)
        self.waiting.append(encode_error(own, code, message, data))
        self.pump()


class _Relay:
    """The two ends, and what is between them."""

    def __init__(self, *, is_http: bool) -> None:
        self.is_http = is_http
        self.front = _End(self)
        self.back = _HttpEnd(self) if is_http else _End(self)
        self.front.other, self.back.other = self.back, self.front
        self.numbering = Numbering()
        self.changed = asyncio.Event()
        self.marked: dict[str, Sequence[ParamHeader]] = {}
        # Requests of the client's that are open, by its own id: the method, and whether it is of the stateless era.
        self._open: dict[RequestId, tuple[str, bool]] = {}
        self.outcome: Passed | None = None

    def ended(self, end: _End, passed: Passed) -> None:
        """The first to end is how it ended."""
        if self.outcome is None:
            self.outcome = passed if end is self.back else Passed()
        self.changed.set()

    def answered(self, id: RequestId) -> None:
        """Nothing more is expected for this request of the client's."""
        self._open.pop(id, None)
        self.numbering.forget(id)

    @property
    def is_waiting(self) -> bool:
        """Whether the client asked for something that may still come."""
        return any(method != "subscriptions/listen" for method, _ in self._open.values())

    # --- passing ------------------------------------------------------------------------------------------------------

    def passing(self, end: _End, message: Message, frame: bytes) -> None:
        """A frame was pulled here: put it where it is sent from."""
        if end is self.front:
            self._outwards(message, frame)
        else:
            self._inwards(message, frame)

    def _outwards(self, message: Message, frame: bytes) -> None:
        if isinstance(message, Request):
            meta = meta_of(read_params(message.params))
            self._open[message.id] = (message.method, META_PROTOCOL_VERSION in meta)
        if self.is_http and isinstance(message, Notification) and self._hangs_up(message):
            return
        self.front.waiting.append(self.numbering.outwards(message, frame) if self.is_http else frame)

    def _inwards(self, message: Message, frame: bytes) -> None:
        sent = self.numbering.inwards(message, frame) if self.is_http else frame
        if isinstance(message, Result | Error) and message.id is not None:
            own = self.numbering.own(message.id)
            if (
                self.is_http
                and isinstance(message, Result)
                and self._open.get(own, ("", False))[0] == "tools/list"
            ):
                self._mark(message.result)
            self.answered(own)
        self.back.waiting.append(sent)

    def _hangs_up(self, message: Notification) -> bool:
        """In the stateless era a request over HTTP is cancelled by closing its response, and by nothing that is said."""
        params = read_params(message.params)
        id = params.get("requestId") if isinstance(params, dict) else None
        if message.method != "notifications/cancelled" or not isinstance(id, int | str):
            return False
        if not self._open.get(id, ("", False))[1]:
            return False
        number = self.numbering.given(id)
        assert isinstance(self.back.transport, ExchangeTransport)  # it is HTTP
        assert isinstance(number, int)  # what is none was given one
        self.back.transport.hang_up(number)
        self.answered(id)
        return True

    def _mark(self, result: msgspec.Raw) -> None:
        """Remember which arguments of which tools HTTP says in headers, too (2026-07-28 "Schema Extension")."""
        from jackstay.protocol.http import read_param_headers  # noqa: PLC0415  # only over HTTP

        body = read_params(result)
        tools = body.get("tools") if isinstance(body, dict) else None
        for tool in tools if isinstance(tools, list) else []:
            if isinstance(tool, dict):
                self.marked[str(tool.get("name"))] = read_param_headers(tool.get("inputSchema")).rows

    # --- from the beginning to the end --------------------------------------------------------------------------------

    async def run(self) -> Passed:
        """Until one of them ends."""
        self.front.pump()
        self.back.pump()
        await self._until(lambda: self.outcome is not None)
        assert self.outcome is not None  # waited for
        if self.outcome.error is None:
            while self.is_waiting and not self.back.is_down and await self._hears(PATIENCE):
                pass
        assert self.front.transport is not None  # it was opened
        await within(PATIENCE, self._until(lambda: not self.back.waiting))
        await within(FLUSH, self.front.transport.flush())
        return self.outcome

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self.changed.clear()
            await self.changed.wait()

    async def _hears(self, seconds: float) -> bool:
        """Wait for something to happen. False: nothing did."""
        self.changed.clear()
        return await within(seconds, self.changed.wait())


async def pass_through(front: Target, back: Target) -> Passed:
    """Open both, and let each say to the other what it says, until one of them ends. Cancel it to end it.

    Raises: TransportError, if one of them cannot be opened.
    """
    relay = _Relay(is_http=back.is_http)
    opened: list[Transport] = []
    try:
        for end, target in ((relay.back, back), (relay.front, front)):
            transport = await target.open(end, MAX_RECORDED_FRAME, CLOSE_STEP)
            opened.append(transport)
            end.transport = transport
        return await relay.run()
    finally:
        for end in (relay.front, relay.back):
            end.transport = None
        for transport in opened:
            await transport.close()
