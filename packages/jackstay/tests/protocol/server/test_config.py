"""The options of a server, and its encoded results, validated by the official models."""

import json

import mcp_types
import msgspec
import pytest

from jackstay.errors import UsageError
from jackstay.protocol._versions import VERSIONS
from jackstay.protocol.server._config import ServerConfig, ServerOptions, known_methods

INFO = b'{"name":"test","version":"1","title":"Test"}'


def test_invalid_options_are_refused(subtests: pytest.Subtests) -> None:
    for option, value in [
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
    ]:
        with subtests.test(option=option, value=value):
            with pytest.raises(UsageError) as refused:
                ServerOptions(**{"server_info": INFO, option: value})
            assert refused.value.path == option


def test_results_over_the_frame_limit_are_refused() -> None:
    options = ServerOptions(server_info=INFO, instructions="x" * 20_000, max_frame_bytes=16_384)
    with pytest.raises(UsageError) as refused:
        ServerConfig(options)
    assert refused.value.path == "max_frame_bytes"


def test_the_initialize_result_matches_the_official_model(subtests: pytest.Subtests) -> None:
    for version in VERSIONS[:4]:
        for instructions in ["", 'Say "hello" – ✓']:
            with subtests.test(version=version, instructions=instructions):
                config = ServerConfig(
                    ServerOptions(
                        server_info=INFO, capabilities=b'{"tools":{"listChanged":true}}', instructions=instructions
                    )
                )
                result = mcp_types.InitializeResult.model_validate_json(config.initialize_result(version))
                assert result.protocol_version == version
                assert (result.server_info.name, result.server_info.title) == ("test", "Test")
                assert result.capabilities.tools is not None
                assert result.instructions == (instructions or None)


def test_the_discover_result_matches_the_official_model() -> None:
    options = ServerOptions(
        server_info=INFO,
        capabilities=b'{"logging":{}}',
        stateless_capabilities=b'{"tools":{}}',
        instructions="Hello.",
        ttl_ms=5000,
        cache_scope="public",
    )
    encoded = ServerConfig(options).discover_result
    result = mcp_types.DiscoverResult.model_validate_json(encoded)
    assert result.supported_versions == sorted(VERSIONS, reverse=True)
    assert (result.ttl_ms, result.cache_scope, result.instructions) == (5000, "public", "Hello.")
    members = json.loads(encoded)
    assert members["resultType"] == "complete"
    assert members["capabilities"] == {"tools": {}}
    assert members["_meta"] == {"io.modelcontextprotocol/serverInfo": json.loads(INFO)}


def test_negotiate(subtests: pytest.Subtests) -> None:
    for versions, requested, negotiated in [
        (VERSIONS, "2025-03-26", "2025-03-26"),
        (VERSIONS, "2026-07-28", "2025-11-25"),
        (("2025-06-18", "2024-11-05"), "", "2025-06-18"),
        (("2026-07-28",), "2025-11-25", None),
    ]:
        with subtests.test(versions=versions, requested=requested, negotiated=negotiated):
            assert ServerConfig(ServerOptions(server_info=INFO, versions=versions)).negotiate(requested) == negotiated


def test_known_and_served_methods() -> None:
    assert {"initialize", "ping", "resources/subscribe"} <= known_methods("2024-11-05").keys()
    assert known_methods("2026-07-28").keys() >= {"server/discover", "subscriptions/listen", "tools/call"}
    assert not known_methods("2026-07-28").keys() & {"initialize", "ping", "logging/setLevel", "roots/list"}
    config = ServerConfig(ServerOptions(server_info=INFO))
    for version in VERSIONS:
        assert all(row.is_request for row in known_methods(version).values())
        answered = known_methods(version).keys() - config.served[version].keys()
        assert answered == known_methods(version).keys() & {"initialize", "ping", "server/discover"}


def test_methods_of_all_versions_are_known_before_negotiation() -> None:
    config = ServerConfig(ServerOptions(server_info=INFO, versions=("2024-11-05", "2026-07-28")))
    assert config.known_in_any_version.keys() == known_methods("2024-11-05").keys() | known_methods("2026-07-28").keys()
    assert (config.handshake, config.stateless) == (("2024-11-05",), ("2026-07-28",))
    assert config.supported == ("2026-07-28", "2024-11-05")


def test_results_of_the_stateless_era_contain_the_server_info() -> None:
    config = ServerConfig(ServerOptions(server_info=INFO))
    result = msgspec.json.decode(config.finalize(b'{"tools":[]}'))
    assert result["tools"] == []
    assert result["resultType"] == "complete"
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "test"
