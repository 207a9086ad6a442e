"""What a server tells everybody: its options are checked when built, and its answers are what the official models take."""

import json
from typing import Any

import mcp_types
import msgspec
import pytest

from jackstay.errors import UsageError
from jackstay.protocol._versions import VERSIONS
from jackstay.protocol.server._offer import ServerOffer, ServerOptions, known_methods, served_methods

INFO = b'{"name":"test","version":"1","title":"Test"}'


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("server_info", b"[]"),
        ("server_info", b""),
        ("capabilities", b"{"),
        ("capabilities", b'{"a":"\xff"}'),
        ("stateless_capabilities", b"1"),
        ("versions", ()),
        ("versions", ("2025-11-25", "1999-01-01")),
        ("max_concurrent", 0),
        ("max_concurrent", True),
        ("max_concurrent", 1.5),
        ("max_frame_bytes", 1023),
        ("ttl_ms", -1),
        ("drain_timeout", -0.1),
        ("drain_timeout", float("nan")),
        ("drain_timeout", 3601),
        ("cache_scope", "shared"),
    ],
)
def test_a_bad_option_is_refused_by_name(option: str, value: Any) -> None:
    with pytest.raises(UsageError) as refused:
        ServerOptions(**{"server_info": INFO, option: value})
    assert refused.value.path == option


def test_what_does_not_fit_into_a_frame_is_refused_when_it_is_made() -> None:
    options = ServerOptions(server_info=INFO, instructions="x" * 20_000, max_frame_bytes=16_384)
    with pytest.raises(UsageError) as refused:
        ServerOffer(options)
    assert refused.value.path == "max_frame_bytes"


@pytest.mark.parametrize("version", VERSIONS[:4])
@pytest.mark.parametrize("instructions", ["", 'Say "hello" – ✓'])
def test_the_official_model_takes_our_initialize_result(version: str, instructions: str) -> None:
    offer = ServerOffer(
        ServerOptions(
            server_info=INFO, capabilities=b'{"tools":{"listChanged":true}}', instructions=instructions
        )
    )
    result = mcp_types.InitializeResult.model_validate_json(offer.initialize_result(version))
    assert result.protocol_version == version
    assert (result.server_info.name, result.server_info.title) == ("test", "Test")
    assert result.capabilities.tools is not None
    assert result.instructions == (instructions or None)


def test_the_official_model_takes_our_discover_result() -> None:
    options = ServerOptions(
        server_info=INFO,
        capabilities=b'{"logging":{}}',
        stateless_capabilities=b'{"tools":{}}',
        instructions="Hello.",
        ttl_ms=5000,
        cache_scope="public",
    )
    encoded = ServerOffer(options).discover_result
    result = mcp_types.DiscoverResult.model_validate_json(encoded)
    assert result.supported_versions == sorted(VERSIONS, reverse=True)
    assert (result.ttl_ms, result.cache_scope, result.instructions) == (5000, "public", "Hello.")
    members = json.loads(encoded)
    assert members["resultType"] == "complete"
    assert members["capabilities"] == {"tools": {}}
    assert members["_meta"] == {"io.modelcontextprotocol/serverInfo": json.loads(INFO)}


@pytest.mark.parametrize(
    ("versions", "requested", "agreed"),
    [
        (VERSIONS, "2025-03-26", "2025-03-26"),
        (VERSIONS, "2026-07-28", "2025-11-25"),
        (("2025-06-18", "2024-11-05"), "", "2025-06-18"),
        (("2026-07-28",), "2025-11-25", None),
    ],
)
def test_the_version_asked_for_is_agreed_on_or_our_newest_with_a_handshake(
    versions: tuple[str, ...], requested: str, agreed: str | None
) -> None:
    assert ServerOffer(ServerOptions(server_info=INFO, versions=versions)).negotiate(requested) == agreed


def test_methods_are_known_by_revision_and_served_if_no_answer_is_ready() -> None:
    assert {"initialize", "ping", "resources/subscribe"} <= known_methods("2024-11-05").keys()
    assert known_methods("2026-07-28").keys() >= {"server/discover", "subscriptions/listen", "tools/call"}
    assert not known_methods("2026-07-28").keys() & {"initialize", "ping", "logging/setLevel", "roots/list"}
    for version in VERSIONS:
        assert all(row.is_request for row in known_methods(version).values())
        answered = known_methods(version).keys() - served_methods(version).keys()
        assert answered == known_methods(version).keys() & {"initialize", "ping", "server/discover"}


def test_before_a_version_is_agreed_on_every_spoken_one_counts() -> None:
    offer = ServerOffer(ServerOptions(server_info=INFO, versions=("2024-11-05", "2026-07-28")))
    assert (
        offer.known_anywhere.keys() == known_methods("2024-11-05").keys() | known_methods("2026-07-28").keys()
    )
    assert (offer.handshake, offer.stateless) == (("2024-11-05",), ("2026-07-28",))
    assert offer.supported == ("2026-07-28", "2024-11-05")


def test_results_of_the_stateless_era_say_who_made_them() -> None:
    offer = ServerOffer(ServerOptions(server_info=INFO))
    result = msgspec.json.decode(offer.complete(b'{"tools":[]}'))
    assert result["tools"] == []
    assert result["resultType"] == "complete"
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "test"
