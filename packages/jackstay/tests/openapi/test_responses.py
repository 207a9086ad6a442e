"""Output schemas, and results for responses."""

import base64
from typing import Any

import pytest

from jackstay.openapi import Output, Response, resource_contents
from jackstay.openapi._responses import MAX_ERROR_BYTES, tool_result
from jackstay.types import (
    AudioContent,
    BlobResourceContents,
    EmbeddedResource,
    ImageContent,
    TextContent,
    TextResourceContents,
)
from scripted.openapi_documents import document, get, read_one

PET = {"type": "object", "properties": {"id": {"type": "integer"}}}


def content(schema: Any, media_type: str = "application/json") -> dict[str, Any]:
    return {"description": "", "content": {media_type: {"schema": schema}}}


def output(**responses: Any) -> Output | None:
    named = {name.lstrip("_"): response for name, response in responses.items()}
    return read_one(document({"/x": get(responses=named)})).output


def wrapped(schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"result": schema}, "required": ["result"], "x-fastmcp-wrap-result": True}


EMPTY = {"description": "no content"}


@pytest.mark.parametrize(
    ("responses", "schema"),
    [
        ({"_200": content(PET)}, PET),
        ({"_200": content(PET), "_201": content(PET), "_404": content({"type": "string"})}, PET),
        ({"_2XX": content(PET), "default": content({})}, PET),
        ({"default": content(PET)}, PET),
        ({"_200": content(PET), "_202": EMPTY}, PET),
        ({"_202": content(PET)}, PET),
        ({"_200": content(PET, "application/vnd.x+json; charset=utf-8")}, PET),
        ({"_200": content({"type": "array", "items": PET})}, wrapped({"type": "array", "items": PET})),
        ({"_200": content(PET), "_204": EMPTY}, wrapped({"anyOf": [PET, {"type": "null"}]})),
        ({"_200": content(PET), "_201": content({"type": "string"})}, wrapped({"anyOf": [PET, {"type": "string"}]})),
    ],
)
def test_the_output_schema(responses: dict[str, Any], schema: Any) -> None:
    found = output(**responses)
    assert found is not None
    assert found.schema == schema
    assert found.is_wrapped is (schema is not PET)


@pytest.mark.parametrize(
    "responses",
    [
        {},
        {"_204": EMPTY},
        {"_404": content(PET)},
        {"_200": content({})},
        {"_200": {"content": {"application/json": {}}}},
        {"_200": content(PET), "_201": content({"type": "string"}, "text/plain")},
    ],
)
def test_no_output_schema(responses: dict[str, Any]) -> None:
    assert output(**responses) is None


def respond(body: bytes, media_type: str = "application/json", status: int = 200) -> Response:
    return Response(status, {"content-type": media_type, "set-cookie": "s"} if media_type else {}, body)


PLAIN, WRAPPED = Output(PET, False), Output(wrapped({}), True)


@pytest.mark.parametrize(
    ("response", "shape", "structured", "text"),
    [
        (respond(b'{"id": 1}'), PLAIN, {"id": 1}, '{"id":1}'),
        (respond(b'{"id": 1}'), None, {"id": 1}, '{"id":1}'),
        (respond(b'{"id": 1}', ""), PLAIN, {"id": 1}, '{"id":1}'),
        (respond(b"[1]"), WRAPPED, {"result": [1]}, "[1]"),
        (respond(b'"x"'), WRAPPED, {"result": "x"}, "x"),
        (respond(b"[1]"), None, None, "[1]"),
        (respond(b"", status=204), WRAPPED, {"result": None}, "null"),
        (respond(b"", status=204), None, None, "HTTP 204, no content"),
        (respond(b"hi", "text/plain"), None, None, "hi"),
        (respond(b"<a/>", "image/svg+xml"), None, None, "<a/>"),
        (respond(b"\xe9", "text/plain; charset=latin-1"), None, None, "é"),
        (respond(b"a\xff", "text/plain; charset=nonsense"), None, None, "a\ufffd"),
        (respond(b"plain", ""), None, None, "plain"),
    ],
)
def test_a_successful_response(response: Response, shape: Output | None, structured: Any, text: str) -> None:
    result = tool_result(response, shape, "GET")
    assert result.structured_content == structured
    assert result.content == [TextContent(text=text)]
    assert not result.is_error


@pytest.mark.parametrize(
    ("response", "shape", "message"),
    [
        (respond(b'{"detail": "no"}', status=422), PLAIN, 'HTTP 422\n{"detail": "no"}'),
        (respond(b"", status=500), None, "HTTP 500"),
        (respond(b"", status=304), None, "HTTP 304"),
        (respond(b"{"), None, "HTTP 200, but the body is not valid JSON"),
        (respond(b"<html>", "text/html"), PLAIN, "HTTP 200 with text/html instead of JSON\n<html>"),
        (respond(b"[1]"), PLAIN, "HTTP 200, but the body is not an object\n[1]"),
        (respond(b"", status=204), PLAIN, "HTTP 204, but the body is not an object"),
    ],
)
def test_a_response_that_is_a_tool_error(response: Response, shape: Output | None, message: str) -> None:
    result = tool_result(response, shape, "GET")
    assert result.is_error
    assert isinstance(result.content[0], TextContent)
    assert result.content[0].text.startswith(message)


def test_the_body_of_an_error_is_limited() -> None:
    result = tool_result(respond(b"x" * 10_000, "text/plain", 500), None, "GET")
    assert isinstance(result.content[0], TextContent)
    assert result.content[0].text == "HTTP 500\n" + "x" * MAX_ERROR_BYTES + " [cut]"


def test_head_returns_headers_without_secrets() -> None:
    result = tool_result(respond(b"", "text/html"), None, "HEAD")
    assert result.structured_content == {"status": 200, "headers": {"content-type": "text/html"}}


@pytest.mark.parametrize(
    ("media_type", "kind"),
    [
        ("image/png", ImageContent),
        ("audio/wav", AudioContent),
        ("application/zip", EmbeddedResource),
        ("", EmbeddedResource),
    ],
)
def test_binary_responses(media_type: str, kind: type) -> None:
    (block,) = tool_result(respond(b"\0\xff", media_type), None, "GET").content
    assert isinstance(block, kind)
    data = block.resource.blob if isinstance(block, EmbeddedResource) else block.data  # type: ignore[union-attr]
    assert base64.b64decode(data) == b"\0\xff"


def test_contents_of_a_resource() -> None:
    assert resource_contents(respond(b"{}"), "a:b") == [
        TextResourceContents(uri="a:b", mime_type="application/json", text="{}")
    ]
    blob = BlobResourceContents(uri="a:b", mime_type="image/png", blob="AP8=")
    assert resource_contents(respond(b"\0\xff", "image/png"), "a:b") == [blob]
