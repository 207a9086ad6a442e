"""What is not written: the values of members with certain names, at any depth, and nothing else."""

import json
from typing import Any

import pytest

from mooring.errors import UsageError
from mooring.testing._redaction import REDACTED, Redaction


def redacted(message: Any, *names: str) -> Any:
    frame = Redaction(names).of_frame(json.dumps(message).encode())
    assert frame is not None
    return json.loads(frame)


# names, message, what is written
ROWS = [
    (["token"], {"params": {"token": "x"}}, {"params": {"token": REDACTED}}),
    (["token"], {"params": {"a": [{"token": {"deep": 1}}]}}, {"params": {"a": [{"token": {}}]}}),
    (["content"], {"result": {"content": [{"text": "x"}]}}, {"result": {"content": []}}),
    (["token"], {"result": {"token": None}}, {"result": {"token": REDACTED}}),
    (["token"], {"error": {"data": {"token": 1}}}, {"error": {"data": {"token": REDACTED}}}),
    (["method"], {"method": "x", "params": {}}, {"method": "x", "params": {}}),
    (["token"], [{"params": {"token": 1}}], [{"params": {"token": REDACTED}}]),
    (["token"], {"params": {"Token": 1}}, {"params": {"Token": 1}}),
]


@pytest.mark.parametrize(("names", "message", "written"), ROWS)
def test_values_are_replaced_at_any_depth(names: list[str], message: Any, written: Any) -> None:
    assert redacted(message, *names) == written


def test_what_is_compared_has_one_shape() -> None:
    """A secret that was a text and is an object is still not compared."""
    redaction = Redaction(["token"])
    assert redaction.of({"token": {"deep": 1}}) == redaction.of({"token": "x"}) == {"token": REDACTED}


def test_what_describes_an_argument_is_kept() -> None:
    """A schema that says what a password is holds none; without it a client could not call the tool."""
    tools = {
        "result": {
            "tools": [{"name": "login", "inputSchema": {"properties": {"password": {"type": "string"}}}}]
        }
    }
    assert redacted(tools, "password") == tools


def test_a_message_without_the_name_is_the_same_bytes() -> None:
    frame = b'{"params": {"other" : 1.0}}'
    assert Redaction(["token"]).of_frame(frame) is frame
    assert Redaction().of_frame(b'{"params":{"token":1}}') == b'{"params":{"token":1}}'
    text = b'{"params": {"text" : "token"}}'
    assert Redaction(["token"]).of_frame(text) is text, "a value is no name"


def test_a_name_that_is_spelled_with_escapes_is_found() -> None:
    frame = Redaction(["token"]).of_frame(rb'{"params":{"t\u006fken":"secret"}}')
    assert frame == b'{"params":{"token":"[redacted]"}}'


def test_what_cannot_be_looked_into_is_not_kept() -> None:
    frame = b'{"params":{"token":1,"n":' + b"9" * 5000 + b"}}"
    assert Redaction(["token"]).of_frame(frame) is None


@pytest.mark.parametrize("names", ["token", ["", "x"], [1]])
def test_what_is_no_list_of_names_is_refused(names: Any) -> None:
    with pytest.raises(UsageError, match="redact takes a list of names"):
        Redaction(names)
