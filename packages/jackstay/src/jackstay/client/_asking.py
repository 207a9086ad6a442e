"""What a server may ask of its client: sampling, elicitation and roots, answered by the user's handlers.

A handshake-era server sends requests, a stateless one puts them into a result (`inputRequests`); both reach the same
handlers. What no handler was registered for is refused with -32601, and is not declared in our capabilities.

Above: `_requests`, `_client`. Below: `jackstay.types`.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

import msgspec

from jackstay.errors import CapabilityError, Json, JsonRpcError, UsageError
from jackstay.protocol.wire import ErrorCode
from jackstay.types import (
    Body,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestParams,
    ElicitResult,
    InputRequest,
    ListRootsRequest,
    ListRootsResult,
    Root,
    decode,
    encode_json,
)

P = TypeVar("P")
A = TypeVar("A")

# Answers a request for a message of a model, sync or async.
SamplingHandler: TypeAlias = Callable[
    [CreateMessageRequestParams], CreateMessageResult | Awaitable[CreateMessageResult]
]
# Answers a question to the person, sync or async.
ElicitationHandler: TypeAlias = Callable[[ElicitRequestParams], ElicitResult | Awaitable[ElicitResult]]


class Asking:
    """The user's handlers, and what they make us able to do."""

    def __init__(self) -> None:
        self.sampling: SamplingHandler | None = None
        self.elicitation: ElicitationHandler | None = None
        self.roots: Sequence[Root] | None = None
        # Who answers everything, as bytes, in the place of the handlers (`client.wire`).
        self.instead: Callable[[str, bytes], Awaitable[bytes]] | None = None

    def capabilities(self) -> dict[str, Json]:
        """What to declare: exactly what there is a handler for."""
        declared: dict[str, Json] = {}
        if self.sampling is not None:
            declared["sampling"] = {}
        if self.elicitation is not None:
            # Both kinds (2025-11-25 client/elicitation); a handler that cannot show a URL declines it.
            declared["elicitation"] = {"form": {}, "url": {}}
        if self.roots is not None:
            declared["roots"] = {"listChanged": True}
        return declared

    async def answer(self, method: str, params: msgspec.Raw | None) -> bytes:
        """The encoded result for a request of a handshake-era server. Raises: McpError with a code."""
        body = b"{}" if params is None else params
        if self.instead is not None:
            return await self.instead(method, bytes(body))
        answer: Body
        if method == "sampling/createMessage" and self.sampling is not None:
            answer = await _called(
                self.sampling, decode(CreateMessageRequestParams, body), CreateMessageResult
            )
        elif method == "elicitation/create" and self.elicitation is not None:
            answer = await _called(self.elicitation, decode(ElicitRequestParams, body), ElicitResult)
        elif method == "roots/list" and self.roots is not None:
            answer = ListRootsResult(roots=list(self.roots))
        else:
            raise JsonRpcError(ErrorCode.METHOD_NOT_FOUND, f"{method} is not handled here")
        return encode_json(answer)

    async def fulfil(self, requests: Mapping[str, InputRequest]) -> dict[str, Body]:
        """The answers to everything a stateless server asks, by its keys, one after the other.

        What a handler raises goes to the caller whose request the server wanted to ask about: in this era an error
        cannot be answered.

        Raises: CapabilityError for what has no handler: the server must not have asked, and is not answered.
        """
        return {key: await self._fulfilled(request) for key, request in requests.items()}

    async def _fulfilled(self, request: InputRequest) -> Body:
        if isinstance(request, CreateMessageRequest) and self.sampling is not None:
            return await _called(self.sampling, request.params, CreateMessageResult)
        if isinstance(request, ElicitRequest) and self.elicitation is not None:
            return await _called(self.elicitation, request.params, ElicitResult)
        if isinstance(request, ListRootsRequest) and self.roots is not None:
            return ListRootsResult(roots=list(self.roots))
        what = request.method or "something without a method"
        refusal = CapabilityError(what, f"the server asks for {what}, which nothing here handles")
        refusal.may_have_run = True  # the request that it asks about has begun
        raise refusal


def check_function(handler: object, what: str) -> None:
    """Refuse at once what could never be called. Raises: UsageError."""
    if not callable(handler):
        raise UsageError(f"{what} takes a function, not {type(handler).__name__}", path=what)


async def _called(handler: Callable[[P], A | Awaitable[A]], params: P, result: type[A]) -> A:
    """What the handler answers, sync or async."""
    answer = handler(params)
    if inspect.isawaitable(answer):
        answer = await answer
    if not isinstance(answer, result):
        raise UsageError(f"a handler must return {result.__name__}, not {type(answer).__name__}")
    return answer
