"""The options of an endpoint: each is refused by name when it is wrong."""

from typing import Any

import pytest

from jackstay import Server
from jackstay.errors import UsageError
from jackstay.server.http import (
    HTTP_OPTIONS,
    HttpKeywords,
    HttpOptions,
    MemoryEvents,
    MemorySessions,
    make_http_options,
)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("path", "mcp"),
        ("path", "/mcp?x"),
        ("path", 5),
        ("sse_path", "sse"),
        ("sse_path", "/mcp"),
        ("messages_path", ""),
        ("session_ttl", 0),
        ("session_ttl", float("nan")),
        ("session_ttl", "long"),
        ("max_sessions", 0),
        ("retry", -1),
        ("answers", "xml"),
        ("max_body_bytes", 10),
        ("body_timeout", 0),
        ("max_stream_bytes", True),
        ("keepalive", -1),
        ("event_store", MemoryEvents()),
        ("session_store", MemorySessions()),
        ("hosts", ("not a host",)),
        ("hosts", "https://mcp.example.com"),
        ("hosts", (5,)),
        ("hosts", None),
        ("origins", ("not an origin",)),
        ("cors", ("not an origin",)),
        ("cors", 5),
        ("sessions", "yes"),
        ("max_sessions", 1.5),
        ("health", 1),
        ("health", "health"),
        ("health", "/mcp"),
        ("auth", "a-secret-of-alice-as-text"),
        ("auth", []),
        ("auth", 5),
    ],
)
def test_a_wrong_value_is_refused_by_name(option: str, value: Any) -> None:
    """brief: bad input gives a typed error that says what was wrong, where, what to try."""
    with pytest.raises(UsageError) as refused:
        Server("x").asgi(**{option: value})
    assert refused.value.path == option


def test_a_store_that_is_none_is_refused_before_a_request_finds_out() -> None:
    for name in ("session_store", "event_store"):
        with pytest.raises(UsageError, match=f"{name} must be an? [A-Za-z]*Store, or None") as refused:
            make_http_options(sessions=True, **{name: object()})
        assert refused.value.path == name


def test_one_name_is_a_list_of_one() -> None:
    """As a sequence of letters it would let nobody in, and say nothing."""
    options = make_http_options(
        hosts="mcp.example.com", origins="https://a.example", cors="https://b.example"
    )
    assert options.hosts == ("mcp.example.com",)
    assert options.origins == ("https://a.example",)
    assert options.cors == ("https://b.example",)


def test_every_option_has_a_row_and_every_row_an_option() -> None:
    assert tuple(HTTP_OPTIONS) == HttpOptions.__struct_fields__
    assert set(HTTP_OPTIONS) == set(HttpKeywords.__annotations__)


def test_an_unknown_option_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="session_timeout is no option of an HTTP server") as refused:
        make_http_options(session_timeout=5)
    assert refused.value.path == "session_timeout"


def test_the_defaults_are_those_of_the_design() -> None:
    """Sessions off; time to live and cap on; signs of life every 15 s (G17, G18, G19)."""
    options = HttpOptions()
    assert (options.sessions, options.keepalive, options.path) == (False, 15.0, "/mcp")
    assert options.session_ttl > 0
    assert options.max_sessions > 0
    assert make_http_options(max_body_bytes=None).max_body_bytes is None
