"""Forward each request of a client to the upstream server, and convert its result for the client.

Most requests and results are forwarded without decoding. Subscriptions and the log level are shared: several clients
that subscribe to one resource are one subscription at the server, and the server gets the most verbose level of all.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from jackstay.errors import BackpressureError, JsonRpcError, McpError, ProtocolError, TransportError
from jackstay.protocol import LISTS, MAX_ROUNDS
from jackstay.protocol.server import events as e
from jackstay.protocol.wire import ErrorCode
from jackstay.proxy._bodies import for_handshake, for_stateless, next_round_params, parse_input_required, split_round
from jackstay.proxy._failures import for_era, reason_of, to_client_error
from jackstay.proxy._in_flight import InFlightCall
from jackstay.proxy._upstream import Sent, Upstream, wait_to_retry
from jackstay.server import Driver, Outcome
from jackstay.types import (
    LOGGING_LEVELS,
    Body,
    ResourceRequestParams,
    SetLevelRequestParams,
    SubscriptionFilter,
    SubscriptionsListenRequestParams,
    decode,
)

if TYPE_CHECKING:
    from jackstay.proxy._proxy import Proxy

# Handles a request: the server, the client, the request, and the member of its params.
LocalHandler: TypeAlias = Callable[[Upstream, Driver, e.Serve, Any], Coroutine[Any, Any, bytes]]

_ROOTS_CHANGED = "notifications/roots/list_changed"
_PROGRESS = "notifications/progress"


class Relay:
    """Serves every request to `proxy` by forwarding it."""

    def __init__(self, proxy: "Proxy") -> None:
        self._proxy = proxy
        self.server_name = ""  # for errors, if it is one of several
        # The requests that the proxy handles itself, with the type of their params and the member that is used.
        self._local_handlers: dict[str, tuple[LocalHandler, type[Body], str]] = {
            "resources/subscribe": (self._subscribe, ResourceRequestParams, "uri"),
            "resources/unsubscribe": (self._unsubscribe, ResourceRequestParams, "uri"),
            "subscriptions/listen": (self._listen, SubscriptionsListenRequestParams, "notifications"),
            "logging/setLevel": (self._set_level, SetLevelRequestParams, "level"),
        }

    # --- called by the driver -----------------------------------------------------------------------------------------

    def serve(self, connection: Driver, request: e.Serve) -> Outcome:
        """Return the result of a request, or an awaitable for it. Raises: JsonRpcError, to refuse it."""
        try:
            upstream = self._proxy._find(connection, is_stateless=request.meta is not None)
        except BackpressureError as error:
            raise to_client_error(error, self.server_name) from error
        if request.method.name in self._local_handlers:
            handler, cls, member = self._local_handlers[request.method.name]
            # Decoded now: the params are a view of the frame.
            return self._handle(handler, upstream, connection, request, getattr(_read(cls, request), member))
        if request.method.name.startswith("tasks/") and upstream.owner is None:
            message = f"{request.method.name} needs a dedicated server: start the proxy with --per-client"
            raise JsonRpcError(ErrorCode.METHOD_NOT_FOUND, message)
        return self._forward(upstream, InFlightCall(connection, request))

    def notified(self, connection: Driver, method: str, params: msgspec.Raw | None) -> None:
        """Forward a notification from the client: a change of its roots, or progress of its own response.

        Other notifications are forwarded to a dedicated server only. Stateless-era servers get none.
        """
        try:
            upstream = self._proxy._find(connection, is_stateless=False)
        except BackpressureError:
            return  # the client gets the error in response to its requests
        is_forwarded = method in (_ROOTS_CHANGED, _PROGRESS) or upstream.owner is not None
        if is_forwarded and not upstream.is_stateless:
            upstream.notify(method, b"{}" if params is None else bytes(params))

    # --- forwarded requests -------------------------------------------------------------------------------------------

    async def _forward(self, upstream: Upstream, call: InFlightCall) -> bytes:
        outcome, started_at = "cancelled", time.monotonic()
        try:
            result = await self._forward_rounds(upstream, call)
            outcome = "ok"
        except JsonRpcError as error:
            outcome = "error"
            if call.is_stateless == upstream.is_stateless:
                raise
            raise for_era(error, call.method.name, is_stateless=call.is_stateless) from None
        except McpError as error:
            outcome = reason_of(error)
            raise to_client_error(error, self.server_name) from error
        finally:
            self._proxy._report.count(call.method.name, outcome, time.monotonic() - started_at)
        return result

    async def _forward_rounds(self, upstream: Upstream, call: InFlightCall) -> bytes:
        """Forward a call between the eras.

        `input_required` results for a handshake-era client are resolved here, round by round. For a stateless-era
        client, a call to a handshake-era server that requests input is suspended, and resumed in its next round.
        """
        sent = None
        if call.is_stateless and not upstream.is_stateless:
            call.body, state, responses = split_round(call.body)
            if state is not None:
                suspended = self._proxy._router.resume(state, call, responses)
                upstream, call, sent = suspended.upstream, suspended.call, suspended.sent
        for _ in range(MAX_ROUNDS + 1):
            sent, result = await self._once(upstream, call, sent)
            if result is None:
                return self._proxy._router.suspend(upstream, call, sent)
            required = parse_input_required(result) if sent.is_stateless and not call.is_stateless else None
            if required is None:
                return _finalize(upstream, call, sent, result)
            responses = await self._proxy._router.request_inputs(call, required)
            call.body, sent = next_round_params(call.body, required, responses), None
        raise ProtocolError(f"the server returned input_required more than {MAX_ROUNDS} times", sent=True)

    async def _once(self, upstream: Upstream, call: InFlightCall, sent: Sent | None) -> tuple[Sent, bytes | None]:
        """Send a call, unless it was sent, and return its result, or None if a handshake-era server requests input.

        It is sent again only if it is known not to have run.
        """
        # Until when the call waits for a server that is down, over all attempts.
        deadline = asyncio.get_running_loop().time() + self._proxy.proxy_options.wait
        has_listed = False
        while True:
            if sent is None:
                sent = await upstream.send(call, deadline)
            try:
                if call.is_stateless and not sent.is_stateless and await self._is_input_requested(call, sent):
                    return sent, None
                return sent, await sent.call.future
            except asyncio.CancelledError:
                sent.cancel()
                raise
            except TransportError as error:
                if not await wait_to_retry(deadline, error):
                    raise
            except JsonRpcError as error:
                # In all other cases this code is the server's own, and the call may have run.
                is_header_mismatch = (
                    error.code == ErrorCode.HEADER_MISMATCH and sent.is_stateless and upstream.target.is_http
                )
                if not is_header_mismatch or call.method.name != "tools/call" or has_listed:
                    raise
                # The tool list shows which arguments the server expects in headers. The request was rejected before
                # dispatch, so it can be sent again (2026-07-28 basic/transports/streamable-http).
                await sent.client.tools.list()
                has_listed = True
            sent, call.has_ended = None, False

    async def _is_input_requested(self, call: InFlightCall, sent: Sent) -> bool:
        """Wait until the call has ended (False), or the server has sent a request to its client (True)."""
        while not sent.call.future.done():
            if call.input_requests:
                return True
            call.input_requested = asyncio.get_running_loop().create_future()
            await asyncio.wait((sent.call.future, call.input_requested), return_when=asyncio.FIRST_COMPLETED)
        return False

    # --- requests that the proxy handles itself -----------------------------------------------------------------------

    async def _handle(self, handler: LocalHandler, *arguments: Any) -> bytes:
        try:
            return await handler(*arguments)
        except McpError as error:
            raise to_client_error(error, self.server_name) from error

    async def _subscribe(self, upstream: Upstream, connection: Driver, _: e.Serve, uri: str) -> bytes:
        connection.subscriptions.subscribe(uri)
        try:
            await upstream.subscribe(uri, (connection.number, 0))
        except BaseException:
            connection.subscriptions.unsubscribe(uri)
            raise
        return b"{}"

    async def _unsubscribe(self, upstream: Upstream, connection: Driver, _: e.Serve, uri: str) -> bytes:
        connection.subscriptions.unsubscribe(uri)
        upstream.unsubscribe(uri, (connection.number, 0))
        return b"{}"

    async def _listen(
        self, upstream: Upstream, connection: Driver, request: e.Serve, wanted: SubscriptionFilter
    ) -> bytes:
        """Open a stateless-era subscription, with those resources that the server accepts."""
        key = (connection.number, request.serial)
        accepted: list[str] = []

        with ExitStack() as stack:  # a cancellation removes the subscriptions
            for uri in dict.fromkeys(wanted.resource_subscriptions or ()):
                with suppress(McpError):
                    await upstream.subscribe(uri, key)
                    stack.callback(upstream.unsubscribe, uri, key)
                    accepted.append(uri)
            unsubscribe = stack.pop_all().close
        if wanted.resource_subscriptions is not None:
            wanted = msgspec.structs.replace(wanted, resource_subscriptions=accepted)
        connection.subscriptions.listen(request, wanted, on_close=unsubscribe)
        return b""  # the request stays open

    async def _set_level(self, upstream: Upstream, connection: Driver, _: e.Serve, level: str) -> bytes:
        connection.log_level = connection.store["level"] = level
        await self.request_level(upstream, connection)
        return b"{}"

    async def request_level(self, upstream: Upstream, connection: Driver) -> None:
        """Request the most verbose log level that a client of the server has set. Raises: McpError."""
        clients = [connection, *self._proxy.session_clients(upstream)]
        levels = [client.store["level"] for client in clients if "level" in client.store]
        await upstream.set_level(min(levels, key=LOGGING_LEVELS.index))


def _finalize(upstream: Upstream, call: InFlightCall, sent: Sent, result: bytes) -> bytes:
    """Convert a result to the era of the client. Only members that the other era defines are removed."""
    if call.method.name in LISTS:
        upstream.lists.record_page(call.method.name, call.body, result)
    if not call.is_stateless:
        return for_handshake(result) if sent.is_stateless else result
    if sent.is_stateless:
        return result if b'"resultType"' in result else call.connection.server_config.finalize(result)
    return call.connection.server_config.finalize(for_stateless(result, call.method))


def _read(cls: type[Body], request: e.Serve) -> Body:
    try:
        return decode(cls, b"{}" if request.params is None else request.params)
    except ProtocolError as error:
        message = f"invalid params of {request.method.name}: {error.message}"
        raise JsonRpcError(ErrorCode.INVALID_PARAMS, message) from error
