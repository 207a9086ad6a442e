"""The headers a client sends, for every kind of request in every revision.

"M" is 2026-07-28 basic/transports/streamable-http, "L" is 2025-11-25 basic/transports.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.errors import ProtocolError, UsageError
from jackstay.protocol._versions import REVISIONS, VERSIONS
from jackstay.protocol.http._client import (
    MAX_EVENT_ID_BYTES,
    delete_headers,
    listen_headers,
    new_session_id,
    post_headers,
)
from jackstay.protocol.http._headers import decode_header_value

POST = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
STATELESS = REVISIONS["2026-07-28"]

SENT = [
    # revision, method, keywords, headers beside those of every POST
    (None, "initialize", {}, {}),  # L "Protocol Version Header": on all subsequent requests
    ("2024-11-05", "tools/list", {}, {}),
    ("2025-03-26", "tools/list", {}, {}),
    ("2025-03-26", "tools/list", {"session_id": "s"}, {"Mcp-Session-Id": "s"}),
    ("2025-06-18", "tools/list", {}, {"MCP-Protocol-Version": "2025-06-18"}),
    ("2025-11-25", "tools/call", {"name": "a", "session_id": "s"}, {"MCP-Protocol-Version": "2025-11-25", "Mcp-Session-Id": "s"}),
    ("2025-11-25", "", {"session_id": "s"}, {"MCP-Protocol-Version": "2025-11-25", "Mcp-Session-Id": "s"}),
    ("2026-07-28", "tools/list", {}, {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}),
    ("2026-07-28", "tools/call", {"name": "a"}, {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "a"}),
    ("2026-07-28", "tools/call", {"name": ""}, {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": ""}),
    ("2026-07-28", "prompts/get", {"name": "é"},
     {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "prompts/get", "Mcp-Name": "=?base64?w6k=?="}),
    ("2026-07-28", "resources/read", {"name": "file:///a b"},
     {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "resources/read", "Mcp-Name": "file:///a b"}),
    ("2026-07-28", "tasks/update", {"name": "t"},
     {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tasks/update", "Mcp-Name": "t"}),
    ("2026-07-28", "tools/list", {"name": "a"}, {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}),
    ("2026-07-28", "tools/call", {"name": "a", "params": (("Mcp-Param-Region", "x"),)},
     {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "a", "Mcp-Param-Region": "x"}),
    ("2025-11-25", "tools/call", {"params": (("Mcp-Param-Region", "x"),)}, {"MCP-Protocol-Version": "2025-11-25"}),
]  # fmt: skip


@pytest.mark.parametrize(("version", "method", "keywords", "expected"), SENT)
def test_the_headers_of_a_post(version, method, keywords, expected):
    revision = None if version is None else REVISIONS[version]
    assert dict(post_headers(revision, method, **keywords)) == POST | expected


@pytest.mark.parametrize("method", ["méthode", "a b", "a\r\nX: y", "\x7f"])
def test_a_method_that_no_header_can_say_is_not_sent(method):
    with pytest.raises(UsageError) as caught:
        post_headers(STATELESS, method)
    assert caught.value.path == "method"
    assert dict(post_headers(REVISIONS["2025-11-25"], method)).keys() == {*POST, "MCP-Protocol-Version"}


LISTENING = [
    (None, {}, {}),
    ("2025-03-26", {"session_id": "s"}, {"Mcp-Session-Id": "s"}),
    ("2025-11-25", {"session_id": "s", "last_event_id": "e-1"},
     {"MCP-Protocol-Version": "2025-11-25", "Mcp-Session-Id": "s", "Last-Event-ID": "e-1"}),
    ("2025-06-18", {"last_event_id": "a b"}, {"MCP-Protocol-Version": "2025-06-18", "Last-Event-ID": "a b"}),
    ("2025-03-26", {"last_event_id": "é"}, {"Last-Event-ID": "\u00c3\u00a9"}),  # UTF-8, as Latin-1 text
    ("2025-03-26", {"last_event_id": "x" * MAX_EVENT_ID_BYTES}, {"Last-Event-ID": "x" * MAX_EVENT_ID_BYTES}),
]  # fmt: skip


@pytest.mark.parametrize(("version", "keywords", "expected"), LISTENING)
def test_the_headers_of_a_get(version, keywords, expected):
    """L "Listening for Messages" and "Resumability and Redelivery"."""
    revision = None if version is None else REVISIONS[version]
    assert dict(listen_headers(revision, **keywords)) == {"Accept": "text/event-stream"} | expected


@pytest.mark.parametrize(
    "event_id", [" a", "a ", "\ta", "a\x01", "a\x7f", "a\nb", "\ud800", "x" * (MAX_EVENT_ID_BYTES + 1)]
)
def test_an_event_id_that_cannot_be_given_back_is_said_so(event_id):
    with pytest.raises(ProtocolError, match="cannot be sent back"):
        listen_headers(REVISIONS["2025-11-25"], last_event_id=event_id)


def test_the_headers_of_a_delete():
    assert dict(delete_headers(REVISIONS["2025-11-25"], "s")) == {
        "MCP-Protocol-Version": "2025-11-25",
        "Mcp-Session-Id": "s",
    }
    assert dict(delete_headers(REVISIONS["2025-03-26"], "s")) == {"Mcp-Session-Id": "s"}


@pytest.mark.parametrize(("headers", "session_id"), [({}, None), ({"mcp-session-id": "a-1!~"}, "a-1!~")])
def test_the_session_id_of_an_initialize_result(headers, session_id):
    assert new_session_id(headers) == session_id


@pytest.mark.parametrize("value", ["", "a b", "a\nb", "é", "a\x7f"])
def test_a_session_id_that_could_not_be_echoed_is_refused(value):
    """L "Session Management": MUST only contain visible ASCII characters."""
    with pytest.raises(ProtocolError) as caught:
        new_session_id({"mcp-session-id": value})
    assert caught.value.path == "Mcp-Session-Id"


@given(st.sampled_from(VERSIONS), st.sampled_from(["tools/call", "tools/list"]), st.text())
def test_no_text_can_break_out_of_its_header(version, method, name):
    for _, value in post_headers(REVISIONS[version], method, name=name):
        assert all(" " <= char <= "~" or char == "\t" for char in value)
    named = dict(post_headers(STATELESS, "tools/call", name=name))["Mcp-Name"]
    assert decode_header_value(named) == name


@given(st.text(max_size=20))
def test_any_event_id_is_sent_exactly_or_not_at_all(event_id):
    try:
        sent = dict(listen_headers(None, last_event_id=event_id))
    except ProtocolError:
        return
    assert sent.get("Last-Event-ID", "").encode("latin-1").decode() == event_id
