"""The checks of headers before the body is read: Host, Origin, Content-Type, Accept and Content-Length.

Sections are those of 2026-07-28 basic/transports/streamable-http unless another document is named.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.errors import UsageError
from jackstay.protocol._versions import VERSIONS
from jackstay.protocol.http._headers import fold_headers
from jackstay.protocol.http._request_checks import (
    MAX_CACHED_NAMES,
    Accepts,
    Access,
    Endpoint,
    ErrorResponse,
    RequestRefused,
    _check_names,
    check_access,
    check_request,
    read_accept,
    too_large,
    with_port,
)

METHODS = ("GET", "POST", "DELETE", "OPTIONS", "HEAD", "PUT", "get", "post", "")

LOCAL = Access.allow()
PUBLIC = Access.allow(
    ("mcp.example.com", "alt.example.com:8443"),
    ("https://app.example.com", "http://dev.example.com:3000", "null"),
)
NAMED = Access.allow(("mcp.example.com",))
ANY_HOST = Access.allow(("*",))
ANYTHING = Access.allow(("*",), ("*",))

# access, Host, Origin (None: no such header), status (None: accepted)
ACCESS = [
    # conformance dns-rebinding-protection: `localhost`, `127.0.0.1` and `[::1]`, with or without a port
    (LOCAL, "localhost", None, None),
    (LOCAL, "localhost:8000", None, None),
    (LOCAL, "LOCALHOST:1", None, None),
    (LOCAL, "127.0.0.1", None, None),
    (LOCAL, "127.0.0.1:65535", None, None),
    (LOCAL, "[::1]", None, None),
    (LOCAL, "[::1]:8000", None, None),
    (LOCAL, "evil.example.com", None, 403),
    (LOCAL, "evil.example.com:8000", None, 403),
    (LOCAL, "localhost.evil.example.com", None, 403),
    (LOCAL, "127.0.0.1.evil.example.com", None, 403),
    (LOCAL, "localhost.", None, 403),
    (LOCAL, "0.0.0.0", None, 403),
    (LOCAL, "[::]", None, 403),
    (LOCAL, "192.168.1.1", None, 403),
    # RFC 9112, 3.2: without a valid Host, 400
    (LOCAL, None, None, 400),
    (LOCAL, "", None, 400),
    (LOCAL, "localhost:", None, 400),
    (LOCAL, "localhost:http", None, 400),
    (LOCAL, "localhost:123456", None, 400),
    (LOCAL, "user@localhost", None, 400),
    (LOCAL, "http://localhost", None, 400),
    (LOCAL, "localhost/", None, 400),
    (LOCAL, "localhost, localhost", None, 400),
    (LOCAL, "localhost\nlocalhost", None, 400),  # sent twice
    (LOCAL, "local host", None, 400),
    (LOCAL, "::1", None, 400),
    # "If the Origin header is present and invalid, servers MUST respond with HTTP 403"
    (LOCAL, "localhost", "http://localhost", None),
    (LOCAL, "localhost:8000", "http://localhost:3000", None),
    (LOCAL, "localhost", "https://127.0.0.1:6274", None),
    (LOCAL, "localhost", "http://[::1]:5173", None),
    (LOCAL, "localhost", "HTTP://LOCALHOST", None),
    (LOCAL, "localhost", "http://evil.example.com", 403),
    (LOCAL, "localhost", "http://localhost.evil.example.com", 403),
    (LOCAL, "localhost", "null", 403),
    (LOCAL, "localhost", "", 403),
    (LOCAL, "localhost", "localhost", 403),
    (LOCAL, "localhost", "http://localhost/", 403),
    (LOCAL, "localhost", "http://user@localhost", 403),
    (LOCAL, "localhost", "chrome-extension://localhost", 403),
    (LOCAL, "localhost", "http://localhost\nhttp://localhost", 403),
    # configured hosts and origins
    (PUBLIC, "mcp.example.com", None, None),
    (PUBLIC, "mcp.example.com:443", None, None),
    (PUBLIC, "alt.example.com:8443", None, None),
    (PUBLIC, "alt.example.com", None, 403),
    (PUBLIC, "alt.example.com:8444", None, 403),
    (PUBLIC, "localhost", None, 403),
    (PUBLIC, "mcp.example.com", "https://app.example.com", None),
    (PUBLIC, "mcp.example.com", "https://app.example.com:8000", None),
    (PUBLIC, "mcp.example.com", "http://app.example.com", 403),
    (PUBLIC, "mcp.example.com", "http://dev.example.com:3000", None),
    (PUBLIC, "mcp.example.com", "http://dev.example.com:3001", 403),
    (PUBLIC, "mcp.example.com", "http://dev.example.com", 403),
    (PUBLIC, "mcp.example.com", "null", None),
    (PUBLIC, "mcp.example.com", "https://mcp.example.com", 403),
    (NAMED, "mcp.example.com", "https://mcp.example.com", None),
    (NAMED, "mcp.example.com", "https://other.example.com", 403),
    (Access.allow(("h",), ("https://a:443",)), "h", "https://a", None),
    (Access.allow(("h",), ("https://a:443",)), "h", "https://a:444", 403),
    (Access.allow(("h",), ("vscode-webview://a",)), "h", "vscode-webview://a", None),
    (ANY_HOST, "anything.example", None, None),
    (ANY_HOST, None, None, None),
    (ANY_HOST, "anything.example", "https://anything.example", 403),
    (ANYTHING, "anything.example", "https://evil.example", None),
]  # fmt: skip


def refusal_of(endpoint: Endpoint, method: str, headers: dict[str, str]) -> ErrorResponse | None:
    try:
        check_request(endpoint, method, headers)
    except RequestRefused as refused:
        return refused.response
    return None


def test_host_and_origin(subtests: pytest.Subtests):
    for access, host, origin, status in ACCESS:
        with subtests.test(access=access, host=host):
            headers = {name: value for name, value in (("host", host), ("origin", origin)) if value is not None}
            refusal = check_access(access, headers)
            assert (None if refusal is None else refusal.status) == status
            for method in METHODS:
                found = refusal_of(Endpoint(access=access), method, {**headers, "content-type": "application/json"})
                assert (None if found is None else found.status) == status


def test_invalid_hosts_and_origins_are_refused(subtests: pytest.Subtests):
    for hosts, origins, path in [
        (("http://localhost",), None, "hosts"),
        (("localhost:*",), None, "hosts"),
        (("*.example.com",), None, "hosts"),
        (("",), None, "hosts"),
        (("localhost",), ("localhost",), "origins"),
        (("localhost",), ("https://a/",), "origins"),
    ]:
        with subtests.test(hosts=hosts, origins=origins, path=path):
            with pytest.raises(UsageError) as caught:
                Access.allow(hosts, origins)
            assert caught.value.path == path


def test_an_endpoint_refuses_unknown_versions(subtests: pytest.Subtests):
    for versions in [(), ("2025-06-18", "1999-01-01")]:
        with subtests.test(versions=versions):
            with pytest.raises(UsageError, match=r"invalid versions .*; use some of 2024-11-05") as caught:
                Endpoint(versions=versions)
            assert caught.value.path == "versions"
            assert Endpoint().versions == VERSIONS


# --- Accept ---

ACCEPT = [
    # value, JSON, stream
    (None, True, True),
    ("application/json, text/event-stream", True, True),
    ("text/event-stream,application/json", True, True),
    ("APPLICATION/JSON; charset=utf-8 , Text/Event-Stream;q=0.9", True, True),
    ("*/*", True, True),
    ("application/json", True, False),
    ("text/event-stream", False, True),
    ("application/*", True, False),
    ("text/*", False, True),
    ("text/html", False, False),
    ("", False, False),
    ("text/html, */*;q=0.1", True, True),
    # RFC 9110, 12.5.1: q=0 is "not acceptable", the most specific range wins
    ("application/json;q=0, */*", False, True),
    ("*/*, application/json; q=0.000", False, True),
    ("*/*;q=0", False, False),
    ("application/*;q=0, application/json", True, False),
    ("text/*;q=0, text/event-stream;q=0.001", False, True),
    ("application/json;q=0, application/json", True, False),
    ("application/json;q=abc", True, False),
    ("application/json;Q=0", False, False),
    ("application/json;version=0", True, False),
    ("application/json;q=", True, False),
    (";q=0,,;", False, False),
    ("application/jsonp, text/event-streams", False, False),
]


def test_accept(subtests: pytest.Subtests):
    for value, json, stream in ACCEPT:
        with subtests.test(value=value, json=json, stream=stream):
            assert read_accept(value) == Accepts(json, stream)
            headers = {"host": "localhost", "content-type": "application/json"}
            if value is not None:
                headers["accept"] = value
            found = refusal_of(Endpoint(), "POST", headers)
            if json or stream:
                assert found is None
            else:
                assert found is not None
                assert found.status == 406


# method, sessions, Accept, status (None: accepted). 2025-11-25 basic/transports, "Listening for Messages".
VERB_ACCEPT = [
    ("GET", True, "text/event-stream", None),
    ("GET", True, "application/json", 406),
    ("GET", False, "application/json", None),  # refused later with 405, which is more specific
    ("get", True, "application/json", None),  # the same; RFC 9110, 9.1: methods are case-sensitive
    ("DELETE", True, "text/html", None),
    ("OPTIONS", True, "text/html", None),
    ("HEAD", True, "text/html", None),
]


def test_accept_of_other_verbs(subtests: pytest.Subtests):
    for method, has_sessions, accept, status in VERB_ACCEPT:
        with subtests.test(method=method, has_sessions=has_sessions):
            endpoint = Endpoint(has_sessions=has_sessions)
            found = refusal_of(endpoint, method, {"host": "localhost", "accept": accept})
            assert (None if found is None else found.status) == status


# --- headers of the body ---

CONTENT = [
    ({"content-type": "application/json"}, None),
    ({"content-type": "Application/JSON"}, None),
    ({"content-type": "application/json; charset=utf-8"}, None),
    ({"content-type": 'application/json;charset="UTF-8"'}, None),
    ({"content-type": "application/json; charset=utf8; x=y"}, None),
    ({"content-type": "application/json;"}, None),
    ({}, 415),
    ({"content-type": ""}, 415),
    ({"content-type": "text/plain"}, 415),  # a page may send this without a CORS preflight
    ({"content-type": "text/plain; application/json"}, 415),
    ({"content-type": "application/json-rpc"}, 415),
    ({"content-type": "application/vnd.api+json"}, 415),
    ({"content-type": "application/x-www-form-urlencoded"}, 415),
    ({"content-type": "application/json\napplication/json"}, 415),
    ({"content-type": "application/json; charset=latin-1"}, 415),
    ({"content-type": "application/json; charset=utf-16"}, 415),
    ({"content-type": "application/json", "content-encoding": "gzip"}, 415),
    ({"content-type": "application/json", "content-encoding": "identity"}, None),
    ({"content-type": "application/json", "content-length": "0"}, None),
    ({"content-type": "application/json", "content-length": "100"}, None),
    ({"content-type": "application/json", "content-length": "0100"}, None),
    ({"content-type": "application/json", "content-length": "101"}, 413),
    ({"content-type": "application/json", "content-length": "9" * 5000}, 413),
    ({"content-type": "application/json", "content-length": "-1"}, 400),
    ({"content-type": "application/json", "content-length": "1e3"}, 400),
    ({"content-type": "application/json", "content-length": ""}, 400),
    ({"content-type": "application/json", "content-length": "5, 5"}, 400),
    ({"content-type": "application/json", "content-length": "5\n5"}, 400),
    ({"content-type": "application/json", "content-length": "\u0661"}, 400),
]


def test_the_headers_of_a_body(subtests: pytest.Subtests):
    for headers, status in CONTENT:
        with subtests.test(headers=headers, status=status):
            endpoint = Endpoint(max_body_bytes=100)
            found = refusal_of(endpoint, "POST", {"host": "localhost", **headers})
            assert (None if found is None else found.status) == status
            assert found is None or found.code == -32600
            for method in set(METHODS) - {"POST"}:
                assert refusal_of(endpoint, method, {"host": "localhost", **headers}) is None


def test_two_body_lengths_close_the_connection(subtests: pytest.Subtests):
    """Request smuggling (RFC 9112, section 6.1)."""
    for method in METHODS:
        with subtests.test(method=method):
            headers = {"host": "localhost", "content-type": "application/json", "content-length": "5"}
            found = refusal_of(Endpoint(), method, {**headers, "transfer-encoding": "chunked"})
            assert found is not None
            assert (found.status, found.headers) == (400, (("connection", "close"),))


def test_a_body_over_the_limit():
    refusal = too_large(100)
    assert (refusal.status, refusal.code) == (413, -32600)
    assert "100 bytes" in refusal.message


def test_the_methods_that_an_endpoint_allows(subtests: pytest.Subtests):
    for has_sessions, allowed in [(False, "POST, OPTIONS"), (True, "GET, POST, DELETE, OPTIONS")]:
        with subtests.test(has_sessions=has_sessions, allowed=allowed):
            assert Endpoint(has_sessions=has_sessions).allowed == allowed


# --- any input ---

NAMES = st.sampled_from([b"host", b"origin", b"accept", b"content-type", b"content-length", b"content-encoding"])


@given(st.lists(st.tuples(NAMES, st.binary(max_size=30)), max_size=8), st.sampled_from(METHODS), st.booleans())
def test_any_headers_are_accepted_or_refused_with_a_status(pairs, method, has_sessions):
    found = refusal_of(Endpoint(has_sessions=has_sessions), method, fold_headers(pairs))
    assert found is None or found.status in {400, 403, 406, 413, 415}


def test_the_cache_of_host_and_origin_is_bounded():
    _check_names.cache_clear()
    for n in range(20):
        origin = f"https://{n}{'x' * MAX_CACHED_NAMES}.example"
        assert check_access(LOCAL, fold_headers([(b"host", b"localhost"), (b"origin", origin.encode())])).status == 403
        assert check_access(LOCAL, fold_headers([(b"host", f"{n}{'x' * MAX_CACHED_NAMES}".encode())])).status == 403
    assert _check_names.cache_info().currsize == 0
    check_access(LOCAL, fold_headers([(b"host", b"first.example")]))
    assert _check_names.cache_info().currsize == 1
    assert _check_names.cache_info().maxsize * MAX_CACHED_NAMES < 2**20


def test_with_port(subtests: pytest.Subtests) -> None:
    for origin, expected in [
        ("https://a.example", "https://a.example:443"),
        ("http://a.example", "http://a.example:80"),
        ("https://a.example:8443", "https://a.example:8443"),
        ("ext://abc", "ext://abc"),
        ("null", "null"),
        ("*", "*"),
    ]:
        with subtests.test(origin=origin, expected=expected):
            assert with_port(origin) == expected
