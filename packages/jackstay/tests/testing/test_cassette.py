"""Matching of requests with recorded ones, repeated requests, and errors for requests that were not recorded."""

from pathlib import Path
from typing import Any

from jackstay.protocol.wire import Error, Result
from jackstay.testing._cassette import Cassette, Match
from jackstay.testing._interactions import Respond
from scripted.cassettes import HEADER, cassette, client, error, request, result, server

VERSION = "io.modelcontextprotocol/protocolVersion"
HANDSHAKE = [
    client(request(0, "initialize", {"protocolVersion": "2025-11-25"})),
    server(result(0, {"protocolVersion": "2025-11-25"})),
]
STATELESS_META = {"_meta": {VERSION: "2026-07-28"}}


def recording(tmp_path: Path, *params: Any, method: str = "tools/call", **more: Any) -> Cassette:
    """A recording of requests with these params, each with its index as result."""
    lines = []
    for index, value in enumerate(params):
        message = {"jsonrpc": "2.0", "id": index, "method": method}
        lines += [
            client(message if value is None else {**message, "params": value}),
            server(result(index, index)),
        ]
    return cassette(tmp_path / "x.jsonl", *lines, **more)


def answer(match: Match | Error | None) -> Any:
    assert isinstance(match, Match), match
    step = match.interaction.steps[-1]
    assert isinstance(step, Respond)
    assert isinstance(step.response, Result)
    return int(bytes(step.response.result))


def no_match(match: Match | Error) -> Error:
    assert isinstance(match, Error)
    return match


# Recorded params, actual params that match.
SAME: list[tuple[Any, Any]] = [
    ({"name": "a", "arguments": {"x": 1, "y": [1]}}, {"arguments": {"y": [1], "x": 1}, "name": "a"}),
    ({"name": "a", "_meta": {"progressToken": 1}}, {"name": "a", "_meta": {"progressToken": "z"}}),
    ({"name": "a", "_meta": {"progressToken": 1}}, {"name": "a"}),
    ({"name": "a"}, {"name": "a", "_meta": {"io.modelcontextprotocol/clientInfo": {"name": "x"}}}),
    ({"name": "a"}, {"name": "a", "_meta": {"traceparent": "00-1-2-03", "tracestate": "", "baggage": ""}}),
    ({"name": "a"}, {"name": "a", "arguments": {}}),
    ({"name": "a", "cursor": None}, {"name": "a"}),
    ({"x": 1.0}, {"x": 1}),
    (None, {}),
    ([1], [1]),
    ({"_meta": "odd"}, {}),
]


def test_requests_with_equivalent_params_match(tmp_path: Path) -> None:
    for recorded, actual in SAME:
        assert answer(recording(tmp_path, recorded).find("tools/call", actual)) == 0, (recorded, actual)


# Recorded params, actual params, the difference in the message.
OTHER: list[tuple[Any, Any, str]] = [
    ({"name": "a"}, {"name": "b"}, 'params.name was "a", got "b"'),
    ({"x": {"y": [1, {"z": 2}]}}, {"x": {"y": [1, {"z": 3}]}}, "params.x.y[1].z was 2, got 3"),
    ({"x": [1]}, {"x": [1, 2]}, "params.x was [1], got [1,2]"),
    ({"x": 1}, {"x": True}, "params.x was 1, got true"),
    ({"x": 1}, {"x": "1"}, 'params.x was 1, got "1"'),
    ({"x": 1}, {}, "params.x was 1, got absent"),
    ({}, {"x": 1}, "params.x was absent, got 1"),
    ({"x": {"y": {}}}, {"x": {"y": None}}, "params.x.y was {}, got null"),
    ({"x": "l" * 500}, {"x": 1}, f'params.x was "{"l" * 59}..., got 1'),
    ({"_meta": {"tenant": "a"}}, {"_meta": {"tenant": "b"}}, 'params._meta.tenant was "a", got "b"'),
    ([1], {}, "params was [1], got {}"),
]


def test_the_error_names_the_differences(tmp_path: Path) -> None:
    for recorded, actual, difference in OTHER:
        error = no_match(recording(tmp_path, recorded).find("tools/call", actual))
        assert error.code == -32602
        assert error.message == f"tools/call was not recorded with these params; the nearest is in line 2: {difference}"
        assert isinstance(error.data, dict)
        assert (error.data["method"], error.data["line"]) == ("tools/call", 2)


def test_the_nearest_request_has_the_same_name_and_the_fewest_differences(tmp_path: Path) -> None:
    played = recording(
        tmp_path,
        {"name": "other", "arguments": {"x": 9}},
        {"name": "a", "arguments": {"x": 1, "y": 2, "z": 3}},
        {"name": "a", "arguments": {"x": 1, "y": 2, "z": 9}},
    )
    unmatched = no_match(played.find("tools/call", {"name": "a", "arguments": {"x": 9, "y": 9, "z": 9}}))
    assert "line 6: params.arguments.x was 1, got 9; params.arguments.y was 2, got 9" in unmatched.message


def test_many_differences_are_counted_but_not_listed(tmp_path: Path) -> None:
    played = recording(tmp_path, {f"k{n}": n for n in range(2000)})
    unmatched = no_match(played.find("tools/call", {f"k{n}": -1 for n in range(2000)}))
    assert unmatched.message.endswith("; and 995 more")
    assert len(unmatched.message) < 400


def test_the_error_for_an_unrecorded_method_lists_the_recorded_ones(tmp_path: Path) -> None:
    played = recording(tmp_path, {}, method="tools/list")
    unmatched = no_match(played.find("prompts/get" * 50, {}))
    assert unmatched.code == -32601
    assert f"was not recorded; {tmp_path / 'x.jsonl'} has tools/list" in unmatched.message
    assert len(unmatched.message) < 300 + len(str(tmp_path))
    nothing = no_match(cassette(tmp_path / "y.jsonl").find("tools/list", {}))
    assert "has no requests" in nothing.message
    assert played.find_notification("notifications/x", {}) is None


def test_repeated_requests_get_the_recorded_results_in_order_then_the_last(tmp_path: Path) -> None:
    played = recording(tmp_path, {"name": "a"}, {"name": "b"}, {"name": "a"})
    matches = [played.find("tools/call", {"name": "a"}) for _ in range(4)]
    assert [answer(match) for match in matches] == [0, 2, 2, 2]
    assert [isinstance(match, Match) and match.is_again for match in matches] == [False, False, True, True]
    assert answer(played.find("tools/call", {"name": "b"})) == 1, "counted separately"
    assert repr(played) == f"<Cassette {tmp_path / 'x.jsonl'}: 3 interactions, 5 played>"


def test_a_redacted_value_matches_any_value(tmp_path: Path) -> None:
    header = {**HEADER, "redacted": ["token"]}
    played = recording(tmp_path, {"name": "a", "arguments": {"token": "[redacted]"}}, header=header)
    assert answer(played.find("tools/call", {"name": "a", "arguments": {"token": "s3cret"}})) == 0
    unmatched = no_match(played.find("tools/call", {"name": "b", "arguments": {"token": "s3cret"}}))
    assert "s3cret" not in str(unmatched)


# --- eras -------------------------------------------------------------------------------------------------------------


def test_params_of_initialize_are_not_compared(tmp_path: Path) -> None:
    played = cassette(tmp_path / "x", *HANDSHAKE)
    match = played.find("initialize", {"protocolVersion": "2024-11-05", "clientInfo": {"name": "other"}})
    assert isinstance(match, Match)


def test_a_client_of_the_other_era_gets_an_error_with_the_recorded_era(tmp_path: Path) -> None:
    handshake = cassette(tmp_path / "x", *HANDSHAKE)
    unmatched = no_match(handshake.find("server/discover", STATELESS_META))
    assert unmatched.code == -32601, "a client of both eras falls back to initialize"
    assert unmatched.message == "this recording is of 2025-11-25; start with initialize"
    assert no_match(handshake.find("tools/list", STATELESS_META)).code == -32600
    assert no_match(handshake.find("tools/list", {})).code == -32601, "same era, not recorded"

    stateless = cassette(
        tmp_path / "y",
        client(request(1, "server/discover", STATELESS_META)),
        server(result(1, {"supportedVersions": ["2026-07-28"]})),
        client(request(2, "tools/list", STATELESS_META)),
        server(result(2, {})),
    )
    unmatched = no_match(stateless.find("initialize", {"protocolVersion": "2025-06-18"}))
    assert (unmatched.code, unmatched.data) == (-32022, {"supported": ["2026-07-28"], "requested": "2025-06-18"})
    assert "without a handshake" in unmatched.message
    unmatched = no_match(stateless.find("tools/list", {}))
    assert (unmatched.code, unmatched.data) == (-32602, {"supported": ["2026-07-28"]})
    assert isinstance(stateless.find("tools/list", STATELESS_META), Match)


def test_a_recorded_error_to_server_discover_is_replayed(tmp_path: Path) -> None:
    """A client of both eras sends server/discover first: its recorded error is played like any other response."""
    played = cassette(
        tmp_path / "x",
        client(request(1, "server/discover", STATELESS_META)),
        server(error(1, -32601)),
        *HANDSHAKE,
    )
    match = played.find("server/discover", STATELESS_META)
    assert isinstance(match, Match)
    assert no_match(played.find("tools/list", STATELESS_META)).code == -32600


def test_a_recording_of_both_eras_serves_both(tmp_path: Path) -> None:
    played = cassette(
        tmp_path / "x",
        *HANDSHAKE,
        client(request(1, "tools/list", STATELESS_META)),
        server(result(1, {})),
    )
    assert isinstance(played.find("tools/list", STATELESS_META), Match)
    assert isinstance(played.find("tools/list", {}), Match)


def test_a_recording_without_an_era_serves_clients_of_both(tmp_path: Path) -> None:
    played = cassette(
        tmp_path / "x",
        client(request(0, "initialize")),
        server(result(0, "odd")),
        client(request(1, "tools/list")),
        server(result(1, {})),
    )
    assert isinstance(played.find("tools/list", STATELESS_META), Match)
    assert no_match(played.find("server/discover", {})).code == -32601
