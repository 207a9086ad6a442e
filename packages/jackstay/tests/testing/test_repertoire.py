"""Which request is the same as a recorded one, what is played for the second and the third, and what else is said."""

from pathlib import Path
from typing import Any

import pytest

from jackstay.testing._repertoire import Found, Refusal, Repertoire
from scripted.tapes import HEADER, client, error, repertoire, request, result, server

VERSION = "io.modelcontextprotocol/protocolVersion"
HANDSHAKE = [
    client(request(0, "initialize", {"protocolVersion": "2025-11-25"})),
    server(result(0, {"protocolVersion": "2025-11-25"})),
]
STATELESS_META = {"_meta": {VERSION: "2026-07-28"}}


def recording(tmp_path: Path, *params: Any, method: str = "tools/call", **more: Any) -> Repertoire:
    """A recording of requests with these params, each answered with its place."""
    lines = []
    for place, each in enumerate(params):
        message = {"jsonrpc": "2.0", "id": place, "method": method}
        lines += [
            client(message if each is None else {**message, "params": each}),
            server(result(place, place)),
        ]
    return repertoire(tmp_path / "x.jsonl", *lines, **more)


def answer(found: Found | Refusal | None) -> Any:
    assert isinstance(found, Found), found
    step = found.script.steps[-1]
    return int(getattr(step, "result", b"-1"))


def refusal(found: Found | Refusal) -> Refusal:
    assert isinstance(found, Refusal)
    return found


# recorded, asked: the same
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


@pytest.mark.parametrize(("recorded", "asked"), SAME, ids=str)
def test_a_request_is_the_same_if_it_asks_the_same(recorded: Any, asked: Any, tmp_path: Path) -> None:
    assert answer(recording(tmp_path, recorded).find("tools/call", asked)) == 0


# recorded, asked, what is said of the difference
OTHER: list[tuple[Any, Any, str]] = [
    ({"name": "a"}, {"name": "b"}, 'params.name was "a" and is "b"'),
    ({"x": {"y": [1, {"z": 2}]}}, {"x": {"y": [1, {"z": 3}]}}, "params.x.y[1].z was 2 and is 3"),
    ({"x": [1]}, {"x": [1, 2]}, "params.x was [1] and is [1,2]"),
    ({"x": 1}, {"x": True}, "params.x was 1 and is true"),
    ({"x": 1}, {"x": "1"}, 'params.x was 1 and is "1"'),
    ({"x": 1}, {}, "params.x was 1 and is absent"),
    ({}, {"x": 1}, "params.x was absent and is 1"),
    ({"x": {"y": {}}}, {"x": {"y": None}}, "params.x.y was {} and is null"),
    ({"x": "l" * 500}, {"x": 1}, f'params.x was "{"l" * 59}... and is 1'),
    ({"_meta": {"tenant": "a"}}, {"_meta": {"tenant": "b"}}, 'params._meta.tenant was "a" and is "b"'),
    ([1], {}, "params was [1] and is {}"),
]


@pytest.mark.parametrize(("recorded", "asked", "said"), OTHER, ids=[row[2][:50] for row in OTHER])
def test_what_differs_is_named(recorded: Any, asked: Any, said: str, tmp_path: Path) -> None:
    refused = refusal(recording(tmp_path, recorded).find("tools/call", asked))
    assert refused.code == -32602
    assert refused.message == (
        f"tools/call was not recorded with these params; the nearest is in line 2: {said}"
    )
    assert isinstance(refused.data, dict)
    assert (refused.data["method"], refused.data["line"]) == ("tools/call", 2)


def test_the_nearest_is_the_one_with_the_same_subject_and_the_fewest_differences(tmp_path: Path) -> None:
    played = recording(
        tmp_path,
        {"name": "other", "arguments": {"x": 9}},
        {"name": "a", "arguments": {"x": 1, "y": 2, "z": 3}},
        {"name": "a", "arguments": {"x": 1, "y": 2, "z": 9}},
    )
    refused = refusal(played.find("tools/call", {"name": "a", "arguments": {"x": 9, "y": 9, "z": 9}}))
    assert "line 6: params.arguments.x was 1 and is 9; params.arguments.y was 2 and is 9" in refused.message


def test_many_differences_are_counted_and_not_told(tmp_path: Path) -> None:
    played = recording(tmp_path, {f"k{n}": n for n in range(2000)})
    refused = refusal(played.find("tools/call", {f"k{n}": -1 for n in range(2000)}))
    assert refused.message.endswith("; and 995 more")
    assert len(refused.message) < 400


def test_a_method_that_was_never_recorded_is_told_which_were(tmp_path: Path) -> None:
    played = recording(tmp_path, {}, method="tools/list")
    refused = refusal(played.find("prompts/get" * 50, {}))
    assert refused.code == -32601
    assert f"was never recorded; {tmp_path / 'x.jsonl'} has tools/list" in refused.message
    assert len(refused.message) < 300 + len(str(tmp_path))
    nothing = refusal(repertoire(tmp_path / "y.jsonl").find("tools/list", {}))
    assert "has no request at all" in nothing.message
    assert played.find_notification("notifications/x", {}) is None


def test_several_answers_are_given_in_their_order_and_the_last_again(tmp_path: Path) -> None:
    played = recording(tmp_path, {"name": "a"}, {"name": "b"}, {"name": "a"})
    found = [played.find("tools/call", {"name": "a"}) for _ in range(4)]
    assert [answer(each) for each in found] == [0, 2, 2, 2]
    assert [isinstance(each, Found) and each.is_again for each in found] == [False, False, True, True]
    assert answer(played.find("tools/call", {"name": "b"})) == 1, "each has its own count"
    assert repr(played) == f"<Repertoire {tmp_path / 'x.jsonl'}: 3 scripts, 5 played>"


def test_what_was_redacted_meets_whatever_it_is_now(tmp_path: Path) -> None:
    header = {**HEADER, "redacted": ["token"]}
    played = recording(tmp_path, {"name": "a", "arguments": {"token": "[redacted]"}}, header=header)
    assert answer(played.find("tools/call", {"name": "a", "arguments": {"token": "s3cret"}})) == 0
    refused = refusal(played.find("tools/call", {"name": "b", "arguments": {"token": "s3cret"}}))
    assert "s3cret" not in str(refused)


# --- eras -------------------------------------------------------------------------------------------------------------


def test_who_asks_and_in_which_revision_does_not_matter_for_an_opening(tmp_path: Path) -> None:
    played = repertoire(tmp_path / "x", *HANDSHAKE)
    found = played.find("initialize", {"protocolVersion": "2024-11-05", "clientInfo": {"name": "other"}})
    assert isinstance(found, Found)


def test_a_client_of_the_other_era_is_told_which_this_is(tmp_path: Path) -> None:
    handshake = repertoire(tmp_path / "x", *HANDSHAKE)
    refused = refusal(handshake.find("server/discover", STATELESS_META))
    assert refused.code == -32601, "a client that speaks both goes on with initialize"
    assert refused.message == "this recording is of 2025-11-25: open with `initialize`"
    assert refusal(handshake.find("tools/list", STATELESS_META)).code == -32600
    assert refusal(handshake.find("tools/list", {})).code == -32601, "it is of this era, and was not recorded"

    stateless = repertoire(
        tmp_path / "y",
        client(request(1, "server/discover", STATELESS_META)),
        server(result(1, {"supportedVersions": ["2026-07-28"]})),
        client(request(2, "tools/list", STATELESS_META)),
        server(result(2, {})),
    )
    refused = refusal(stateless.find("initialize", {"protocolVersion": "2025-06-18"}))
    assert (refused.code, refused.data) == (-32022, {"supported": ["2026-07-28"], "requested": "2025-06-18"})
    assert "has no handshake" in refused.message
    refused = refusal(stateless.find("tools/list", {}))
    assert (refused.code, refused.data) == (-32602, {"supported": ["2026-07-28"]})
    assert isinstance(stateless.find("tools/list", STATELESS_META), Found)


def test_an_opening_that_was_refused_says_nothing_of_the_era(tmp_path: Path) -> None:
    """A client that speaks both asks for the era first: the refusal is played like any other answer."""
    played = repertoire(
        tmp_path / "x",
        client(request(1, "server/discover", STATELESS_META)),
        server(error(1, -32601)),
        *HANDSHAKE,
    )
    found = played.find("server/discover", STATELESS_META)
    assert isinstance(found, Found)
    assert refusal(played.find("tools/list", STATELESS_META)).code == -32600


def test_a_recording_of_both_eras_serves_both(tmp_path: Path) -> None:
    played = repertoire(
        tmp_path / "x",
        *HANDSHAKE,
        client(request(1, "tools/list", STATELESS_META)),
        server(result(1, {})),
    )
    assert isinstance(played.find("tools/list", STATELESS_META), Found)
    assert isinstance(played.find("tools/list", {}), Found)


def test_a_recording_that_does_not_say_of_which_era_it_is_serves_anybody(tmp_path: Path) -> None:
    played = repertoire(
        tmp_path / "x",
        client(request(0, "initialize")),
        server(result(0, "odd")),
        client(request(1, "tools/list")),
        server(result(1, {})),
    )
    assert isinstance(played.find("tools/list", STATELESS_META), Found)
    assert refusal(played.find("server/discover", {})).code == -32601
