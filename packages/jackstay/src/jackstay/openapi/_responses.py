"""Responses: the output schema of an operation, and the result of a tool for an HTTP response. No I/O."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from jackstay.errors import Json
from jackstay.openapi._document import Document, Node, Object
from jackstay.openapi._parameters import is_json
from jackstay.openapi._problems import join
from jackstay.openapi._schemas import Place, Schemas
from jackstay.types import (
    DECODE_ERRORS,
    WRAPPED,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    TextContent,
    TextResourceContents,
)

# Headers that are never shown to a caller, because they may contain credentials.
_SECRET_HEADERS = frozenset(("set-cookie", "set-cookie2", "www-authenticate", "proxy-authenticate", "authorization"))
# How much of the body of an error is shown.
MAX_ERROR_BYTES = 4096
_RESULT = "result"


class Response(msgspec.Struct, frozen=True):
    """A complete HTTP response. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def media_type(self) -> str:
        """The media type, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class Output(msgspec.Struct, frozen=True):
    """The output schema of an operation. `is_wrapped`: the body of the response is the member `result`."""

    schema: Object
    is_wrapped: bool


# --- the output schema ------------------------------------------------------------------------------------------------


def read_output(document: Document, operation: Node, schemas: Schemas) -> Output | None:
    """Return the output schema of an operation; None unless all successful responses are JSON with a schema.

    Raises: OpenApiError.
    """
    places: dict[str, Place] = {}
    has_empty = False
    for response in _successes(document, operation):
        content = document.member(response, "content")
        if not content.value:
            has_empty = True
            continue
        media_type = next((name for name in content.value if is_json(name)), None)
        media = document.member(content, media_type or "")
        if media_type is None or media.value.get("schema") in (None, {}, True):
            return None
        places[join(media.pointer, "schema")] = (media.value["schema"], join(media.pointer, "schema"))
    if not places:
        return None
    objects = {name for name, place in places.items() if _refers_to_object(document, place)}
    is_wrapped: list[bool] = []

    def combine(translated: Mapping[str, Json]) -> Object:
        options: list[Json] = []
        for place, schema in translated.items():
            if place in objects and isinstance(schema, dict):
                schema = {"type": "object", **schema}  # noqa: PLW2901  # a recursive object is only a `$ref`
            if schema not in options:
                options.append(schema)
        is_wrapped.append(len(options) > 1 or has_empty or not _is_object(options[0]))
        if not is_wrapped[-1]:
            assert isinstance(options[0], dict)
            return dict(options[0])
        if has_empty:
            options.append({"type": "null"})
        inner: Json = options[0] if len(options) == 1 else {"anyOf": options}
        return {"type": "object", "properties": {_RESULT: inner}, "required": [_RESULT], WRAPPED: True}

    schema = schemas.translate(places, combine, join(operation.pointer, "responses"))
    return Output(schema, is_wrapped[-1])


def _refers_to_object(document: Document, place: Place) -> bool:
    value, pointer = place
    return isinstance(value, dict) and document.resolve(Node(value, pointer)).value.get("type") == "object"


def _is_object(schema: Json) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "object"


def _successes(document: Document, operation: Node) -> list[Node]:
    responses = dict(document.members(document.member(operation, "responses")))
    found = [node for status, node in responses.items() if status[:1] == "2" and status != "202"]
    found = found or [node for status, node in responses.items() if status[:1] == "2"]
    return found or [node for status, node in responses.items() if status == "default"]


# --- the result -------------------------------------------------------------------------------------------------------


def tool_result(response: Response, output: Output | None, method: str) -> CallToolResult:
    """Return the result of a tool. A status of 300 or more is a tool error with the status and a part of the body.

    If there is an output schema, the structured content has its shape, but is not validated here.
    """
    if response.status >= 300:
        return error_result(f"HTTP {response.status}", response)
    if method == "HEAD":
        shown: Json = {name: value for name, value in response.headers.items() if name not in _SECRET_HEADERS}
        return _structured({"status": response.status, "headers": shown})
    value: Any = None
    if response.body and (is_json(response.media_type) or (output is not None and not response.media_type)):
        try:
            value = msgspec.json.decode(response.body)
        except DECODE_ERRORS as error:
            return error_result(f"HTTP {response.status}, but the body is not valid JSON: {error}", response)
    elif response.body:
        if output is not None:
            kind = response.media_type or "no media type"
            return error_result(f"HTTP {response.status} with {kind} instead of JSON", response)
        return CallToolResult(content=[_block(response)])
    elif output is None:
        return CallToolResult(content=[TextContent(text=f"HTTP {response.status}, no content")])
    if output is not None and output.is_wrapped:
        return _structured({_RESULT: value}, value)
    if not isinstance(value, dict):
        if output is not None:
            return error_result(f"HTTP {response.status}, but the body is not an object", response)
        return CallToolResult(content=[_json_block(value)])
    return _structured(value)


def _structured(value: Object, shown: Any = msgspec.UNSET) -> CallToolResult:
    return CallToolResult(content=[_json_block(value if shown is msgspec.UNSET else shown)], structured_content=value)


def _json_block(value: Any) -> TextContent:
    return TextContent(text=value if isinstance(value, str) else msgspec.json.encode(value).decode())


def error_result(message: str, response: Response | None = None) -> CallToolResult:
    """Return a tool error, with the beginning of the body of a response."""
    if response is not None and response.body:
        shown = response.body[:MAX_ERROR_BYTES].decode(errors="replace")
        is_cut = len(response.body) > MAX_ERROR_BYTES
        message = f"{message}\n{shown}{' [cut]' if is_cut else ''}"
    return CallToolResult(content=[TextContent(text=message)], is_error=True)


def _block(response: Response) -> ContentBlock:
    """Return the content block for a body that is not JSON."""
    kind = response.media_type
    encoded = msgspec.json.encode(response.body).decode()[1:-1]  # base64
    if kind.startswith("image/") and kind != "image/svg+xml":
        return ImageContent(data=encoded, mime_type=kind)
    if kind.startswith("audio/"):
        return AudioContent(data=encoded, mime_type=kind)
    text = _text(response)
    if text is not None:
        return TextContent(text=text)
    contents = BlobResourceContents(uri="response:body", mime_type=kind or None, blob=encoded)
    return EmbeddedResource(resource=contents)


def _text(response: Response) -> str | None:
    """Return the body as text; None if it is binary."""
    kind = response.media_type
    is_named = kind.startswith("text/") or kind.endswith(("+xml", "/xml", "yaml", "javascript")) or is_json(kind)
    if not is_named and kind:
        return None
    charset = response.headers.get("content-type", "").partition("charset=")[2].partition(";")[0].strip(' "')
    try:
        return response.body.decode(charset or "utf-8", errors="replace" if is_named else "strict")
    except LookupError:
        return response.body.decode(errors="replace")
    except UnicodeDecodeError:
        return None


def resource_contents(response: Response, uri: str) -> Sequence[TextResourceContents | BlobResourceContents]:
    """Return the contents of a resource for a successful response."""
    text = _text(response)
    kind = response.media_type or None
    if text is not None:
        return [TextResourceContents(uri=uri, mime_type=kind, text=text)]
    blob = msgspec.json.encode(response.body).decode()[1:-1]
    return [BlobResourceContents(uri=uri, mime_type=kind, blob=blob)]
