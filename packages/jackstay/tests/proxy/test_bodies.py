"""Conversion of encoded params and results."""

import json
from typing import Any

from msgspec import Raw

from jackstay.protocol import METHODS
from jackstay.proxy import _bodies as bodies

VERSION = "io.modelcontextprotocol/protocolVersion"
LEVEL = "io.modelcontextprotocol/logLevel"


def test_split_separates_meta_and_keeps_the_rest_unchanged() -> None:
    """Params that cannot be decoded are forwarded: the server reports what is wrong."""
    rows: list[tuple[bytes | None, bytes, dict[str, bytes]]] = [
        (None, b"{}", {}),
        (b'{ "a" : 1.50 }', b'{ "a" : 1.50 }', {}),
        (b'{"a":{"_meta":1}}', b'{"a":{"_meta":1}}', {}),
        (b'{"a":"\\u00e4"}', b'{"a":"\\u00e4"}', {}),
        (b'{"_meta":{"x":[ 1 ]},"a":1.50}', b'{"a":1.50}', {"x": b"[ 1 ]"}),
        (b'{"\\u005fmeta":{"x":1}}', b"{}", {"x": b"1"}),
        (b'{"_meta":5,"a":1}', b'{"_meta":5,"a":1}', {}),
        (b'["_meta"]', b'["_meta"]', {}),
    ]
    for params, body, meta in rows:
        rest, members = bodies.split(params)
        assert rest == body, params
        assert {key: bytes(value) for key, value in members.items()} == meta, params


def test_client_members_of_meta_are_not_forwarded() -> None:
    meta = {VERSION: Raw(b'"x"'), "progressToken": Raw(b"1"), LEVEL: Raw(b'"info"'), "own": Raw(b"[1]")}
    assert json.loads(b"{%b}" % bodies.forwarded_meta(meta, is_stateless=True)) == {LEVEL: "info", "own": [1]}
    assert bodies.forwarded_meta(meta, is_stateless=False) == b'"own":[1]'
    assert bodies.forwarded_meta({VERSION: Raw(b'"x"')}, is_stateless=True) == b""


def test_client_meta_contains_capabilities_and_info() -> None:
    meta = json.loads(b"{%b}" % bodies.client_meta(b'{"roots":{},"tasks":{}}', b'{"name":"n"}'))
    assert meta == {
        "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
        "io.modelcontextprotocol/clientInfo": {"name": "n"},
    }
    assert b"clientInfo" not in bodies.client_meta(b"{}", b"")
    assert bodies.client_meta(b"[]", b"") == b'"io.modelcontextprotocol/clientCapabilities":{}'
    large = b'{"x":"%b"}' % (b"x" * bodies.MAX_CACHED_BYTES)
    cached = bodies._cached_client_meta.cache_info().currsize
    assert large in bodies.client_meta(large, b"")
    assert bodies._cached_client_meta.cache_info().currsize == cached, "large values are not cached"


def test_downstream_capabilities() -> None:
    rows: list[tuple[Any, bool, Any]] = [
        ({}, False, {}),
        ({"tools": {}, "tasks": {}}, False, {"tools": {"listChanged": True}}),
        ({"tools": {}, "tasks": {"list": {}}}, True, {"tools": {"listChanged": True}, "tasks": {"list": {}}}),
        ({"resources": {"subscribe": True}}, False, {"resources": {"subscribe": True, "listChanged": True}}),
        ({"prompts": None, "x": [1]}, False, {"prompts": None, "x": [1]}),
        (
            {"extensions": {bodies.TASKS_EXTENSION: {}, "other": {}}},
            False,
            {"extensions": {"other": {}}},
        ),
        ({"extensions": {"other": {}}}, False, {"extensions": {"other": {}}}),
    ]
    for capabilities, is_dedicated, declared in rows:
        encoded, names = bodies.downstream_capabilities(json.dumps(capabilities).encode(), is_dedicated=is_dedicated)
        assert json.loads(encoded) == declared, capabilities
        assert names == set(declared), capabilities


def test_for_stateless_adds_caching_hints() -> None:
    for method, result, expected in (
        ("tools/call", b'{"content":[]}', b'{"content":[]}'),
        ("tools/list", b"{}", b'{"ttlMs":0,"cacheScope":"private"}'),
        ("tools/list", b'{ "tools":[]}', b'{"ttlMs":0,"cacheScope":"private","tools":[]}'),
        ("tools/list", b'{"ttlMs":5}', b'{"ttlMs":5}'),
    ):
        assert bodies.for_stateless(result, METHODS[method]) == expected, result


def test_parse_input_required_goes_by_result_type() -> None:
    for result, is_required in (
        (b'{"resultType":"input_required","requestState":"s"}', True),
        (b'{"resultType":"complete","content":"input_required"}', False),
        (b'{"resultType":"complete","content":[{"x":"input_required"}]}', False),
        (b'{"resultType":"input_required","inputRequests":5}', False),
        (b'{"content":[]}', False),
    ):
        assert (bodies.parse_input_required(result) is not None) is is_required, result


def test_next_round_params_keep_the_request_and_the_exact_state() -> None:
    required = bodies.parse_input_required(
        b'{"resultType":"input_required","inputRequests":{"k":{"method":"m"}},"requestState":"\\u00e4"}'
    )
    assert required is not None
    again = bodies.next_round_params(
        b'{"name":"t","requestState":"old","inputResponses":{}}', required, {"k": Raw(b"[1]")}
    )
    assert again == b'{"name":"t","inputResponses":{"k":[1]},"requestState":"\\u00e4"}'
    bare = bodies.parse_input_required(b'{"resultType":"input_required"}')
    assert bare is not None
    assert bodies.next_round_params(b'{"name":"t","requestState":"old"}', bare, {}) == b'{"name":"t"}'


def test_split_round() -> None:
    rows: list[tuple[bytes, bytes, str | None, dict[str, bytes]]] = [
        (b'{"name":"t"}', b'{"name":"t"}', None, {}),
        (b'{"name":"t","requestState":"s"}', b'{"name":"t"}', "s", {}),
        (b'{"name":"t","requestState":5,"inputResponses":{"k":1}}', b'{"name":"t"}', None, {"k": b"1"}),
        (b'{"name":"t","requestState":"s","inputResponses":[]}', b'{"name":"t"}', None, {}),
    ]
    for params, body, state, responses in rows:
        rest, found_state, found = bodies.split_round(params)
        assert (rest, found_state) == (body, state), params
        assert {key: bytes(value) for key, value in found.items()} == responses, params


def test_input_required_result() -> None:
    assert json.loads(bodies.input_required_result("s", {"k": bodies.InputRequest("m", Raw(b'{"a":1}'))})) == {
        "resultType": "input_required",
        "requestState": "s",
        "inputRequests": {"k": {"method": "m", "params": {"a": 1}}},
    }


def test_without_subscription_removes_the_subscription_id() -> None:
    for params, expected in (
        (b'{"uri":"u"}', b'{"uri":"u"}'),
        (b'{"_meta":{"io.modelcontextprotocol/subscriptionId":1},"uri":"u"}', b'{"uri":"u"}'),
        (b'{"_meta":{"io.modelcontextprotocol/subscriptionId":1,"a":2}}', b'{"_meta":{"a":2}}'),
        (
            b'{"x":"io.modelcontextprotocol/subscriptionId"}',
            b'{"x":"io.modelcontextprotocol/subscriptionId"}',
        ),
        (b'["io.modelcontextprotocol/subscriptionId"]', b'["io.modelcontextprotocol/subscriptionId"]'),
    ):
        assert bodies.without_subscription(params) == expected, params


INFO = b'"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}'


def test_for_handshake_removes_stateless_members() -> None:
    rows: list[tuple[bytes, bytes | None]] = [
        (b'{ "content":[ ] }', b'{ "content":[ ] }'),
        (b'{"resultType":"complete","content":[]}', b'{"content":[]}'),
        (b'{"resultType":"complete","_meta":{%b},"content":[]}' % INFO, b'{"content":[]}'),
        (b'{"_meta":{%b,"own":1},"content":[]}' % INFO, b'{"_meta":{"own":1},"content":[]}'),
        (b'{"content":[{"type":"text","text":"io.modelcontextprotocol/serverInfo"}]}', None),
        (b'{"_meta":{"own":"io.modelcontextprotocol/serverInfo"}}', None),
        (b'{"_meta":[%b]}' % b'"io.modelcontextprotocol/serverInfo"', None),
        (b'{"_meta":7,"x":"io.modelcontextprotocol/serverInfo"}', None),
    ]
    for result, expected in rows:
        assert bodies.for_handshake(result) == (result if expected is None else expected), result
