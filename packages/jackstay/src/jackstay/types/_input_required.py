"""The requests whose result may be `InputRequiredResult`, and the requests and responses inside it (2026-07-28).

For `tools/call`, `prompts/get` and `resources/read`, a server may require input. The client sends the same request
again with `input_responses` and the unchanged `request_state` (2026-07-28, basic/patterns/mrtr). The class of a
request is chosen by `method`, that of a response by its members: only the server knows which request a key belongs to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from jackstay.errors import ProtocolError
from jackstay.types._body import Body, Json, JsonObject, Maybe, OnWire, choose_by, constant
from jackstay.types._elicitation import ElicitRequestFormParams, ElicitRequestParams, ElicitResult
from jackstay.types._json import DECODE_ERRORS, is_object
from jackstay.types._messages import RequestParams, Result, TaskMetadata
from jackstay.types._sampling import CreateMessageRequestParams, CreateMessageResult, ListRootsResult

ElicitParams: TypeAlias = OnWire[ElicitRequestParams, ElicitRequestFormParams, ElicitRequestParams.choose]
# From the wire: undecoded bytes. From Python: an object.
Arguments: TypeAlias = OnWire[msgspec.Raw | JsonObject, msgspec.Raw]


class CreateMessageRequest(Body, frozen=True):
    """`sampling/createMessage` inside an `InputRequiredResult`."""

    params: CreateMessageRequestParams
    method: Literal["sampling/createMessage"] = constant("sampling/createMessage")


class ListRootsRequest(Body, frozen=True):
    """`roots/list` inside an `InputRequiredResult`."""

    params: Maybe[RequestParams] = None
    method: Literal["roots/list"] = constant("roots/list")


class ElicitRequest(Body, frozen=True):
    """`elicitation/create` inside an `InputRequiredResult`."""

    params: ElicitParams
    method: Literal["elicitation/create"] = constant("elicitation/create")


class UnknownRequest(Body, frozen=True):
    """An unknown request inside an `InputRequiredResult`. `raw` is the complete object."""

    method: Maybe[str] = None


# A request inside an `InputRequiredResult`.
InputRequest: TypeAlias = CreateMessageRequest | ListRootsRequest | ElicitRequest | UnknownRequest

# By keys that the server chooses.
InputRequests: TypeAlias = Mapping[str, InputRequest]

# The response to an `InputRequest`; `Result` if its kind is unknown.
InputResponse: TypeAlias = CreateMessageResult | ListRootsResult | ElicitResult | Result

# By the server's keys.
InputResponses: TypeAlias = Mapping[str, InputResponse]

# A required member that only this result has.
RESPONSES: dict[str, type[Body]] = {"action": ElicitResult, "roots": ListRootsResult, "model": CreateMessageResult}


def choose_response(members: dict[str, Json]) -> type[Body]:
    """Return the class by the member that only one of them has."""
    return next((cls for name, cls in RESPONSES.items() if name in members), Result)


InputRequestField: TypeAlias = OnWire[InputRequest, ElicitRequest, choose_by("method", InputRequest, UnknownRequest)]
InputResponseField: TypeAlias = OnWire[InputResponse, ElicitResult, choose_response]


class InputRequiredResult(Result, frozen=True, kw_only=True):
    """The server requires input first (2026-07-28). At least one of the two members is present."""

    result_type: Literal["input_required"] = constant("input_required")
    input_requests: Maybe[Mapping[str, InputRequestField]] = None
    request_state: Maybe[str] = None

    def __post_init__(self) -> None:
        if self.input_requests is None and self.request_state is None:
            raise ValueError("InputRequiredResult needs 'inputRequests' or 'requestState'")


class InputResponseRequestParams(RequestParams, frozen=True, kw_only=True):
    """Params of a request that may require input. Both members since 2026-07-28."""

    input_responses: Maybe[Mapping[str, InputResponseField]] = None
    # The server's value, unchanged; absent if it sent none.
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

    The arguments are not decoded with the rest: a server decodes them once, into the tool's parameter types.
    """

    name: str
    # From the wire: undecoded bytes, a view of the frame (which these params keep alive). From Python: an object.
    arguments_json: Maybe[Arguments] = msgspec.field(default=None, name="arguments")
    # 2025-11-25 only.
    task: Maybe[TaskMetadata] = None

    def __post_init__(self) -> None:
        # msgspec does not check what it leaves undecoded.
        if isinstance(self.arguments_json, msgspec.Raw) and not is_object(self.arguments_json):
            raise ValueError("the arguments are not an object")

    @property
    def arguments(self) -> JsonObject:
        """The arguments as an object, decoded on every access; empty if there are none.

        Raises:
            ProtocolError: a number exceeds Python's limits.
        """
        if not isinstance(self.arguments_json, msgspec.Raw):
            return {} if self.arguments_json is None else self.arguments_json
        try:
            arguments: JsonObject = _decode_object(self.arguments_json)
        except DECODE_ERRORS as error:
            raise ProtocolError(f"cannot decode the arguments: {error}", path="$.arguments", code=-32602) from error
        return arguments
