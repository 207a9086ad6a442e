"""Headers and credentials of the user: invalid ones are rejected, and values are never shown."""

import pytest

from jackstay.errors import UsageError
from jackstay.transport.http._auth import check_headers, static_credentials

SECRET = "s3cr3t\n"


def test_headers_are_pairs() -> None:
    for headers, pairs in [
        (None, ()),
        ({}, ()),
        ({"X-A": "1", "x-b": ""}, (("X-A", "1"), ("x-b", ""))),
        ([("X-A", "1"), ("X-A", "2")], (("X-A", "1"), ("X-A", "2"))),
    ]:
        assert check_headers(headers) == pairs


def test_invalid_headers_are_rejected_without_their_values() -> None:
    for headers, message in [
        ({"X Y": SECRET}, "invalid header name 'X Y'"),
        ({1: SECRET}, "invalid header name '1'"),
        ({"": SECRET}, "invalid header name ''"),
        ({"X-A": SECRET}, "the value of the header 'X-A'"),
        ({"X-A": 1}, "the value of the header 'X-A'"),
        ({"X-A": " a"}, "the value of the header 'X-A'"),
        ({"X-A": "☃"}, "the value of the header 'X-A'"),
        ({"Content-Type": SECRET}, "'Content-Type' is set by the client"),
        ({"mcp-session-id": SECRET}, "'mcp-session-id' is set"),
        ({"Mcp-Param-X": SECRET}, "'Mcp-Param-X' is set"),
        ("text", "a list of pairs"),
        (7, "a list of pairs"),
        ([("a", "b", "c")], "a list of pairs"),
    ]:
        with pytest.raises(UsageError) as raised:
            check_headers(headers)
        assert message in str(raised.value)
        assert raised.value.path == "headers"
        assert "s3cr3t" not in str(raised.value)


def test_simple_credentials_are_headers() -> None:
    for auth, pairs in [
        (None, ()),
        ("token", (("Authorization", "Bearer token"),)),
        (("me", "pässword:"), (("Authorization", "Basic bWU6cMOkc3N3b3JkOg=="),)),
    ]:
        assert static_credentials(auth) == pairs


def test_invalid_credentials_are_rejected_and_not_shown() -> None:
    for auth in ["", "Bearer s3cr3t", "s3cr3t\n", ("a:b", "s3cr3t"), ("s3cr3t",), ("a", 1), 7, b"s3cr3t", ["s3cr3t"]]:
        with pytest.raises(UsageError) as raised:
            static_credentials(auth)
        assert raised.value.path == "auth"
        assert "s3cr3t" not in str(raised.value)
