"""The options of an endpoint: an invalid one is refused by name."""

from typing import Any

import pytest

from jackstay import Server
from jackstay.errors import UnexpectedOptionError, UsageError
from jackstay.server.http import (
    HTTP_OPTIONS,
    HttpKeywords,
    HttpOptions,
    MemoryEventStore,
    MemorySessionStore,
    make_http_options,
)


def test_an_invalid_value_is_refused_by_name(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, Any]] = [
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
        ("response_format", "xml"),
        ("max_body_bytes", 10),
        ("body_timeout", 0),
        ("max_stream_bytes", True),
        ("keepalive", -1),
        ("event_store", MemoryEventStore()),
        ("session_store", MemorySessionStore()),
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
    ]
    for option, value in cases:
        with subtests.test(option=option, value=value):
            with pytest.raises(UsageError) as refused:
                Server("x").asgi(**{option: value})
            assert refused.value.path == option


def test_an_invalid_store_is_refused_at_once() -> None:
    for name in ("session_store", "event_store"):
        with pytest.raises(UsageError, match=f"{name} must be an? [A-Za-z]*Store, or None") as refused:
            make_http_options(sessions=True, **{name: object()})
        assert refused.value.path == name


def test_a_single_str_is_accepted_for_a_sequence() -> None:
    """As a sequence of characters it would silently allow nothing."""
    options = make_http_options(hosts="mcp.example.com", origins="https://a.example", cors="https://b.example")
    assert options.hosts == ("mcp.example.com",)
    assert options.origins == ("https://a.example",)
    assert options.cors == ("https://b.example",)


def test_every_option_has_a_row_and_every_row_an_option() -> None:
    assert tuple(HTTP_OPTIONS) == HttpOptions.__struct_fields__
    assert set(HTTP_OPTIONS) == set(HttpKeywords.__annotations__)


def test_an_unknown_option_is_refused_by_name() -> None:
    with pytest.raises(UnexpectedOptionError, match="got an unexpected option 'session_ttk'; did you mean") as refused:
        make_http_options(session_ttk=5)
    assert refused.value.path == "session_ttk"
    assert isinstance(refused.value, TypeError)


def test_the_defaults() -> None:
    """Sessions off, TTL and limit on, keepalives every 15 s (docs/guarantees.md G17, G18, G19)."""
    options = HttpOptions()
    assert (options.sessions, options.keepalive, options.path) == (False, 15.0, "/mcp")
    assert options.session_ttl > 0
    assert options.max_sessions > 0
    assert make_http_options(max_body_bytes=None).max_body_bytes is None
