"""Request bodies: the chosen media type, the argument, and the bytes that are sent."""

import json
from email.parser import BytesParser
from typing import Any
from urllib.parse import parse_qsl

import pytest

from jackstay.openapi import build_request
from jackstay.openapi._bodies import FILE_SCHEMA
from jackstay.openapi._parameters import BadArgumentError
from scripted.openapi_documents import document, parameter, posting, read_one, read_problem

OBJECT = {"type": "object", "properties": {"a": {"type": "string"}}}


def send(content: dict[str, Any], value: Any, version: str = "3.1.0") -> tuple[str, bytes]:
    made = build_request(read_one(posting(content, version)), {"body": value})
    assert made.body is not None
    return dict(made.headers)["Content-Type"], made.body


def parts(content: dict[str, Any], value: Any) -> list[tuple[dict[str, str], bytes]]:
    """The parts of a multipart body, read by the standard library."""
    content_type, body = send(content, value)
    message = BytesParser().parsebytes(f"Content-Type: {content_type}\r\n\r\n".encode() + body)
    found = message.get_payload()
    assert isinstance(found, list)
    return [(dict(part.items()), part.get_payload(decode=True)) for part in found]  # type: ignore[union-attr,misc]


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ({"application/xml": {}, "application/json": {}}, "json"),
        ({"application/vnd.api+json": {}, "text/plain": {}}, "json"),
        ({"*/*": {}}, "json"),
        ({"multipart/form-data": {}, "application/x-www-form-urlencoded": {}}, "form"),
        ({"multipart/form-data": {}}, "multipart"),
        ({"application/xml": {}}, "text"),
        ({"image/png": {}}, "binary"),
    ],
)
def test_the_media_type_that_is_chosen(content: dict[str, Any], kind: str) -> None:
    body = read_one(posting(content)).body
    assert body is not None
    assert body.kind == kind


def test_json() -> None:
    assert send({"application/json": {"schema": OBJECT}}, {"a": "é"}) == ("application/json", '{"a":"é"}'.encode())
    assert send({"application/merge-patch+json": {}}, None) == ("application/merge-patch+json", b"null")
    assert send({"*/*": {}}, [1]) == ("application/json", b"[1]")


def test_text() -> None:
    assert send({"text/plain": {}}, "é") == ("text/plain; charset=utf-8", "é".encode())
    assert send({"application/xml": {"schema": OBJECT}}, "<a/>") == ("application/xml; charset=utf-8", b"<a/>")
    assert send({"text/*": {}}, 3) == ("text/plain; charset=utf-8", b"3")
    assert read_one(posting({"text/plain": {}})).input_schema["properties"] == {"body": {"type": "string"}}


def test_binary() -> None:
    assert send({"application/octet-stream": {}}, {"base64": "AAH/"}) == ("application/octet-stream", b"\0\1\xff")
    assert send({"image/*": {}}, {"base64": "AAE=", "contentType": "image/gif"}) == ("image/gif", b"\0\1")
    assert send({"image/*": {}}, {"base64": "AAE="}) == ("application/octet-stream", b"\0\1")
    assert send({"image/png": {}}, {"text": "x"}) == ("image/png", b"x")
    assert read_one(posting({"image/png": {}})).input_schema["properties"] == {"body": FILE_SCHEMA}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("text", "body: a file must be an object with either 'text' or 'base64'"),
        ({"text": "a", "base64": "b"}, "either 'text' or 'base64'"),
        ({}, "either"),
        ({"text": 1}, "the members of a file must be strings"),
        ({"base64": "???"}, "'base64' is invalid"),
        ({"text": "a", "contentType": "a\r\nb"}, "is not a media type"),
    ],
)
def test_a_bad_file(value: Any, message: str) -> None:
    with pytest.raises(BadArgumentError) as caught:
        send({"application/octet-stream": {}}, value)
    assert message in str(caught.value)


FORM = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("encoding", "value", "expected"),
    [
        ({}, {"a": "x y&z", "n": 1, "b": True, "no": None}, [("a", "x y&z"), ("n", "1"), ("b", "true")]),
        ({}, {"a": ["x", "y"]}, [("a", "x"), ("a", "y")]),
        ({}, {"a": {"k": 1}}, [("a", '{"k":1}')]),
        ({}, {"a": [{"k": 1}, 2]}, [("a", '{"k":1}'), ("a", "2")]),
        ({"a": {"contentType": "application/json"}}, {"a": "x"}, [("a", '"x"')]),
        ({"a": {"explode": False}}, {"a": ["x", "y"]}, [("a", "x,y")]),
        ({"a": {"style": "deepObject"}}, {"a": {"k": {"l": [1]}}}, [("a[k][l][0]", "1")]),
        ({"a": {"style": "pipeDelimited"}}, {"a": ["x", "y"]}, [("a", "x|y")]),
        ({"a": {"allowReserved": True}}, {"a": "x/y"}, [("a", "x/y")]),
    ],
)
def test_forms(encoding: Any, value: Any, expected: Any) -> None:
    content_type, body = send({FORM: {"schema": {"type": "object"}, "encoding": encoding}}, value)
    assert content_type == FORM
    assert parse_qsl(body.decode(), strict_parsing=True) == expected


def test_a_form_must_be_an_object_and_its_styles_are_checked() -> None:
    with pytest.raises(BadArgumentError, match="an object is required"):
        send({FORM: {}}, "x")
    with pytest.raises(BadArgumentError, match="cannot be sent in this style"):
        send({FORM: {"encoding": {"a": {"style": "form"}}}}, {"a": [[1]]})


FILES = {
    "type": "object",
    "required": ["file"],
    "properties": {
        "file": {"type": "string", "format": "binary"},
        "more": {"type": "array", "items": {"$ref": "#/components/schemas/File"}},
        "maybe": {"anyOf": [{"type": "string", "contentMediaType": "application/octet-stream"}, {"type": "null"}]},
        "note": {"type": "string"},
        "extra": {"type": "object"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
}


def multipart(**encoding: Any) -> dict[str, Any]:
    return {"multipart/form-data": {"schema": FILES, "encoding": encoding}}


def test_multipart() -> None:
    root = posting(multipart(), required=True)
    root["components"] = {"schemas": {"File": {"type": "string", "format": "binary"}}}
    operation = read_one(root)
    properties: Any = operation.input_schema["properties"]
    body: Any = properties["body"]
    assert body["properties"]["file"] == body["properties"]["maybe"] == FILE_SCHEMA
    assert body["properties"]["more"] == {"type": "array", "items": FILE_SCHEMA}
    assert body["required"] == ["file"]
    assert operation.input_schema["required"] == ["body"]


def test_the_parts_of_a_multipart_body() -> None:
    content = {
        "multipart/form-data": {
            "schema": {
                **FILES,
                "properties": {**FILES["properties"], "more": {"type": "array", "items": {"format": "binary"}}},
            },
            "encoding": {"note": {"contentType": "text/markdown"}, "maybe": {"contentType": "image/png, image/gif"}},
        }
    }
    value = {
        "file": {"text": "a\r\nb", "filename": 'x"\r\n.txt'},
        "more": [{"base64": "AAH/"}, {"base64": "AAE=", "contentType": "image/png"}],
        "maybe": None,
        "note": "hé",
        "extra": {"k": 1},
        "tags": ["a", "b"],
    }
    found = parts(content, value)
    assert found == [
        (
            {
                "Content-Disposition": 'form-data; name="file"; filename="x%22%0D%0A.txt"',
                "Content-Type": "text/plain; charset=utf-8",
            },
            b"a\r\nb",
        ),
        (
            {
                "Content-Disposition": 'form-data; name="more"; filename="more"',
                "Content-Type": "application/octet-stream",
            },
            b"\0\1\xff",
        ),
        ({"Content-Disposition": 'form-data; name="more"; filename="more"', "Content-Type": "image/png"}, b"\0\1"),
        ({"Content-Disposition": 'form-data; name="note"', "Content-Type": "text/markdown"}, "hé".encode()),
        ({"Content-Disposition": 'form-data; name="extra"', "Content-Type": "application/json"}, b'{"k":1}'),
        ({"Content-Disposition": 'form-data; name="tags"'}, b"a"),
        ({"Content-Disposition": 'form-data; name="tags"'}, b"b"),
    ]
    assert send(content, value) == send(content, value), "equal requests have equal bytes"


def test_a_part_has_a_style_since_31() -> None:
    schema = {"properties": {"a": {"type": "object"}, "b": {"type": "array", "items": {"type": "string"}}}}
    encoding = {"a": {"style": "deepObject"}, "b": {"style": "pipeDelimited", "explode": False}}
    content = {"multipart/form-data": {"schema": schema, "encoding": encoding}}
    value = {"a": {"k ": "é%"}, "b": ["x", "y"]}
    shown = [(head["Content-Disposition"], body) for head, body in parts(content, value)]
    assert shown == [('form-data; name="a[k ]"', "é%".encode()), ('form-data; name="b"', b"x|y")]
    _, body = send(content, value, "3.0.3")
    assert b'{"k ":"\xc3\xa9%"}' in body


def test_the_boundary_does_not_occur_in_the_content() -> None:
    content = {"multipart/form-data": {"schema": {"properties": {"a": {"type": "string"}}}}}
    content_type, _ = send(content, {"a": "x"})
    boundary = content_type.partition("boundary=")[2]
    assert parts(content, {"a": boundary}) == [({"Content-Disposition": 'form-data; name="a"'}, boundary.encode())]


def test_properties_of_allof_are_found_and_alternatives_are_left_alone() -> None:
    files = {**FILES, "properties": {"file": {"type": "string", "format": "binary"}}}
    joined = {"allOf": [files, {"properties": {"b": {"type": "integer"}}, "required": ["b"]}]}
    body = read_one(posting({"multipart/form-data": {"schema": joined}}, "3.0.0")).body
    assert body is not None
    assert body.files >= {"file"}
    assert body.required == ("file", "b")
    other = read_one(posting({"multipart/form-data": {"schema": {"allOf": [{"anyOf": [files]}]}}}, "3.0.0")).body
    assert other is not None
    assert other.properties == {}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"multipart/mixed": {}}, "the body has no supported media type: 'multipart/mixed'"),
        ({}, "no supported media type: no media type"),
        ({"multipart/form-data": {"schema": {"properties": []}}}, "properties must be an object with schemas"),
        ({FORM: {"encoding": {"a": {"style": "simple"}}}}, "style must be one of 'form'"),
        ({FORM: {"encoding": {"a": {"contentType": "a\r\nb"}}}}, "is not a media type"),
        ({FORM: {"schema": {"properties": {"a": 3}}}}, "a schema must be an object, not int"),
    ],
)
def test_a_body_that_cannot_be_served(content: dict[str, Any], message: str) -> None:
    problem = read_problem(posting(content))
    assert message in str(problem)
    assert "POST /things" in str(problem)


def test_a_body_beside_a_parameter_of_that_name() -> None:
    root = document(
        {
            "/x": {
                "put": {
                    "parameters": [parameter("body")],
                    "requestBody": {"content": {"application/json": {}}},
                    "responses": {},
                }
            }
        }
    )
    made = build_request(read_one(root), {"body_query": "q", "body_body": 1})
    assert (made.target, made.body) == ("/x?body=q", b"1")


def test_an_optional_body_may_be_absent_and_a_required_one_may_not() -> None:
    optional = read_one(posting({"text/plain": {}}))
    assert build_request(optional, {}).body is None
    assert build_request(optional, {"body": None}).body is None
    with pytest.raises(BadArgumentError, match="body: a value is required"):
        build_request(read_one(posting({"text/plain": {}}, required=True)), {})


def test_a_get_has_no_body() -> None:
    root = document({"/x": {"get": {"requestBody": {"content": {"application/json": {}}}, "responses": {}}}})
    assert read_one(root).body is None
    assert json.dumps(read_one(root).input_schema["properties"]) == "{}"
