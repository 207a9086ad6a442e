"""CORS: preflights, exposed headers, and never credentials (Fetch standard)."""

from typing import Any

import pytest

from jackstay.errors import UsageError
from jackstay.server.http._auxiliary_routes import Cors

PAGE = "https://app.example.com"
PREFLIGHT = {"origin": PAGE, "access-control-request-method": "POST"}


def test_an_allowed_page_can_read_a_response_and_its_session() -> None:
    headers = dict(Cors([PAGE]).response_headers({"origin": PAGE}))
    assert headers["access-control-allow-origin"] == PAGE
    assert {"Mcp-Session-Id", "WWW-Authenticate", "MCP-Protocol-Version"} <= set(
        headers["access-control-expose-headers"].split(", ")
    )
    assert headers["vary"] == "Origin"


def test_a_forbidden_origin_gets_no_cors_headers(subtests: pytest.Subtests) -> None:
    cases: list[str] = [
        "https://evil.example",
        "http://app.example.com",
        "null",
        "",
        PAGE + ".evil.example",
        f"{PAGE}, x",
    ]
    for origin in cases:
        with subtests.test(origin=origin):
            cors = Cors([PAGE])
            assert cors.response_headers({"origin": origin}) == (("vary", "Origin"),)
            assert cors.preflight("OPTIONS", {**PREFLIGHT, "origin": origin}) is None


def test_without_an_origin_only_vary_is_sent() -> None:
    assert Cors([PAGE]).response_headers({}) == (("vary", "Origin"),)


def test_credentials_are_never_allowed_so_any_page_may_be() -> None:
    cors = Cors(["*"])
    headers = dict(cors.response_headers({"origin": "https://anything.example"}))
    assert headers["access-control-allow-origin"] == "*"
    assert "vary" not in headers
    for pairs in (
        cors.response_headers(PREFLIGHT),
        cors.preflight("OPTIONS", PREFLIGHT),
        Cors([PAGE]).preflight("OPTIONS", PREFLIGHT),
    ):
        assert "access-control-allow-credentials" not in dict(pairs or ())


def test_a_preflight_allows_what_clients_send() -> None:
    requested = (
        "authorization, Content-Type,mcp-session-id, MCP-Protocol-Version, mcp-method, mcp-name, mcp-param-region,"
        " last-event-id"
    )
    headers = Cors([PAGE]).preflight("OPTIONS", {**PREFLIGHT, "access-control-request-headers": requested})
    assert headers is not None
    found = dict(headers)
    assert found["access-control-allow-origin"] == PAGE
    assert found["access-control-allow-methods"] == "GET, POST, DELETE, OPTIONS"
    assert found["access-control-allow-headers"].split(", ") == [name.strip().lower() for name in requested.split(",")]
    assert int(found["access-control-max-age"]) > 0


def test_a_preflight_does_not_allow_other_headers() -> None:
    headers = Cors([PAGE]).preflight("OPTIONS", {**PREFLIGHT, "access-control-request-headers": "x-evil, cookie,"})
    assert dict(headers or ())["access-control-allow-headers"] == ""


def test_a_request_that_is_no_preflight_is_passed_on(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, dict[str, str]]] = [
        ("POST", PREFLIGHT),
        ("OPTIONS", {"origin": PAGE}),
        ("OPTIONS", {"access-control-request-method": "POST"}),
    ]
    for method, headers in cases:
        with subtests.test(method=method, headers=headers):
            assert Cors([PAGE]).preflight(method, headers) is None


def test_an_invalid_origin_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[Any] = [["app.example.com"], ["https://a b"], [PAGE, "https://x/path"]]
    for origins in cases:
        with subtests.test(origins=origins), pytest.raises(UsageError, match="origin"):
            Cors(origins)


def test_repr() -> None:
    assert repr(Cors([PAGE])) == f"<Cors for {PAGE}:443>"


def test_an_origin_without_a_port_allows_the_default_port_only() -> None:
    """Another port of the same host is another origin, which may belong to somebody else."""
    cors = Cors(["https://app.example", "http://localhost:5173", "ext://abc"])
    for origin, is_allowed in (
        ("https://app.example", True),
        ("https://app.example:443", True),
        ("https://app.example:8443", False),
        ("http://localhost:5173", True),
        ("http://localhost", False),
        ("ext://abc", True),
    ):
        assert (
            bool(cors.preflight("OPTIONS", {"origin": origin, "access-control-request-method": "POST"})) is is_allowed
        )
