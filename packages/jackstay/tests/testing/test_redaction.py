"""Redaction of members by name, at any depth."""

import json
from typing import Any

import pytest

from jackstay.errors import UsageError
from jackstay.testing._redaction import REDACTED, Redaction


def redacted(message: Any, *names: str) -> Any:
    frame = Redaction(names).of_frame(json.dumps(message).encode())
    assert frame is not None
    return json.loads(frame)


# Names, message, redacted message.
ROWS = [
    (["token"], {"params": {"token": "x"}}, {"params": {"token": REDACTED}}),
    (["token"], {"params": {"a": [{"token": {"deep": 1}}]}}, {"params": {"a": [{"token": {}}]}}),
    (["content"], {"result": {"content": [{"text": "x"}]}}, {"result": {"content": []}}),
    (["token"], {"result": {"token": None}}, {"result": {"token": REDACTED}}),
    (["token"], {"error": {"data": {"token": 1}}}, {"error": {"data": {"token": REDACTED}}}),
    (["method"], {"method": "x", "params": {}}, {"method": "x", "params": {}}),
    (["token"], [{"params": {"token": 1}}], [{"params": {"token": REDACTED}}]),
    (["token"], {"params": {"Token": 1}}, {"params": {"Token": 1}}),
    (["token"], {"id": 1, "token": "x", "result": {}}, {"id": 1, "token": REDACTED, "result": {}}),
    # JSON inside a string, at any depth of strings
    (["token"], {"result": {"text": '{"token": "x", "n": 1}'}}, {"result": {"text": '{"token":"[redacted]","n":1}'}}),
    (["token"], {"result": {"text": ' [{"token" : ["x"]}]'}}, {"result": {"text": '[{"token":[]}]'}}),
    (
        ["token"],
        {"params": {"a": json.dumps({"b": json.dumps({"token": "x"})})}},
        {"params": {"a": json.dumps({"b": '{"token":"[redacted]"}'}, separators=(",", ":"))}},
    ),
    (["token"], {"params": {"a": '{"t\\u006fken": "x"}'}}, {"params": {"a": '{"token":"[redacted]"}'}}),
    # strings that look like JSON but are invalid
    (["token"], {"result": {"text": '{"token": "x"}\n{"token": "y"}'}}, {"result": {"text": REDACTED}}),
    (["token"], {"result": {"text": '{"token": "x'}}, {"result": {"text": REDACTED}}),
    (["token"], {"result": {"text": '{"token": "x', "token": 1}}, {"result": {"text": REDACTED, "token": REDACTED}}),
    # other text is unchanged, except beside redacted structured content
    (
        ["token"],
        {"result": {"text": 'the "token": x', "token": 1}},
        {"result": {"text": 'the "token": x', "token": REDACTED}},
    ),
    (
        ["token"],
        {
            "result": {
                "content": [{"type": "text", "text": "it is x"}, {"type": "image", "data": "y"}],
                "structuredContent": {"a": [{"token": "x"}]},
            }
        },
        {
            "result": {
                "content": [{"type": "text", "text": REDACTED}, {"type": "image", "data": "y"}],
                "structuredContent": {"a": [{"token": REDACTED}]},
            }
        },
    ),
    (
        ["token"],
        {
            "result": {
                "content": [{"type": "text", "text": "it is x"}],
                "structuredContent": {"a": 1},
                "_meta": {"token": 1},
            }
        },
        {
            "result": {
                "content": [{"type": "text", "text": "it is x"}],
                "structuredContent": {"a": 1},
                "_meta": {"token": REDACTED},
            }
        },
    ),
]


def test_values_are_replaced_at_any_depth() -> None:
    for names, message, written in ROWS:
        assert redacted(message, *names) == written, message


def test_redacted_values_are_equal_whatever_their_type() -> None:
    """A request matches although a secret was recorded as a string and is now an object."""
    redaction = Redaction(["token"])
    assert redaction.of({"token": {"deep": 1}}) == redaction.of({"token": "x"}) == {"token": REDACTED}


def test_schemas_are_not_redacted() -> None:
    """A schema has no secrets, and without it a client could not call the tool."""
    tools = {"result": {"tools": [{"name": "login", "inputSchema": {"properties": {"password": {"type": "string"}}}}]}}
    assert redacted(tools, "password") == tools


def test_a_message_without_the_name_is_the_same_bytes() -> None:
    frame = b'{"params": {"other" : 1.0}}'
    assert Redaction(["token"]).of_frame(frame) is frame
    assert Redaction().of_frame(b'{"params":{"token":1}}') == b'{"params":{"token":1}}'
    text = b'{"params": {"text" : "token"}}'
    assert Redaction(["token"]).of_frame(text) is text, "a value is not a name"


def test_a_name_that_is_spelled_with_escapes_is_found() -> None:
    frame = Redaction(["token"]).of_frame(rb'{"params":{"t\u006fken":"secret"}}')
    assert frame == b'{"params":{"token":"[redacted]"}}'


def test_a_frame_that_cannot_be_decoded_is_not_kept() -> None:
    frame = b'{"params":{"token":1,"n":' + b"9" * 5000 + b"}}"
    assert Redaction(["token"]).of_frame(frame) is None


@pytest.mark.parametrize("names", ["token", ["", "x"], [1]])
def test_invalid_names_are_rejected(names: Any) -> None:
    with pytest.raises(UsageError, match="redact must be a list"):
        Redaction(names)


@pytest.mark.parametrize(
    "frame",
    [
        b'{"params":{"token":"SECRET","token":"[redacted]"}}',
        b'{"params":{"a":{"token":"SECRET"},"a":1}}',
        b'{"params":{"token":"SECRET"},"params":{}}',
        rb'{"params":{"t\u006fken":"SECRET"},"params":{}}',
        rb'{"params":{"a":"{\"token\":\"SECRET\",\"token\":\"[redacted]\"}"}}',
        rb'{"params":{"a":"{\"token\" \n : \"SECRET\"}"},"params":{}}',
    ],
)
def test_of_duplicate_members_only_the_last_is_written(frame: bytes) -> None:
    written = Redaction(["token"]).of_frame(frame)
    assert written is not None
    assert b"SECRET" not in written


def test_a_name_with_escapes_is_found_inside_strings() -> None:
    name = 'a"b'
    message = {"params": {"x": json.dumps({"y": json.dumps({name: "SECRET"})})}}
    written = Redaction([name]).of_frame(json.dumps(message).encode())
    assert written is not None
    assert b"SECRET" not in written


def test_json_inside_a_string_is_compared_as_it_is_written() -> None:
    redaction = Redaction(["token"])
    for before, now in (("x", "y"), ([1], "y"), ({"deep": 1}, None)):
        written = redaction.of_frame(json.dumps({"params": {"a": json.dumps({"token": before})}}).encode())
        assert written is not None
        assert redaction.of(json.loads(written)["params"]) == redaction.of({"a": json.dumps({"token": now})})


def test_structured_content_repeated_as_text_is_redacted() -> None:
    structured = {"token": "SECRET", "name": "ann"}
    content = [{"type": "text", "text": json.dumps(structured, indent=2)}]
    written = redacted({"result": {"content": content, "structuredContent": structured}}, "token")
    assert "SECRET" not in json.dumps(written)
    assert json.loads(written["result"]["content"][0]["text"])["name"] == "ann"
