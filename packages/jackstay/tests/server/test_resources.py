"""Resources and templates from functions, and the encoding of their contents."""

from typing import Any

import msgspec
import pytest

from jackstay.errors import UsageError
from jackstay.server import Context
from jackstay.server._content import Image
from jackstay.server._problems import InvalidArguments
from jackstay.server._resources import ResourceOptions, resource_from_function
from jackstay.types import (
    Annotations,
    BlobResourceContents,
    InputRequiredResult,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
    decode,
)

NOW, STATELESS = "2025-11-25", "2026-07-28"
URI = "note://1"


def note() -> str:
    """A note."""
    return "text"


def row(table: str, number: int, context: Context, limit: int = 9) -> str:
    """A row."""
    return table


def contents_of(value: Any, options: ResourceOptions | None = None, version: str = NOW) -> dict[str, Any]:
    result: dict[str, Any] = msgspec.json.decode(
        resource_from_function(URI, note, options=options).encode_result(URI, value, version)
    )
    return result


def test_a_resource_from_a_function() -> None:
    resource = resource_from_function(URI, note)
    assert decode(Resource, resource.listed) == Resource(uri=URI, name="note", description="A note.")
    assert (resource.key, resource.template, resource.is_blocking) == (URI, None, True)
    assert resource.bind({}, "C") == ((), {})


def test_a_template_from_a_function() -> None:
    template = resource_from_function("db://{table}/{number}", row)
    body = decode(ResourceTemplate, template.listed)
    assert (body.uri_template, body.name, body.description) == ("db://{table}/{number}", "row", "A row.")
    assert template.template is not None
    variables = template.template.match("db://cities/7")
    assert variables is not None
    assert template.bind(variables, "C") == (("cities", 7, "C", 9), {})
    assert isinstance(template.bind({"table": "a", "number": "x"}, "C"), InvalidArguments)


ALL: dict[str, Any] = {
    "name": "n", "title": "T", "description": "D", "mime_type": "text/x", "annotations": Annotations(priority=1),
    "icons": ["i"], "meta": {"k": 1},
}  # fmt: skip
LISTED: dict[str, Any] = {
    "name": "n", "title": "T", "description": "D", "mimeType": "text/x", "annotations": {"priority": 1},
    "icons": [{"src": "i"}], "_meta": {"k": 1},
}  # fmt: skip


def test_options_override_what_the_function_has() -> None:
    resource = resource_from_function(URI, note, options=ResourceOptions(**ALL, size=3, blocking=False))
    assert msgspec.json.decode(resource.listed) == {"uri": URI, "size": 3, **LISTED}
    assert not resource.is_blocking
    template = resource_from_function("note://{key}", lambda key: key, options=ResourceOptions(**ALL))
    assert msgspec.json.decode(template.listed) == {"uriTemplate": "note://{key}", **LISTED}


def test_allow_traversal() -> None:
    options = ResourceOptions(allow_traversal=True)
    template = resource_from_function("file:///{+path}", lambda path: path, options=options).template
    assert template is not None
    assert template.match("file:///../x") == {"path": "../x"}


def of_segments(path: list[str]) -> str:
    return "/".join(path)


def test_mismatches_and_invalid_uris_are_rejected(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, Any, str]] = [
        ("db://{tabel}/{number}", row, "row has no parameter for the variable 'tabel'"),
        ("db://{table}", row, "row requires the parameter 'number'"),
        ("db://x", row, "row requires the parameter 'table'"),
        ("db://x{/path*}", of_segments, "of_segments: 'path' is a variable of .*, so its type must be str"),
        ("relative", note, "uri must be a URI"),
        ("note://{id", note, "unbalanced braces"),
        ("note://id}", note, "unbalanced braces"),
    ]
    for uri, call, message in cases:
        with subtests.test(uri=uri), pytest.raises(UsageError, match=message):
            resource_from_function(uri, call)


def test_cache_hints_are_checked(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Any, str]] = [
        ({"ttl_ms": -1}, "ttl_ms"),
        ({"ttl_ms": True}, "ttl_ms"),
        ({"cache_scope": "shared"}, "cache_scope"),
    ]
    for options, path in cases:
        with subtests.test(options=options, path=path):
            with pytest.raises(UsageError) as caught:
                ResourceOptions(**options)
            assert caught.value.path == path


TEXT = TextResourceContents(uri="note://2", text="two")
BLOB = BlobResourceContents(uri="note://3", blob="AA==")

CONTENTS: list[tuple[Any, list[dict[str, Any]]]] = [
    ("text", [{"uri": URI, "mimeType": "text/plain", "text": "text"}]),
    (b"\0", [{"uri": URI, "mimeType": "application/octet-stream", "blob": "AA=="}]),
    (Image(b"\0"), [{"uri": URI, "mimeType": "image/png", "blob": "AA=="}]),
    ({"a": None}, [{"uri": URI, "mimeType": "application/json", "text": '{"a":null}'}]),
    ([], [{"uri": URI, "mimeType": "application/json", "text": "[]"}]),
    (["a"], [{"uri": URI, "mimeType": "application/json", "text": '["a"]'}]),
    (TEXT, [{"uri": "note://2", "text": "two"}]),
    ([TEXT, BLOB], [{"uri": "note://2", "text": "two"}, {"uri": "note://3", "blob": "AA=="}]),
    (ReadResourceResult(contents=[TEXT]), [{"uri": "note://2", "text": "two"}]),
]


def test_contents_of_returned_values(subtests: pytest.Subtests) -> None:
    for value, expected in CONTENTS:
        with subtests.test(value=value, expected=expected):
            assert contents_of(value) == {"contents": expected}


def test_an_explicit_mime_type_is_used() -> None:
    options = ResourceOptions(mime_type="text/markdown")
    for value in ("text", b"\0", {}):
        assert contents_of(value, options)["contents"][0]["mimeType"] == "text/markdown"


def test_cache_hints_are_sent_only_in_the_stateless_era() -> None:
    options = ResourceOptions(ttl_ms=5, cache_scope="public")
    result = contents_of("a", options, STATELESS)
    assert (result["ttlMs"], result["cacheScope"]) == (5, "public")
    assert contents_of("a", None, STATELESS)["ttlMs"] == 0
    own = ReadResourceResult(contents=[], ttl_ms=7, cache_scope="private")
    assert contents_of(own, options, STATELESS) == {"contents": [], "ttlMs": 7, "cacheScope": "private"}
    assert contents_of(own, options, NOW) == {"contents": []}


def test_an_input_required_result_is_sent_unchanged() -> None:
    result = InputRequiredResult(request_state="s")
    assert contents_of(result, None, STATELESS) == {"resultType": "input_required", "requestState": "s"}


def test_values_without_a_json_form_are_rejected() -> None:
    with pytest.raises(UsageError, match="complex"):
        contents_of(1j)
    with pytest.raises(UsageError, match="surrogate"):
        contents_of("\ud800")
