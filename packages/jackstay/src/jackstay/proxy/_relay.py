"""What each request of a client becomes at the server behind, and what its answer becomes on the way back.

Most pass as they are: the body is not read, the result is not made again. What a connection has by itself is kept here and not
asked of the server a second time: subscriptions of several clients to one resource are one at the server, and the most
talkative log level of all clients is the server's.

Above: `_proxy`. Below: `_back`, `_asking` (what the server asks meanwhile), `_bodies`.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol, TypeVar

import msgspec

from jackstay.errors import (
    BackpressureError,
    JsonRpcError,
    McpError,
    ProtocolError,
    TransportError,
)
from jackstay.protocol.server import events as e
from jackstay.protocol.wire import ErrorCode
from jackstay.proxy._asking import Asking
from jackstay.proxy._back import Back, Compose, Composed, Patience, Sent
from jackstay.proxy._bodies import (
    Members,
    asks,
    for_handshake,
    for_stateless,
    next_round,
    own_meta,
    speaker,
    split,
    take_round,
)
from jackstay.proxy._failures import reason_of, told
from jackstay.proxy._flights import Flight
from jackstay.proxy._lists import LISTS
from jackstay.proxy._news import LEVELS
from jackstay.proxy._report import Report
from jackstay.server import Driver, Outcome
from jackstay.types import (
    META_LOG_LEVEL,
    Body,
    ProgressNotificationParams,
    ResourceRequestParams,
    SetLevelRequestParams,
    SubscriptionsListenRequestParams,
    decode,
    encode_json,
)

B = TypeVar("B", bound=Body)

# The log level of clients with a handshake that set none, at a stateless server; as our own server has it.
USUAL_LEVEL = "info"

# How often a server may ask before it answers, as with any client of ours.
MAX_ROUNDS = 8

_ROOTS_CHANGED = "notifications/roots/list_changed"
_PROGRESS = "notifications/progress"


class Find(Protocol):
    """Finds the server for a request of this client."""

    def __call__(self, connection: Driver, *, is_stateless: bool) -> Back: ...


class Relay:
    """Serves every request by asking the server behind. `find(connection)` is the one for this client."""

    def __init__(
        self,
        find: Find,
        is_own: Callable[[Back], bool],
        lasting: Callable[[Back], list[Driver]],
        asking: Asking,
        report: Report,
    ) -> None:
        self._find = find
        self._is_own = is_own
        self._lasting = lasting
        self._asking = asking
        self._report = report
        self._by_hand: dict[str, Callable[[Back, Driver, e.Serve], Coroutine[Any, Any, bytes]]] = {
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "subscriptions/listen": self._listen,
            "logging/setLevel": self._set_level,
        }

    # --- what the driver asks -----------------------------------------------------------------------------------------

    def serve(self, connection: Driver, request: e.Serve) -> Outcome:
        """The result of a request, or what will give it. Raises: JsonRpcError, to refuse."""
        try:
            back = self._find(connection, is_stateless=request.meta is not None)
        except BackpressureError as error:
            raise told(error) from error
        by_hand = self._by_hand.get(request.method.name)
        if by_hand is not None:
            return by_hand(back, connection, _kept(request))
        if request.method.name.startswith("tasks/") and not self._is_own(back):
            raise JsonRpcError(
                ErrorCode.METHOD_NOT_FOUND, f"{request.method.name} needs a server of one's own: --per-client"
            )
        body, meta = split(request.params)
        return self._forward(back, Flight(connection, request), body, meta)

    def notified(self, connection: Driver, method: str, params: msgspec.Raw | None) -> None:
        """A notification of the client's: that its roots changed, or how far an answer of its own has come.

        Others are for a server of one's own alone. In the stateless era a server is told nothing.
        """
        try:
            back = self._find(connection, is_stateless=False)
        except BackpressureError:
            return  # its requests are told so
        if (method in (_ROOTS_CHANGED, _PROGRESS) or self._is_own(back)) and not back.is_stateless:
            back.notify(method, b"{}" if params is None else bytes(params))

    def draining(self, connection: Driver) -> None:
        """End the subscriptions of a connection that takes no new requests."""
        connection.listening.end()

    # --- requests that pass -------------------------------------------------------------------------------------------

    async def _forward(self, back: Back, flight: Flight, body: bytes, meta: Members) -> bytes:
        outcome, began = "cancelled", time.monotonic()
        try:
            if flight.is_stateless and not back.is_stateless:
                result = await self._forward_held(back, flight, body, meta)
            else:
                result = await self._forward_rounds(back, flight, body, meta)
            outcome = "ok"
        except JsonRpcError:
            outcome = "error"
            raise
        except McpError as error:
            outcome = reason_of(error)
            raise told(error) from error
        finally:
            self._report.count(flight.method.name, outcome, time.monotonic() - began)
        return result

    async def _forward_rounds(self, back: Back, flight: Flight, body: bytes, meta: Members) -> bytes:
        """As often as the server asks, where a client with a handshake is to be asked; else once."""
        for _ in range(MAX_ROUNDS + 1):
            sent, result = await self._once(back, flight, body, meta)
            asked = asks(result) if sent.is_stateless and not flight.is_stateless else None
            if asked is None:
                return _dress(back, flight, sent, body, result)
            body = next_round(body, asked, await self._asking.fulfil(flight, asked))
        raise ProtocolError(f"the server asked for input more than {MAX_ROUNDS} times", sent=True)

    async def _once(self, back: Back, flight: Flight, body: bytes, meta: Members) -> tuple[Sent, bytes]:
        """Sent, and answered. It is sent again only where it surely did not run."""
        patience = back.patience()
        has_listed = False
        while True:
            sent = await _send(back, flight, _composer(flight, body, meta), patience)
            try:
                return sent, await back.answer(flight, sent)
            except TransportError as error:
                if not await patience.lasts(error):
                    raise
            except JsonRpcError as error:
                # Elsewhere the code is the server's own, and the call may have run.
                is_about_headers = (
                    error.code == ErrorCode.HEADER_MISMATCH and sent.is_stateless and back.is_http
                )
                if not is_about_headers or flight.method.name != "tools/call" or has_listed:
                    raise
                # What its tools want said in headers is known from their list. It was refused before dispatch, so
                # sending it again is safe (2026-07-28 basic/transports/streamable-http).
                await sent.client.tools.list()
                has_listed = True
            flight.has_ended = False

    async def _forward_held(self, back: Back, flight: Flight, body: bytes, meta: Members) -> bytes:
        """For a client of the stateless era, at a server that may ask it in the middle of a call."""
        body, state, answers = take_round(body)
        patience = back.patience()
        sent = None
        if state is not None:
            held = self._asking.resume(state, flight, body, answers)
            back, flight, sent = held.back, held.flight, held.sent
        while True:
            if sent is None:
                sent = await _send(back, flight, _composer(flight, body, meta), patience)
            if await self._is_asked(back, flight, sent):
                return self._asking.hold(back, flight, sent, body)
            try:
                return _dress(back, flight, sent, body, await back.answer(flight, sent))
            except TransportError as error:
                if not await patience.lasts(error):
                    raise
            sent, flight.has_ended = None, False

    async def _is_asked(self, back: Back, flight: Flight, sent: Sent) -> bool:
        """Wait until the call has ended, or its client is to be asked."""
        while not sent.call.future.done():
            if flight.questions:
                return True
            flight.is_asked = asyncio.get_running_loop().create_future()
            try:
                await asyncio.wait((sent.call.future, flight.is_asked), return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                back.give_up(flight, sent)
                raise
        return False

    # --- requests that are kept ---------------------------------------------------------------------------------------

    async def _subscribe(self, back: Back, connection: Driver, request: e.Serve) -> bytes:
        uri = _read(ResourceRequestParams, request).uri
        connection.listening.subscribe(uri)
        try:
            await back.subscribe(uri, (connection.number, 0))
        except BaseException as error:
            connection.listening.unsubscribe(uri)
            if isinstance(error, McpError):
                raise told(error) from error
            raise
        return b"{}"

    async def _unsubscribe(self, back: Back, connection: Driver, request: e.Serve) -> bytes:
        uri = _read(ResourceRequestParams, request).uri
        connection.listening.unsubscribe(uri)
        back.unsubscribe(uri, (connection.number, 0))
        return b"{}"

    async def _listen(self, back: Back, connection: Driver, request: e.Serve) -> bytes:
        """Open a subscription of the stateless era: with the resources that the server lets us hear of."""
        wanted = _read(SubscriptionsListenRequestParams, request).notifications
        uris = wanted.resource_subscriptions
        if uris is not None:
            key = (connection.number, request.serial)
            honoured: list[str] = []

            def let_go() -> None:
                for uri in honoured:
                    back.unsubscribe(uri, key)

            connection.on_stop(request.serial, let_go)
            try:
                for uri in dict.fromkeys(uris):
                    if await _is_heard(back, uri, key):
                        honoured.append(uri)  # noqa: PERF401  # let go of one by one, if this is cancelled
            except asyncio.CancelledError:
                let_go()
                raise
            wanted = msgspec.structs.replace(wanted, resource_subscriptions=honoured)
        connection.listening.listen(request, wanted)
        return b""  # it stays open

    async def _set_level(self, back: Back, connection: Driver, request: e.Serve) -> bytes:
        level = _read(SetLevelRequestParams, request).level
        connection.log_level = level
        connection.store["level"] = level
        clients = [connection] if self._is_own(back) else [connection, *self._lasting(back)]
        levels = [one.store["level"] for one in clients if "level" in one.store]
        try:
            await back.set_level(min(levels, key=LEVELS.index))
        except McpError as error:
            raise told(error) from error
        return b"{}"


def _composer(flight: Flight, body: bytes, meta: Members) -> Compose:
    """What is sent of a request, to a server of either era: which one it is shows when it is there."""

    def compose(is_stateless: bool) -> Composed:
        more = own_meta(meta, is_stateless=is_stateless)
        if not is_stateless:
            return body, more, b""
        # A client with a handshake that never set a level gets what the server decides. A stateless server sends nothing
        # unless the request has a level.
        level = None if flight.is_stateless else flight.connection.store.get("level", USUAL_LEVEL)
        if level is not None:
            said = b'"%b":"%b"' % (META_LOG_LEVEL.encode(), level.encode())
            more = b"%b,%b" % (more, said) if more else said
        return body, more, speaker(flight.capabilities, flight.info)

    return compose


async def _send(back: Back, flight: Flight, compose: Compose, patience: Patience) -> Sent:
    report = None if flight.token is None else partial(_report, flight)
    return await back.send(flight, compose, report, patience)


def _dress(back: Back, flight: Flight, sent: Sent, body: bytes, result: bytes) -> bytes:
    """A result as the client's era wants it. Nothing is removed but what only the other era has."""
    if flight.method.name in LISTS:
        back.lists.saw(flight.method.name, body, result)
    if not flight.is_stateless:
        return for_handshake(result) if sent.is_stateless else result
    if sent.is_stateless:
        return result if b'"resultType"' in result else flight.connection.offer.complete(result)
    return flight.connection.offer.complete(for_stateless(result, flight.method))


async def _is_heard(back: Back, uri: str, key: tuple[int, int]) -> bool:
    try:
        await back.subscribe(uri, key)
    except McpError:
        return False
    return True


def _kept(request: e.Serve) -> e.Serve:
    """The request with a copy of its params: they are a view of the frame, and are read when that is gone."""
    params = None if request.params is None else msgspec.Raw(bytes(request.params))
    kept: e.Serve = msgspec.structs.replace(request, params=params, meta=None)
    return kept


def _read(cls: type[B], request: e.Serve) -> B:
    try:
        return decode(cls, b"{}" if request.params is None else request.params)
    except ProtocolError as error:
        raise JsonRpcError(
            ErrorCode.INVALID_PARAMS, f"the params of {request.method.name} are wrong: {error.message}"
        ) from error


def _report(flight: Flight, progress: ProgressNotificationParams) -> None:
    """Progress of a call, under the token of its client; everything else in it as it came."""
    if flight.is_awaited and flight.token is not None:
        said = encode_json({**progress.raw, "progressToken": flight.token})
        flight.connection.notify(_PROGRESS, said, flight.id)
