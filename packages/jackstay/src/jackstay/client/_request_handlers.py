"""Handlers for requests that a server sends to its client: sampling, elicitation and roots.

A handshake-era server sends these as requests, a stateless server puts them into a result (`inputRequests`); both reach
the same handlers. A method without a handler is refused with -32601 and is not declared in the client's capabilities.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from jackstay.errors import CapabilityError, Json, JsonRpcError, UsageError
from jackstay.protocol.wire import ErrorCode
from jackstay.types import (
    Body,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    ElicitResult,
    InputRequest,
    ListRootsResult,
    Root,
    decode,
    encode_json,
)

logger = logging.getLogger("jackstay.client")

P = TypeVar("P")
A = TypeVar("A")

# Handles `sampling/createMessage`, sync or async.
SamplingHandler: TypeAlias = Callable[
    [CreateMessageRequestParams], CreateMessageResult | Awaitable[CreateMessageResult]
]
# Handles `elicitation/create`, sync or async.
ElicitationHandler: TypeAlias = Callable[[ElicitRequestParams], ElicitResult | Awaitable[ElicitResult]]


class ClientRequestHandlers:
    """The registered handlers and the capabilities that they imply."""

    def __init__(self) -> None:
        self.sampling: SamplingHandler | None = None
        self.elicitation: ElicitationHandler | None = None
        self.roots: Sequence[Root] | None = None
        # Handles every request as bytes, in place of the handlers above (`client.forwarding`).
        self.override: Callable[[str, bytes], Awaitable[bytes]] | None = None

    def capabilities(self) -> dict[str, Json]:
        """Return the capabilities to declare: one for each handler."""
        declared: dict[str, Json] = {}
        if self.sampling is not None:
            declared["sampling"] = {}
        if self.elicitation is not None:
            # Both modes (2025-11-25 client/elicitation); a handler that cannot show a URL declines it.
            declared["elicitation"] = {"form": {}, "url": {}}
        if self.roots is not None:
            declared["roots"] = {"listChanged": True}
        return declared

    async def handle(self, method: str, params: bytes) -> bytes:
        """Handle a request of a handshake-era server and return the encoded result.

        Raises: McpError with a code.
        """
        if self.override is not None:
            return await self.override(method, params)
        result = await self._call(method, lambda params_type: decode(params_type, params))
        if result is None:
            raise JsonRpcError(
                ErrorCode.METHOD_NOT_FOUND, f"method not found: {method!r} has no handler in this client"
            )
        return encode_json(result)

    async def fulfil(self, requests: Mapping[str, InputRequest]) -> dict[str, Body]:
        """Handle the input requests of a stateless server one after the other, and return the results by their keys.

        An exception of a handler propagates to the caller of the pending request: in this era the client cannot answer
        an input request with an error.

        Raises: CapabilityError for a request without a handler: the server must not send it, and it is not answered.
        """
        return {key: await self._fulfil_one(request) for key, request in requests.items()}

    async def _fulfil_one(self, request: InputRequest) -> Body:
        result = await self._call(request.method, lambda _: getattr(request, "params", None))
        if result is not None:
            return result
        method = request.method or "(no method)"
        error = CapabilityError(method, f"the server sent the input request {method!r}, which has no handler")
        error.may_have_run = True  # the server has started to process the pending request
        raise error

    async def _call(self, method: str | None, read_params: Callable[[Any], Any]) -> Body | None:
        """Return the result of the handler for this method; None if there is none.

        `read_params` returns the params, as the type that the handler accepts.
        """
        if method == "sampling/createMessage" and self.sampling is not None:
            return await _call_handler(self.sampling, read_params(CreateMessageRequestParams), CreateMessageResult)
        if method == "elicitation/create" and self.elicitation is not None:
            return await _call_handler(self.elicitation, read_params(ElicitRequestParams), ElicitResult)
        if method == "roots/list" and self.roots is not None:
            return ListRootsResult(roots=list(self.roots))
        return None


def check_callable(handler: object, name: str) -> None:
    """Raises: UsageError if `handler` is not callable; `name` is the function or argument that it was passed to."""
    if not callable(handler):
        raise UsageError(f"{name} expected a function, got {type(handler).__name__}", path=name)


async def _call_handler(handler: Callable[[P], A | Awaitable[A]], params: P, result_type: type[A]) -> A:
    """Call a sync or async handler and check the type of its result."""
    result = handler(params)
    if inspect.isawaitable(result):
        result = await result
    if not isinstance(result, result_type):
        raise UsageError(f"a handler must return {result_type.__name__}, got {type(result).__name__}")
    return result


def encode_error(code: int, message: str, data: Json = None) -> bytes:
    """Encode the `error` member.

    Data that cannot be encoded is logged and omitted, so that the server gets a response.
    """
    error: dict[str, Json] = {"code": code, "message": message}
    if data is not None:
        try:
            return encode_json({**error, "data": data})
        except UsageError:
            logger.exception("the data of an error response cannot be encoded; it was omitted")
    return encode_json(error)
