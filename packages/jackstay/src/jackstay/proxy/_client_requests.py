"""Forward requests from a server (sampling, elicitation, roots) to the client they are meant for.

A handshake-era server does not indicate which client its request is for. If the calls in flight belong to exactly one
client, the request goes to that client; otherwise it is refused, so that it never reaches the wrong user.
"""

import asyncio
import itertools
import logging
import secrets
from typing import NamedTuple

import msgspec

from jackstay.errors import CapabilityError, JsonRpcError, McpError, RequestId
from jackstay.protocol import METHODS
from jackstay.protocol.server import check_capabilities
from jackstay.protocol.wire import ErrorCode
from jackstay.proxy._bodies import InputRequired, Members, decode_or, input_required_result
from jackstay.proxy._in_flight import InFlightCall, Owner, PendingInputRequest
from jackstay.proxy._upstream import Sent, Upstream
from jackstay.server import Driver

logger = logging.getLogger("jackstay.proxy")

# How long a stateless-era client may take to return input. A person may have to provide it.
# The same default as `jackstay.server` uses.
ROUND_TIMEOUT = 600.0

# Suspended calls of clients that may never send the next round.
MAX_SUSPENDED = 256

# URL-mode elicitations for which `notifications/elicitation/complete` is still expected.
MAX_URL_ELICITATIONS = 256


class _Elicitation(msgspec.Struct, rename="camel"):
    elicitation_id: str = ""


_read_elicitation = msgspec.json.Decoder(_Elicitation).decode


class SuspendedCall(NamedTuple):
    """A call to a handshake-era server that waits for input from a stateless-era client."""

    upstream: Upstream
    call: InFlightCall
    sent: Sent
    # The next round must repeat the same request and come from the same principal.
    principal: str
    expiry: asyncio.TimerHandle


class ClientRequestRouter:
    """Forwards requests from servers to clients. How depends on the era of each side:

    | client | server | how the request reaches the client |
    |---|---|---|
    | handshake | handshake | as a request, on the stream of the call it belongs to |
    | handshake | stateless | `inputRequests` become requests; the call is sent again with the responses |
    | stateless | stateless | the `input_required` result and the client's next round are forwarded unchanged |
    | stateless | handshake | the call is suspended; the client gets `input_required`, its next round resumes the call |
    """

    def __init__(self) -> None:
        self._suspended: dict[str, SuspendedCall] = {}
        self._keys = itertools.count(1)
        self._url_elicitations: dict[str, Driver] = {}
        # Requests that could not be attributed to one client.
        self.refused = 0

    # --- requests from a handshake-era server -------------------------------------------------------------------------

    async def handle_request(self, upstream: Upstream, method: str, params: bytes, call: InFlightCall | None) -> bytes:
        """Forward a request to the client it is for, and return the encoded result.

        `call` is the call whose response stream carried the request, if known. Raises: JsonRpcError.
        """
        connection, about = upstream.owner, None
        owner = upstream.in_flight.owner(is_request=True) if call is None else call
        if isinstance(owner, InFlightCall):
            if connection is None and owner.is_stateless:
                return await self._request_in_result(owner, method, params)
            connection, about = owner.connection, owner.awaited_id
        elif connection is None:
            connection = self._find_only_client(upstream, owner, method)
        return await self._request(connection, method, params, about)

    def _find_only_client(self, upstream: Upstream, owner: Owner, method: str) -> Driver:
        clients = upstream.session_clients()
        candidates = [client for client in clients if upstream.in_flight.has_served_only(client.number)]
        if owner is Owner.NONE and len(candidates) == 1:
            return candidates[0]
        reason = owner.value
        if owner is Owner.NONE:
            is_unused = len(candidates) == len(clients)
            why = f"{len(clients)} clients are connected" if is_unused else "the server has served several clients"
            reason = f"{reason}, and {why}"
        self.refused += 1
        if self.refused.bit_count() == 1:  # log the 1st, 2nd, 4th, 8th, ...: a server may repeat the request
            logger.warning(
                "refused %s from the upstream server: the client it is for is unknown (%s); %d refused so far;"
                " --per-client starts one server for each client",
                method,
                reason,
                self.refused,
            )
        message = f"cannot forward {method}: the client it is for is unknown ({reason})"
        raise JsonRpcError(ErrorCode.INTERNAL_ERROR, message, {"reason": "several clients"})

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

    def pop_elicitation(self, params: bytes) -> Driver | None:
        """Return the client whose URL-mode elicitation is complete, and forget the elicitation.

        `params` are those of `notifications/elicitation/complete`.
        """
        elicitation = decode_or(None, _read_elicitation, params)
        return None if elicitation is None else self._url_elicitations.pop(elicitation.elicitation_id, None)

    def forget(self, connection: Driver) -> None:
        """Drop the elicitations of a client that has disconnected."""
        self._url_elicitations = {
            id: client for id, client in self._url_elicitations.items() if client is not connection
        }

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
        response: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        call.add_input_request(key, PendingInputRequest(method, params, response))
        try:
            return await response
        finally:
            call.input_requests.pop(key, None)

    def suspend(self, upstream: Upstream, call: InFlightCall, sent: Sent) -> bytes:
        """Keep the call open, and return the `input_required` result for its client."""
        state = secrets.token_urlsafe(24)
        expiry = asyncio.get_running_loop().call_later(
            ROUND_TIMEOUT, self._discard, state, f"the client did not return input within {ROUND_TIMEOUT:g} s"
        )
        self._suspended[state] = SuspendedCall(upstream, call, sent, call.connection.principal, expiry)
        pending = {key: (request.method, request.params) for key, request in call.input_requests.items()}
        return input_required_result(state, pending)

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
