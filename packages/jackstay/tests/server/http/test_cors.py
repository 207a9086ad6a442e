"""Which web pages may read answers: preflights, exposed headers, and never credentials (the Fetch standard)."""

from typing import Any

import pytest

from jackstay.errors import UsageError
from jackstay.server.http._cors import Cors

PAGE = "https://app.example.com"
ASKED = {"origin": PAGE, "access-control-request-method": "POST"}


def test_an_answer_to_an_allowed_page_can_be_read_with_its_session() -> None:
    said = dict(Cors([PAGE]).answer_headers({"origin": PAGE}))
    assert said["access-control-allow-origin"] == PAGE
    assert {"Mcp-Session-Id", "WWW-Authenticate", "MCP-Protocol-Version"} <= set(
        said["access-control-expose-headers"].split(", ")
    )
    assert said["vary"] == "Origin"


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "http://app.example.com", "null", "", PAGE + ".evil.example", f"{PAGE}, x"],
)
def test_another_page_gets_nothing_to_show(origin: str) -> None:
    cors = Cors([PAGE])
    assert cors.answer_headers({"origin": origin}) == (("vary", "Origin"),)
    assert cors.preflight("OPTIONS", {**ASKED, "origin": origin}) is None


def test_without_an_origin_there_is_nothing_to_allow_but_caches_are_told() -> None:
    assert Cors([PAGE]).answer_headers({}) == (("vary", "Origin"),)


def test_every_page_may_be_allowed_because_credentials_never_are() -> None:
    cors = Cors("*")
    said = dict(cors.answer_headers({"origin": "https://anything.example"}))
    assert said["access-control-allow-origin"] == "*"
    assert "vary" not in said
    for pairs in (
        cors.answer_headers(ASKED),
        cors.preflight("OPTIONS", ASKED),
        Cors([PAGE]).preflight("OPTIONS", ASKED),
    ):
        assert "access-control-allow-credentials" not in dict(pairs or ())


def test_a_preflight_allows_what_clients_send() -> None:
    wanted = "authorization, Content-Type,mcp-session-id, MCP-Protocol-Version, mcp-method, mcp-name, mcp-param-region, last-event-id"
    said = Cors([PAGE]).preflight("OPTIONS", {**ASKED, "access-control-request-headers": wanted})
    assert said is not None
    found = dict(said)
    assert found["access-control-allow-origin"] == PAGE
    assert found["access-control-allow-methods"] == "GET, POST, DELETE, OPTIONS"
    assert found["access-control-allow-headers"].split(", ") == [
        name.strip().lower() for name in wanted.split(",")
    ]
    assert int(found["access-control-max-age"]) > 0


def test_a_preflight_does_not_allow_other_headers() -> None:
    said = Cors([PAGE]).preflight("OPTIONS", {**ASKED, "access-control-request-headers": "x-evil, cookie,"})
    assert dict(said or ())["access-control-allow-headers"] == ""


@pytest.mark.parametrize(
    ("method", "headers"),
    [("POST", ASKED), ("OPTIONS", {"origin": PAGE}), ("OPTIONS", {"access-control-request-method": "POST"})],
)
def test_what_is_no_preflight_is_left_alone(method: str, headers: dict[str, str]) -> None:
    assert Cors([PAGE]).preflight(method, headers) is None


@pytest.mark.parametrize("origins", [[], "", ["app.example.com"], ["https://a b"], [PAGE, "https://x/path"]])
def test_what_is_no_origin_is_refused(origins: Any) -> None:
    with pytest.raises(UsageError, match="origin"):
        Cors(origins)


def test_it_says_whom_it_is_for() -> None:
    assert repr(Cors(PAGE)) == f"<Cors for {PAGE}:443>"


def test_a_row_without_a_port_is_the_default_port_alone() -> None:
    """Another port of the same machine is another origin, and may be somebody else's."""
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
            bool(cors.preflight("OPTIONS", {"origin": origin, "access-control-request-method": "POST"}))
            is is_allowed
        )
