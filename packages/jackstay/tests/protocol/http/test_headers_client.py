"""The headers of a client, for every kind of request in every revision.

"M" is 2026-07-28 basic/transports/streamable-http, "L" is 2025-11-25 basic/transports.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.errors import ProtocolError, UsageError
from jackstay.protocol._versions import REVISIONS, VERSIONS
from jackstay.protocol.http._headers import (
    MAX_EVENT_ID_BYTES,
    decode_header_value,
    delete_headers,
    listen_headers,
    new_session_id,
    post_headers,
)

POST = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
STATELESS = REVISIONS["2026-07-28"]

SENT = [
    # revision, method, keywords, headers in addition to those of every POST
    (None, "initialize", {}, {}),  # L "Protocol Version Header": on all subsequent requests
    ("2024-11-05", "tools/list", {}, {}),
    ("2025-03-26", "tools/list", {}, {}),
    ("2025-03-26", "tools/list", {"session_id": "s"}, {"Mcp-Session-Id": "s"}),
    ("2025-06-18", "tools/list", {}, {"MCP-Protocol-Version": "2025-06-18"}),
    (
        "2025-11-25",
        "tools/call",
        {"name": "a", "session_id": "s"},
        {"MCP-Protocol-Version": "2025-11-25", "Mcp-Session-Id": "s"},
    ),
    ("2025-11-25", "", {"session_id": "s"}, {"MCP-Protocol-Version": "2025-11-25", "Mcp-Session-Id": "s"}),
    ("2026-07-28", "tools/list", {}, {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}),
    (
        "2026-07-28",
        "tools/call",
        {"name": "a"},
        {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "a"},
    ),
    (
        "2026-07-28",
        "tools/call",
        {"name": ""},
        {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": ""},
    ),
    (
        "2026-07-28",
        "prompts/get",
        {"name": "é"},
        {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "prompts/get", "Mcp-Name": "=?base64?w6k=?="},
    ),
    (
        "2026-07-28",
        "resources/read",
        {"name": "file:///a b"},
        {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "resources/read", "Mcp-Name": "file:///a b"},
    ),
    (
        "2026-07-28",
        "tasks/update",
        {"name": "t"},
        {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tasks/update", "Mcp-Name": "t"},
    ),
    ("2026-07-28", "tools/list", {"name": "a"}, {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}),
    (
        "2026-07-28",
        "tools/call",
        {"name": "a", "params": (("Mcp-Param-Region", "x"),)},
        {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "a", "Mcp-Param-Region": "x"},
    ),
    ("2025-11-25", "tools/call", {"params": (("Mcp-Param-Region", "x"),)}, {"MCP-Protocol-Version": "2025-11-25"}),
]


def test_the_headers_of_a_post(subtests: pytest.Subtests):
    for version, method, keywords, expected in SENT:
        with subtests.test(version=version, method=method):
            revision = None if version is None else REVISIONS[version]
            assert dict(post_headers(revision, method, **keywords)) == POST | expected


def test_a_method_that_is_not_visible_ascii_is_refused(subtests: pytest.Subtests):
    for method in ["méthode", "a b", "a\r\nX: y", "\x7f"]:
        with subtests.test(method=method):
            with pytest.raises(UsageError) as caught:
                post_headers(STATELESS, method)
            assert caught.value.path == "method"
            assert dict(post_headers(REVISIONS["2025-11-25"], method)).keys() == {*POST, "MCP-Protocol-Version"}


LISTENING = [
    (None, {}, {}),
    ("2025-03-26", {"session_id": "s"}, {"Mcp-Session-Id": "s"}),
    (
        "2025-11-25",
        {"session_id": "s", "last_event_id": "e-1"},
        {"MCP-Protocol-Version": "2025-11-25", "Mcp-Session-Id": "s", "Last-Event-ID": "e-1"},
    ),
    ("2025-06-18", {"last_event_id": "a b"}, {"MCP-Protocol-Version": "2025-06-18", "Last-Event-ID": "a b"}),
    ("2025-03-26", {"last_event_id": "é"}, {"Last-Event-ID": "\u00c3\u00a9"}),  # UTF-8, as a Latin-1 string
    ("2025-03-26", {"last_event_id": "x" * MAX_EVENT_ID_BYTES}, {"Last-Event-ID": "x" * MAX_EVENT_ID_BYTES}),
]


def test_the_headers_of_a_get(subtests: pytest.Subtests):
    """L "Listening for Messages" and "Resumability and Redelivery"."""
    for version, keywords, expected in LISTENING:
        with subtests.test(version=version, keywords=keywords, expected=expected):
            revision = None if version is None else REVISIONS[version]
            assert dict(listen_headers(revision, **keywords)) == {"Accept": "text/event-stream"} | expected


def test_an_event_id_that_a_header_cannot_contain_is_refused(subtests: pytest.Subtests):
    for event_id in [" a", "a ", "\ta", "a\x01", "a\x7f", "a\nb", "\ud800", "x" * (MAX_EVENT_ID_BYTES + 1)]:
        with subtests.test(event_id=event_id), pytest.raises(ProtocolError, match="cannot be sent in a header"):
            listen_headers(REVISIONS["2025-11-25"], last_event_id=event_id)


def test_the_headers_of_a_delete():
    assert dict(delete_headers(REVISIONS["2025-11-25"], "s")) == {
        "MCP-Protocol-Version": "2025-11-25",
        "Mcp-Session-Id": "s",
    }
    assert dict(delete_headers(REVISIONS["2025-03-26"], "s")) == {"Mcp-Session-Id": "s"}


def test_the_session_id_of_an_initialize_result(subtests: pytest.Subtests):
    for headers, session_id in [({}, None), ({"mcp-session-id": "a-1!~"}, "a-1!~")]:
        with subtests.test(headers=headers, session_id=session_id):
            assert new_session_id(headers) == session_id


def test_a_session_id_that_cannot_be_echoed_is_refused(subtests: pytest.Subtests):
    """L "Session Management": MUST only contain visible ASCII characters."""
    for value in ["", "a b", "a\nb", "é", "a\x7f"]:
        with subtests.test(value=value):
            with pytest.raises(ProtocolError) as caught:
                new_session_id({"mcp-session-id": value})
            assert caught.value.path == "Mcp-Session-Id"


@given(st.sampled_from(VERSIONS), st.sampled_from(["tools/call", "tools/list"]), st.text())
def test_a_name_cannot_inject_headers(version, method, name):
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
