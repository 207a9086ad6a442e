"""What the user says of himself: refused by name where it cannot be sent, and never shown."""

from typing import Any

import pytest

from jackstay.errors import UsageError
from jackstay.transport.http._auth import check_headers, static_credentials

SECRET = "s3cr3t\n"


@pytest.mark.parametrize(
    ("headers", "pairs"),
    [
        (None, ()),
        ({}, ()),
        ({"X-A": "1", "x-b": ""}, (("X-A", "1"), ("x-b", ""))),
        ([("X-A", "1"), ("X-A", "2")], (("X-A", "1"), ("X-A", "2"))),
    ],
)
def test_headers_are_names_with_values(headers: Any, pairs: Any) -> None:
    assert check_headers(headers) == pairs


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"X Y": SECRET}, "'X Y' is no name"),
        ({1: SECRET}, "'1' is no name"),
        ({"": SECRET}, "'' is no name"),
        ({"X-A": SECRET}, "the value of the header X-A"),
        ({"X-A": 1}, "the value of the header X-A"),
        ({"X-A": " a"}, "the value of the header X-A"),
        ({"X-A": "☃"}, "the value of the header X-A"),
        ({"Content-Type": SECRET}, "Content-Type is said by the client itself"),
        ({"mcp-session-id": SECRET}, "mcp-session-id is said"),
        ({"Mcp-Param-X": SECRET}, "Mcp-Param-X is said"),
        ("text", "names with values"),
        (7, "names with values"),
        ([("a", "b", "c")], "names with values"),
    ],
)
def test_headers_that_cannot_be_sent_are_refused_without_their_values(headers: Any, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        check_headers(headers)
    assert said in str(raised.value)
    assert raised.value.path == "headers"
    assert "s3cr3t" not in str(raised.value)


@pytest.mark.parametrize(
    ("auth", "pairs"),
    [
        (None, ()),
        ("token", (("Authorization", "Bearer token"),)),
        (("me", "pässword:"), (("Authorization", "Basic bWU6cMOkc3N3b3JkOg=="),)),
    ],
)
def test_simple_credentials_are_headers(auth: Any, pairs: Any) -> None:
    assert static_credentials(auth) == pairs


@pytest.mark.parametrize(
    "auth",
    ["", "Bearer s3cr3t", "s3cr3t\n", ("a:b", "s3cr3t"), ("s3cr3t",), ("a", 1), 7, b"s3cr3t", ["s3cr3t"]],
)
def test_credentials_that_cannot_be_sent_are_refused_and_not_shown(auth: Any) -> None:
    with pytest.raises(UsageError) as raised:
        static_credentials(auth)
    assert raised.value.path == "auth"
    assert "s3cr3t" not in str(raised.value)
