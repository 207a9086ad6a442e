"""Forward requests and notifications from a server to the clients they are for.

A request (sampling, elicitation, roots) or a log message of a handshake-era server does not indicate its client. It
goes to the client whose calls are in flight. If these are several, or the server has served several, the request is
refused and the message dropped, so that nothing reaches the wrong user.
"""

import asyncio
import itertools
import logging
import secrets
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from jackstay.errors import CapabilityError, JsonRpcError, McpError, RequestId
from jackstay.protocol import LIST_CHANGES, METHODS
from jackstay.protocol.server import check_capabilities
from jackstay.protocol.wire import ErrorCode
from jackstay.proxy._bodies import InputRequired, Members, decode_or, input_required_result, without_subscription
from jackstay.proxy._in_flight import InFlightCall, Owner
from jackstay.proxy._upstream import Sent, Upstream
from jackstay.server import Driver
from jackstay.types import LOGGING_LEVELS

if TYPE_CHECKING:
    from jackstay.proxy._proxy import Proxy

logger = logging.getLogger("jackstay.proxy")

# How long a stateless-era client may take to return input. A person may have to provide it.
# The same default as `jackstay.server` uses.
ROUND_TIMEOUT = 600.0

# Suspended calls of clients that may never send the next round.
MAX_SUSPENDED = 256

# URL-mode elicitations for which `notifications/elicitation/complete` is still expected.
MAX_URL_ELICITATIONS = 256

_UPDATED = "notifications/resources/updated"
_MESSAGE = "notifications/message"
_ELICITED = "notifications/elicitation/complete"


class _Elicitation(msgspec.Struct, rename="camel"):
    elicitation_id: str = ""


class _Params(msgspec.Struct):
    """Those of a log message, or of the update of a resource; the other one may have any type."""

    level: Any = "info"
    uri: Any = ""


_read_elicitation = msgspec.json.Decoder(_Elicitation).decode
_read_params = msgspec.json.Decoder(_Params).decode


class SuspendedCall(NamedTuple):
    """A call to a handshake-era server that waits for input from a stateless-era client."""

    upstream: Upstream
    call: InFlightCall
    sent: Sent
    # The next round must repeat the same request and come from the same principal.
    principal: str
    expiry: asyncio.TimerHandle


class Router:
    """Forwards requests and notifications from servers to the clients of `proxy`.

    How a request is forwarded depends on the era of each side:

    | client | server | how the request reaches the client |
    |---|---|---|
    | handshake | handshake | as a request, on the stream of the call it belongs to |
    | handshake | stateless | `inputRequests` become requests; the call is sent again with the responses |
    | stateless | stateless | the `input_required` result and the client's next round are forwarded unchanged |
    | stateless | handshake | the call is suspended; the client gets `input_required`, its next round resumes the call |
    """

    def __init__(self, proxy: "Proxy") -> None:
        self._proxy = proxy
        self._suspended: dict[str, SuspendedCall] = {}
        self._keys = itertools.count(1)
        self._url_elicitations: dict[str, Driver] = {}
        # How many messages could not be attributed to one client, by what became of them: "refused" or "dropped".
        self.unattributed: Counter[str] = Counter()

    # --- requests from a handshake-era server -------------------------------------------------------------------------

    async def handle_request(self, upstream: Upstream, method: str, params: bytes, call: InFlightCall | None) -> bytes:
        """Forward a request to the client it is for, and return the encoded result.

        `call` is the call whose response stream carried the request, if known. Raises: JsonRpcError.
        """
        owner = call or upstream.in_flight.owner(is_request=True)
        if isinstance(owner, InFlightCall):
            if upstream.owner is None and owner.is_stateless:
                return await self._request_in_result(owner, method, params)
            return await self._request(owner.connection, method, params, owner.awaited_id)
        clients, reason = self._attribute(upstream, owner)
        if len(clients) != 1:
            self._count_unattributed("refused", method, reason)
            message = f"cannot forward {method}: the client it is for is unknown ({reason})"
            raise JsonRpcError(ErrorCode.INTERNAL_ERROR, message, {"reason": "several clients"})
        return await self._request(clients[0], method, params, None)

    def _attribute(self, upstream: Upstream, owner: Owner) -> tuple[list[Driver], str]:
        """Return the clients that a message outside of calls can be for, and why it is not known which one."""
        if upstream.owner is not None:
            return [upstream.owner], ""
        if owner is Owner.AMBIGUOUS:
            return [], owner.value
        clients = self._proxy.session_clients(upstream)
        candidates = [client for client in clients if upstream.in_flight.has_served_only(client.number)]
        is_unused = len(candidates) == len(clients)
        why = f"{len(clients)} clients are connected" if is_unused else "the server has served several clients"
        return candidates, f"{owner.value}, and {why}"

    def _count_unattributed(self, outcome: str, method: str, reason: str) -> None:
        self.unattributed[outcome] += 1
        count = self.unattributed[outcome]
        if count.bit_count() == 1:  # log the 1st, 2nd, 4th, 8th, ...: a server may repeat the message
            logger.warning(
                "%s %s from the upstream server: the client it is for is unknown (%s); %d so far;"
                " --per-client starts one server for each client",
                outcome,
                method,
                reason,
                count,
            )

    async def _request(self, connection: Driver, method: str, params: bytes, about: RequestId | None) -> bytes:
        if method == "elicitation/create" and b'"elicitationId"' in params:
            self._remember(connection, params)
        try:
            return bytes(await connection.request(method, params, about))
        except JsonRpcError:
            raise  # the client's own error
        except CapabilityError as error:
            raise JsonRpcError(ErrorCode.METHOD_NOT_FOUND, error.message) from error
        except McpError as error:
            message = f"cannot send {method} to the client: {error.message}"
            raise JsonRpcError(ErrorCode.INTERNAL_ERROR, message) from error

    def _remember(self, connection: Driver, params: bytes) -> None:
        elicitation = decode_or(None, _read_elicitation, params)
        if elicitation is not None:
            self._url_elicitations[elicitation.elicitation_id] = connection
        if len(self._url_elicitations) > MAX_URL_ELICITATIONS:
            del self._url_elicitations[next(iter(self._url_elicitations))]

    def forget(self, connection: Driver) -> None:
        """Drop the elicitations of a client that has disconnected."""
        self._url_elicitations = {
            id: client for id, client in self._url_elicitations.items() if client is not connection
        }

    # --- notifications from a server ----------------------------------------------------------------------------------

    def handle_notification(self, upstream: Upstream, method: str, params: bytes, call: InFlightCall | None) -> None:
        """Route a notification. `call` is the call whose response stream carried it, if known."""
        params = without_subscription(params)
        elicitation = decode_or(None, _read_elicitation, params) if method == _ELICITED else None
        connection = None if elicitation is None else self._url_elicitations.pop(elicitation.elicitation_id, None)
        try:
            if method == _UPDATED:
                uri = msgspec.convert(_read_params(params).uri, str)
                for subscribed in upstream.subscriptions_for(uri):
                    self.changed(upstream, method, subscribed, params)
            elif method in LIST_CHANGES:
                self.changed(upstream, method, "", params)
            elif connection is not None:
                self._notify(connection, method, params)
            else:  # also if the elicitation was in an error, or came from another instance of the server
                self._forward_to_owner(upstream, method, params, call)
        except msgspec.DecodeError as error:
            logger.info("dropped %s from the upstream server: invalid params: %s", method, error)

    def changed(self, upstream: Upstream, method: str, uri: str = "", params: bytes = b"") -> None:
        """Notify the clients that a list or a resource of this server changed."""
        if upstream.owner is None:
            self._proxy._notify_subscribers(upstream, method, uri, params)
        else:
            upstream.owner.subscriptions.changed(method, uri, params)

    def _forward_to_owner(self, upstream: Upstream, method: str, params: bytes, call: InFlightCall | None) -> None:
        """Forward a log message or an unknown notification."""
        in_flight = upstream.in_flight
        has_level = upstream.is_stateless and method == _MESSAGE
        owner = call or (in_flight.log_owner() if has_level else in_flight.owner())
        if isinstance(owner, InFlightCall):
            about = owner.awaited_id
            can_receive = about is not None or not owner.is_stateless
            level = owner.level if owner.is_stateless else owner.connection.store.get("level", "")
            if can_receive and (method != _MESSAGE or _is_wanted(level, params)):
                self._notify(owner.connection, method, params, about)
            return
        clients, reason = self._attribute(upstream, owner)
        if not clients and (owner is Owner.AMBIGUOUS or self._proxy.session_clients(upstream)):
            self._count_unattributed("dropped", method, reason)
        for connection in clients:
            if method != _MESSAGE or _is_wanted(connection.store.get("level", ""), params):
                self._notify(connection, method, params)

    def _notify(self, connection: Driver, method: str, params: bytes, about: RequestId | None = None) -> None:
        try:
            connection.notify(method, params, about)
        except McpError as error:
            logger.info("%s was not forwarded: %s", method, error)

    # --- stateless server, handshake client ---------------------------------------------------------------------------

    async def request_inputs(self, call: InFlightCall, required: InputRequired) -> Members:
        """Send the input requests of a result to the client, and return its responses by key.

        Raises: JsonRpcError if the client returns an error or cannot be reached.
        """
        responses: Members = {}
        for key, request in (required.input_requests or {}).items():
            response = await self._request(call.connection, request.method, bytes(request.params), call.awaited_id)
            responses[key] = msgspec.Raw(response)
        return responses

    # --- handshake server, stateless client ---------------------------------------------------------------------------

    async def _request_in_result(self, call: InFlightCall, method: str, params: bytes) -> bytes:
        row = METHODS.get(method)
        needed = method if row is None else row.capability
        if row is None or check_capabilities(call.capabilities, (needed,), method=method) is not None:
            raise JsonRpcError(ErrorCode.METHOD_NOT_FOUND, f"the client did not declare {needed}")
        if not call.method.may_require_input or call.input_requested is None:
            # None: the call was sent when the server was in the stateless era, and nothing waits for input requests.
            message = f"{call.method.name} cannot return input_required in 2026-07-28"
            raise JsonRpcError(ErrorCode.INTERNAL_ERROR, message)
        if len(self._suspended) >= MAX_SUSPENDED:
            message = f"too many suspended calls: {MAX_SUSPENDED} already wait for input from their clients"
            raise JsonRpcError(ErrorCode.INTERNAL_ERROR, message, {"retryable": True})
        key = f"input-{next(self._keys)}"
        try:
            return await call.add_input_request(key, method, params)
        finally:
            call.input_requests.pop(key, None)

    def suspend(self, upstream: Upstream, call: InFlightCall, sent: Sent) -> bytes:
        """Keep the call open, and return the `input_required` result for its client."""
        state = secrets.token_urlsafe(24)
        expiry = asyncio.get_running_loop().call_later(
            ROUND_TIMEOUT, self._discard, state, f"the client did not return input within {ROUND_TIMEOUT:g} s"
        )
        self._suspended[state] = SuspendedCall(upstream, call, sent, call.connection.principal, expiry)
        return input_required_result(state, {key: row.request for key, row in call.input_requests.items()})

    def resume(self, state: str, call: InFlightCall, responses: Members) -> SuspendedCall:
        """Pass the client's responses to the suspended call, and return that call.

        Raises: JsonRpcError if the state is unknown, has expired, or belongs to another request or principal.
        """
        suspended = self._suspended.get(state)
        same = (call.connection.principal, call.body, call.method)
        if suspended is None or (suspended.principal, suspended.call.body, suspended.call.method) != same:
            raise JsonRpcError(ErrorCode.INVALID_PARAMS, "unknown or expired requestState")
        del self._suspended[state]
        suspended.expiry.cancel()
        suspended.call.rebind(call)
        for key, response in responses.items():
            request = suspended.call.input_requests.pop(key, None)
            if request is not None and not request.response.done():
                request.response.set_result(bytes(response))
        return suspended

    def _discard(self, state: str, reason: str) -> None:
        suspended = self._suspended.pop(state)
        suspended.expiry.cancel()
        suspended.call.fail_input_requests(reason)
        suspended.sent.cancel()

    def stop(self) -> None:
        """Fail all suspended calls: the proxy is shutting down."""
        for state in list(self._suspended):
            self._discard(state, "the proxy is shutting down")


def _is_wanted(wanted: str | None, params: bytes) -> bool:
    """True if a client that wants this level gets this log message.

    A stateless-era request without a level (None) gets none, a handshake-era client that set none ("") all.
    """
    if not wanted:
        return wanted is not None
    level = msgspec.convert(_read_params(params).level, str)
    return level not in LOGGING_LEVELS or LOGGING_LEVELS.index(level) >= LOGGING_LEVELS.index(wanted)
