"""Parsing of outgoing frames."""

from types import SimpleNamespace
from typing import Any

import pytest

from jackstay.errors import UsageError
from jackstay.protocol import REVISIONS
from jackstay.protocol.http import ParamHeader, Sent
from jackstay.protocol.wire import encode_error, encode_notification, encode_request, encode_result
from jackstay.transport.http._posts import Post

META = b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}'


def post(frame: bytes, *, has_agreed: bool = False) -> Post:
    transport: Any = SimpleNamespace(has_agreed=has_agreed)
    return Post(transport, frame)


def test_the_parts_for_headers_are_parsed() -> None:
    for frame, expected in [
        (encode_request(7, "ping"), {"method": "ping", "id": 7}),
        (
            encode_request(7, "tools/call", b'{"name":"a","arguments":{"name":"b"}}', META),
            {"method": "tools/call", "id": 7, "name": "a", "version": "2026-07-28"},
        ),
        (encode_request(7, "resources/read", b'{"uri":"file:///a"}'), {"id": 7, "name": "file:///a"}),
        (encode_request(7, "tasks/get", b'{"taskId":"t"}'), {"id": 7, "name": "t"}),
        (encode_request(7, "tools/list", b'{"name":"a"}'), {"id": 7, "name": None}),
        (
            encode_request(7, "tools/call", b'{"name":5,"_meta":{"a":1}}'),
            {"id": 7, "name": None, "version": None},
        ),
        (
            encode_notification("notifications/initialized"),
            {"method": "notifications/initialized", "id": 0},
        ),
        (encode_notification("notifications/cancelled", b'{"requestId":9}'), {"id": 0, "cancels": 9}),
        (encode_notification("notifications/cancelled", b'{"requestId":"x"}'), {"cancels": None}),
        (encode_request(7, "x", b'{"requestId":9}'), {"cancels": None}),
        (encode_result("q", b'{"name":"x"}'), {"method": "", "id": 0}),
        (encode_result(3, b"{}"), {"method": "", "id": 0}),
        (encode_error(3, -1, "no"), {"method": "", "id": 0}),
    ]:
        out = post(frame)
        assert {name: getattr(out, name) for name in expected} == expected
        assert out.frame is frame


def test_invalid_messages_are_rejected() -> None:
    for frame in [b"", b"[]", b"7", b'{"method":1}', b'{"params":[]}', b"\xff"]:
        with pytest.raises(UsageError, match="not a JSON-RPC message"):
            post(frame)


def test_the_kind_of_a_message() -> None:
    for frame, has_agreed, kind in [
        (encode_request(1, "server/discover"), False, Sent.PROBE),
        (encode_request(1, "server/discover"), True, Sent.REQUEST),
        (encode_request(1, "initialize"), False, Sent.INITIALIZE),
        (encode_request(1, "initialize"), True, Sent.INITIALIZE),
        (encode_request(1, "tools/call"), False, Sent.REQUEST),
        (encode_notification("notifications/initialized"), True, Sent.NOTIFICATION),
        (encode_result(1, b"{}"), False, Sent.NOTIFICATION),
    ]:
        assert post(frame, has_agreed=has_agreed).sent_as() is kind


def test_the_revision_is_that_of_the_body_or_negotiated() -> None:
    agreed, stateless = REVISIONS["2025-06-18"], REVISIONS["2026-07-28"]
    assert post(encode_request(1, "x", b"{}", META)).revision(agreed) is stateless
    assert post(encode_request(1, "x", b"{}", META.replace(b"2026", b"1999"))).revision(agreed) is agreed
    assert post(encode_request(1, "x")).revision(agreed) is agreed
    assert post(encode_request(1, "initialize")).revision(agreed) is None
    assert post(encode_request(1, "subscriptions/listen")).is_long_lived


def test_header_params_are_read_from_the_frame() -> None:
    for params, pairs in [
        (b'{"arguments":{"region":"eu"}}', (("Mcp-Param-Region", "eu"),)),
        (b'{"arguments":{}}', ()),
        (b'{"arguments":[1]}', ()),
        (b"{}", ()),
        (b"", ()),
    ]:
        row = ParamHeader(("region",), "Region", "string")
        out = post(encode_request(1, "tools/call", params) if params else encode_request(1, "tools/call"))
        assert out.param_headers([row]) == pairs
        assert out.param_headers([]) == ()
