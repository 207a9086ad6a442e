"""The limits of patterns: never too high, and none for the usual patterns."""

import re
from typing import Any

import pytest

from jackstay import Server, connect
from jackstay.openapi import max_match_length
from jackstay.openapi._patterns import _LIMITS, is_linear
from scripted.openapi_documents import document, get, parameter, read_one

LINEAR, SQUARE, CUBIC, EXPONENTIAL = *_LIMITS[1:4], _LIMITS[-1]


@pytest.mark.parametrize(
    ("pattern", "limit"),
    [
        ("", LINEAR),
        ("^[a-z]+$", LINEAR),
        ("prefix_[a-zA-Z0-9]{32}", LINEAR),
        (r"^\d{4}-\d\d-\d\d$", LINEAR),
        (r"^(?:%[0-9A-F]{2}|[a-z]|é)*$", LINEAR),
        (r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$", LINEAR),
        (r"^(?=[a-z])\D$", LINEAR),
        (r"^(?>[^x]*)$", LINEAR),
        ("[a-z]+", SQUARE),
        (r"^[a-z0-9]+(-[a-z0-9]+)*$", SQUARE),
        (r"^([^é,]+,)*.*$", SQUARE),
        (r"^[^@\s]+@[^@\s]+\.[^@\s]+$", CUBIC),
        (r"(([a-z0-9-_ ]|[^\\x00-\\x7F])+.(json|yaml|yml))", EXPONENTIAL),  # of a published document
        ("(a+)+$", EXPONENTIAL),
        ("^(a|b|ab)*$", EXPONENTIAL),
        ("^(a?){30}a{30}$", EXPONENTIAL),
        ("^(a{1,16}){1,16}$", EXPONENTIAL),
        ("(?i)^(a|bc|Ad)*$", EXPONENTIAL),
        (r"^(\w|\dx)*$", EXPONENTIAL),
        (r"(a)\1", EXPONENTIAL),
        ("a?" * 30 + "a" * 30, EXPONENTIAL),
        ("^" + ".*" * 5 + "$", EXPONENTIAL),
    ],
)
def test_the_limit_follows_from_the_structure(pattern: str, limit: int) -> None:
    re.compile(pattern)
    assert max_match_length(pattern) == limit
    assert is_linear(pattern) == (limit == LINEAR)


def test_names_are_matched_only_with_linear_patterns() -> None:
    def schema(pattern: str) -> Any:
        value = {"type": "object", "patternProperties": {pattern: {}}, "additionalProperties": False}
        return read_one(document({"/x": get(parameter("a", schema=value))})).input_schema["properties"]["a"]

    assert schema("^[a-z]+$")["additionalProperties"] is False
    assert schema("^(a+)+$") == {"type": "object"}


async def test_an_argument_cannot_block_the_server() -> None:
    """With this pattern, 30 characters would take minutes and 100 would never end."""
    rows = [parameter("a", schema={"type": "string", "pattern": "^(a+)+$"})]
    server = Server.from_openapi(document({"/x": get(*rows, operationId="x")}), base_url="http://127.0.0.1:9")
    async with connect(server) as client:
        refused = await client.tools.call("x", {"a": "aaab"}, raise_on_error=False)
        assert "does not match" in refused.error_text
        sent = await client.tools.call("x", {"a": "a" * 100 + "b"}, raise_on_error=False)
        assert "does not match" not in sent.error_text
