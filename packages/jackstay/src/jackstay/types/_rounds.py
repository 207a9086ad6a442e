"""The three requests that may be answered with a question, and the questions and answers inside them (2026-07-28).

`tools/call`, `prompts/get` and `resources/read` may come back as `InputRequiredResult`; the client fulfils what it
asks and sends the same request again with `input_responses` and the `request_state` it was given, byte for byte
(basic/patterns/mrtr). Requests inside are chosen by `method`, responses by what is in them: a response does not say
which request it answers, its key does, and only the server that gave the key can check the two against each other.

Above: `_tasks`, `_results`, clients and servers. Below: everything about a single feature.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec

from jackstay.errors import ProtocolError
from jackstay.types._body import Body, Json, JsonObject, Maybe, Unparsed, constant, one_of
from jackstay.types._elicitation import ElicitRequestFormParams, ElicitRequestParams, ElicitResult
from jackstay.types._messages import RequestParams, Result, TaskMetadata
from jackstay.types._sampling import CreateMessageRequestParams, CreateMessageResult, ListRootsResult

if TYPE_CHECKING:
    ElicitParams: TypeAlias = ElicitRequestParams
    # Bytes as they came, or the object that you pass.
    Arguments: TypeAlias = msgspec.Raw | JsonObject
else:
    ElicitParams = one_of(ElicitRequestParams.choose, ElicitRequestFormParams)
    Arguments = Annotated[msgspec.Raw, Unparsed()]


class CreateMessageRequest(Body, frozen=True):
    """`sampling/createMessage`, asked inside a result."""

    params: CreateMessageRequestParams
    method: Literal["sampling/createMessage"] = constant("sampling/createMessage")


class ListRootsRequest(Body, frozen=True):
    """`roots/list`, asked inside a result."""

    params: Maybe[RequestParams] = None
    method: Literal["roots/list"] = constant("roots/list")


class ElicitRequest(Body, frozen=True):
    """`elicitation/create`, asked inside a result."""

    params: ElicitParams
    method: Literal["elicitation/create"] = constant("elicitation/create")


class UnknownRequest(Body, frozen=True):
    """Something asked that is not known here. `raw` is all of it; whoever cannot answer it cannot go on."""

    method: Maybe[str] = None


# What a server may ask inside a result.
InputRequest: TypeAlias = CreateMessageRequest | ListRootsRequest | ElicitRequest | UnknownRequest

# All that it asks, by keys of its own.
InputRequests: TypeAlias = Mapping[str, InputRequest]

# What a client may answer. `Result` itself is an answer of no known shape.
InputResponse: TypeAlias = CreateMessageResult | ListRootsResult | ElicitResult | Result

# All that it answers, by the server's keys.
InputResponses: TypeAlias = Mapping[str, InputResponse]

REQUESTS: dict[Json, type[Body]] = {
    "sampling/createMessage": CreateMessageRequest,
    "roots/list": ListRootsRequest,
    "elicitation/create": ElicitRequest,
}

# A member that only this answer has; each schema demands it.
RESPONSES: dict[str, type[Body]] = {
    "action": ElicitResult,
    "roots": ListRootsResult,
    "model": CreateMessageResult,
}


def choose_request(members: dict[str, Json]) -> type[Body]:
    """By `method`."""
    method = members.get("method")
    return REQUESTS.get(method, UnknownRequest) if isinstance(method, str) else UnknownRequest


def choose_response(members: dict[str, Json]) -> type[Body]:
    """By the member that only one of them has."""
    return next((cls for name, cls in RESPONSES.items() if name in members), Result)


if TYPE_CHECKING:
    Question: TypeAlias = InputRequest
    Answer: TypeAlias = InputResponse
else:
    Question = one_of(choose_request, ElicitRequest)
    Answer = one_of(choose_response, ElicitResult)


class InputRequiredResult(Result, frozen=True, kw_only=True):
    """The server needs answers first (2026-07-28). At least one of the two members is there."""

    result_type: Literal["input_required"] = constant("input_required")
    input_requests: Maybe[Mapping[str, Question]] = None
    request_state: Maybe[str] = None

    def __post_init__(self) -> None:
        if self.input_requests is None and self.request_state is None:
            raise ValueError("InputRequiredResult needs 'inputRequests' or 'requestState'")


class InputResponseRequestParams(RequestParams, frozen=True, kw_only=True):
    """Params of a request that may take several rounds. Both members since 2026-07-28."""

    input_responses: Maybe[Mapping[str, Answer]] = None
    # Exactly what the server gave, if and only if it gave one.
    request_state: Maybe[str] = None


class ReadResourceRequestParams(InputResponseRequestParams, frozen=True):
    """Params of `resources/read`."""

    uri: str


class GetPromptRequestParams(InputResponseRequestParams, frozen=True):
    """Params of `prompts/get`."""

    name: str
    arguments: Maybe[Mapping[str, str]] = None


_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


class CallToolRequestParams(InputResponseRequestParams, frozen=True):
    """Params of `tools/call`.

    The arguments are not decoded with the rest: a server decodes them once, into what the tool takes.
    """

    name: str
    # From the wire: its bytes, a view of the frame; whoever keeps these params keeps the frame. From you: an object.
    arguments_json: Maybe[Arguments] = msgspec.field(default=None, name="arguments")
    # 2025-11-25 only.
    task: Maybe[TaskMetadata] = None

    @property
    def arguments(self) -> JsonObject:
        """The arguments as an object, decoded at each call; empty if there are none.

        Raises:
            ProtocolError: for a number beyond the limits of Python's, which only decoding finds.
        """
        if not isinstance(self.arguments_json, msgspec.Raw):
            return {} if self.arguments_json is None else self.arguments_json
        try:
            arguments: JsonObject = _decode_object(self.arguments_json)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ProtocolError(
                f"the arguments cannot be decoded ({error})", path="$.arguments", code=-32602
            ) from error
        return arguments
