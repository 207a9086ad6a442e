"""Parsing of outgoing frames."""

import pytest

from jackstay.errors import UsageError
from jackstay.protocol import REVISIONS
from jackstay.protocol.http import ParamHeader, Sent
from jackstay.protocol.wire import encode_error, encode_notification, encode_request, encode_result
from jackstay.transport.http._posts import Outgoing, read_outgoing

META = b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}'


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
            {"method": "notifications/initialized", "id": None},
        ),
        (encode_notification("notifications/cancelled", b'{"requestId":9}'), {"id": None, "cancels": 9}),
        (encode_notification("notifications/cancelled", b'{"requestId":"x"}'), {"cancels": None}),
        (encode_request(7, "x", b'{"requestId":9}'), {"cancels": None}),
        (encode_result("q", b'{"name":"x"}'), {"method": "", "id": None}),
        (encode_result(3, b"{}"), {"method": "", "id": None}),
        (encode_error(3, -1, "no"), {"method": "", "id": None}),
    ]:
        out = read_outgoing(frame)
        assert {name: getattr(out, name) for name in expected} == expected
        assert out.frame is frame


def test_invalid_messages_are_rejected() -> None:
    for frame in [b"", b"[]", b"7", b'{"method":1}', b'{"params":[]}', b"\xff"]:
        with pytest.raises(UsageError, match="not a JSON-RPC message"):
            read_outgoing(frame)


def test_the_kind_of_a_message() -> None:
    for method, id, has_agreed, kind in [
        ("server/discover", 1, False, Sent.PROBE),
        ("server/discover", 1, True, Sent.REQUEST),
        ("initialize", 1, False, Sent.INITIALIZE),
        ("initialize", 1, True, Sent.INITIALIZE),
        ("tools/call", 1, False, Sent.REQUEST),
        ("notifications/initialized", None, True, Sent.NOTIFICATION),
        ("", None, False, Sent.NOTIFICATION),
    ]:
        assert Outgoing(b"", method, id).kind(has_agreed) is kind


def test_the_revision_is_that_of_the_body_or_negotiated() -> None:
    agreed, stateless = REVISIONS["2025-06-18"], REVISIONS["2026-07-28"]
    assert Outgoing(b"", "x", 1, version="2026-07-28").revision(agreed) is stateless
    assert Outgoing(b"", "x", 1, version="1999-01-01").revision(agreed) is agreed
    assert Outgoing(b"", "x", 1).revision(agreed) is agreed
    assert Outgoing(b"", "initialize", 1).revision(agreed) is None
    assert Outgoing(b"", "subscriptions/listen", 1).is_long_lived


def test_header_params_are_read_from_the_frame() -> None:
    for params, pairs in [
        (b'{"arguments":{"region":"eu"}}', (("Mcp-Param-Region", "eu"),)),
        (b'{"arguments":{}}', ()),
        (b'{"arguments":[1]}', ()),
        (b"{}", ()),
        (b"", ()),
    ]:
        row = ParamHeader(("region",), "Region", "string")
        out = read_outgoing(encode_request(1, "tools/call", params) if params else encode_request(1, "tools/call"))
        assert out.param_headers([row]) == pairs
        assert out.param_headers([]) == ()
