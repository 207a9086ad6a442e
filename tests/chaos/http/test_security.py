"""A server process against malicious HTTP requests, written byte by byte.

Each test compares the responses with the ledger: a refused call must not have run, and the server must serve other
clients.
"""

import gzip
import json
import socket
import time
import zlib
from pathlib import Path

import pytest

from chaos.http.harm import (
    BODY_LIMIT,
    HARM,
    HEAD_LIMIT,
    HIDDEN,
    LIMITS,
    STATELESS_HEADERS,
    TIMEOUT,
    assert_no_harm,
    chunked_head,
    harm,
    still_serves,
)
from chaos.http.process import LedgerServer
from chaos.http.raw import (
    STATELESS,
    Raw,
    call,
    fetch,
    fields,
    in_session,
    message,
    open_session,
    request,
    stateless_call,
)


def test_the_malicious_calls_run_without_their_fault(tmp_path: Path) -> None:
    """Otherwise the tests below would pass without checking anything."""
    with LedgerServer(tmp_path, sessions=True, **LIMITS) as server:
        assert fetch(server.port, harm()).status == 200
        assert fetch(server.port, HIDDEN).status == 200
        assert server.runs == {"harm": 1, "harm-hidden": 1}


# --- Host and Origin --------------------------------------------------------------------------------------------------

FOREIGN_HOSTS = (
    "evil.example",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "localhost@evil.example",
    "evil.example#localhost",
    "localhost, evil.example",
    "localhost:80:80",
    "localhost:evil",
    "[::1",
    "0x7f.1",
    "2130706433",
    "",
)
FOREIGN_ORIGINS = (
    "http://evil.example",
    "null",
    "file://",
    "http://localhost.evil.example",
    "http://localhost@evil.example",
    "http://127.0.0.1.evil.example:80",
    "localhost",
    "http://localhost, http://evil.example",
    "",
)


def test_a_foreign_host_is_refused(server: LedgerServer, subtests: pytest.Subtests) -> None:
    """DNS rebinding: refused for every method, before anything else is checked."""
    for method in ("POST", "GET", "DELETE", "PUT"):
        with subtests.test(method=method):
            for host in FOREIGN_HOSTS:
                answer = fetch(server.port, harm(method, host=host))
                assert answer.status in (400, 403), host
            assert_no_harm(server)


def test_a_foreign_origin_is_refused(server: LedgerServer, subtests: pytest.Subtests) -> None:
    """An origin is refused even if an allowed name is its prefix or suffix."""
    for method in ("POST", "GET", "DELETE", "PUT"):
        with subtests.test(method=method):
            for origin in FOREIGN_ORIGINS:
                answer = fetch(server.port, harm(method, Origin=origin))
                assert answer.status == 403, origin
                assert not [name for name in answer.headers if name.startswith("access-control")]
            local = stateless_call("echo", text="a", headers={"Origin": "http://localhost:3000"})
            assert fetch(server.port, local).status == 200
            assert_no_harm(server)


def test_a_duplicate_or_missing_host_is_refused(server: LedgerServer, subtests: pytest.Subtests) -> None:
    """A proxy that reads only the first line would see another name."""
    cases: list[bytes] = [
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: evil.example\r\nHost: localhost\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nOrigin: http://evil.example\r\n",
        b"POST /mcp HTTP/1.1\r\n",
        b"POST /mcp HTTP/1.0\r\n",
        b"POST http://localhost/mcp HTTP/1.1\r\nHost: evil.example\r\n",
    ]
    for head in cases:
        with subtests.test(head=head):
            more = {
                "Content-Type": "application/json",
                "Content-Length": str(len(HARM)),
                "Connection": "close",
                **STATELESS_HEADERS,
            }
            answer = fetch(server.port, head + fields(more) + b"\r\n" + HARM)
            assert answer.status in (400, 403, 404)  # h11 treats an absolute URL as a path
            assert_no_harm(server)


# --- sizes ------------------------------------------------------------------------------------------------------------


def test_a_declared_length_above_the_limit_is_refused_before_the_body(server: LedgerServer) -> None:
    """A client that sends the body slowly anyway cannot keep the connection open."""
    with Raw(server.port) as raw:
        raw.send(request(Content_Length=str(BODY_LIMIT + 1)))
        assert raw.answer().status == 413
        raw.send(b"x")
        assert raw.is_closed()
    for length in ("9" * 30, "0" * 30 + "99999", str(2**63), str(2**64 + 5)):
        assert fetch(server.port, request(Content_Length=length)).status in (400, 413)
    still_serves(server)


def test_a_chunked_body_above_the_limit_is_refused_while_it_is_read(server: LedgerServer) -> None:
    with Raw(server.port) as raw:
        raw.send(chunked_head())
        raw.send((b"400\r\n" + b"x" * 1024 + b"\r\n") * 5)
        answer = raw.answer()
        assert (answer.status, answer.headers["connection"]) == (413, "close")
        assert raw.is_closed()
    still_serves(server)


def test_an_invalid_chunk_size_is_refused(server: LedgerServer, subtests: pytest.Subtests) -> None:
    """Numbers that overflow, are signed, or are not numbers."""
    cases: list[bytes] = [b"FFFFFFFFFFFFFFFFF", b"-1", b"0x10", b"5 5", b"10" + b"0" * 9000, b""]
    for size in cases:
        with subtests.test(size=size):
            head = chunked_head()
            with Raw(server.port) as raw:
                raw.send(head + size + b"\r\n" + HARM + b"\r\n0\r\n\r\n")
                assert raw.rest().split(b" ")[1] in (b"400", b"413", b"408")
            assert_no_harm(server)


def test_a_body_shorter_than_its_declared_length_never_runs(server: LedgerServer) -> None:
    """The body stops (408, and the connection is closed), or the client closes the connection."""
    with Raw(server.port) as raw:
        raw.send(request(Content_Length=str(len(HARM) + 1), **STATELESS_HEADERS) + HARM)
        answer = raw.answer()
        assert (answer.status, answer.headers["connection"]) == (408, "close")
        assert raw.is_closed()
    with Raw(server.port) as raw:
        raw.send(request(Content_Length=str(len(HARM) + 1), **STATELESS_HEADERS) + HARM)
        raw.socket.shutdown(socket.SHUT_WR)
        assert b" 200 " not in raw.rest()
    assert_no_harm(server)


def test_a_head_above_the_limit_is_refused(server: LedgerServer, subtests: pytest.Subtests) -> None:
    """431 or 400, and the connection is closed."""
    cases: list[bytes] = [
        request(X_Large="x" * HEAD_LIMIT),
        request(**{f"X-{number}": "x" for number in range(HEAD_LIMIT // 6)}),
        request(path="/mcp?" + "x" * HEAD_LIMIT),
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 4 * HEAD_LIMIT,  # it never ends
        b"POST /" + b"x" * 4 * HEAD_LIMIT,
    ]
    for data in cases:
        with subtests.test(data=data):
            with Raw(server.port) as raw:
                raw.send(data)
                response = raw.rest()
                assert response[9:12] in (b"431", b"400")
                assert response.count(b"HTTP/1.1") == 1
            still_serves(server)


@pytest.mark.parametrize("parser", ["httptools", "h11"])
def test_slow_heads_are_closed_in_time(tmp_path: Path, parser: str) -> None:
    """Slowloris with fifty connections: other clients do not wait."""
    with LedgerServer(tmp_path, parser=parser, **LIMITS) as server:
        slow = [Raw(server.port) for _ in range(50)]
        started_at = time.monotonic()
        for number, raw in enumerate(slow):
            # An incomplete head, a blank line, nothing at all, and the body of a refused request.
            raw.send((b"POST /mcp HTTP/1.1\r\nHo", b"\r\n", b"", request(host="evil", Content_Length="9"))[number % 4])
        still_serves(server)
        for number, raw in enumerate(slow):
            if number % 2 and time.monotonic() - started_at < TIMEOUT / 2:
                raw.send(b"\r")  # must not reset the timer
            raw.rest()
            raw.socket.close()
        assert time.monotonic() - started_at < TIMEOUT + 50
        still_serves(server)


# --- content codings and types ----------------------------------------------------------------------------------------


def test_a_compressed_body_is_not_decompressed(server: LedgerServer, subtests: pytest.Subtests) -> None:
    """A small body could decompress beyond any limit: 415, or 413 if the compressed one is too large already."""
    cases: list[tuple[str, bytes]] = [
        ("gzip", gzip.compress(HARM)),
        ("deflate", zlib.compress(HARM)),
        ("identity, gzip", gzip.compress(HARM)),
        ("gzip, gzip", gzip.compress(gzip.compress(HARM))),
        ("GZIP", gzip.compress(b"\0" * 10_000_000)[:BODY_LIMIT]),
        ("x-unknown", HARM),
    ]
    for coding, body in cases:
        with subtests.test(coding=coding, body=body):
            assert fetch(server.port, harm(body=body, Content_Encoding=coding)).status in (413, 415)
            assert_no_harm(server)


def test_content_types_without_preflight_are_refused(server: LedgerServer, subtests: pytest.Subtests) -> None:
    """Browsers send these to any origin without a CORS preflight: 415."""
    cases: list[str] = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
    for kind in cases:
        with subtests.test(kind=kind):
            assert fetch(server.port, harm(Content_Type=kind)).status == 415
            assert_no_harm(server)


# --- sessions ---------------------------------------------------------------------------------------------------------


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_a_session_cannot_be_used_by_another_principal(owned: LedgerServer) -> None:
    """Another principal gets 404, as for an unknown session; a client without a valid token gets 401."""
    alice = open_session(owned.port, **bearer("alice-token-1"))
    harm = call("record", nonce="harm-replay")
    for method, body in (("POST", harm), ("POST", message("ping")), ("GET", b""), ("DELETE", b"")):
        unknown = fetch(owned.port, in_session("unknown", method, body, **bearer("bob-token")))
        stolen = fetch(owned.port, in_session(alice, method, body, **bearer("bob-token")))
        assert stolen.status == unknown.status == 404
        assert stolen.body == unknown.body, "the response must not reveal that the session exists"
        for headers in ({}, bearer("alice-token-3"), {"Authorization": "Basic YTpi"}, bearer("")):
            guest = fetch(owned.port, in_session(alice, method, body, **headers))
            assert guest.status in (400, 401)
            assert "mcp-session-id" not in guest.headers
    assert "harm-replay" not in owned.runs
    # The session still works, also with another token of alice.
    for token in ("alice-token-1", "alice-token-2"):
        answer = fetch(owned.port, in_session(alice, "POST", call("echo", text="works"), **bearer(token)))
        assert answer.text == "works"


def test_events_of_another_session_cannot_be_read(owned: LedgerServer) -> None:
    """A Last-Event-ID of another session, of the same or another principal, replays no event."""
    alice, other, bob = (
        open_session(owned.port, **bearer(token)) for token in ("alice-token-1", "alice-token-1", "bob-token")
    )
    with Raw(owned.port) as raw:
        raw.send(in_session(alice, "POST", call("record_in_steps", nonce="secret"), **bearer("alice-token-1")))
        events = raw.answer()
    assert events.headers["content-type"] == "text/event-stream"
    ids = [line[4:].decode() for line in events.body.split(b"\n") if line.startswith(b"id: ")]
    assert len(ids) > 3
    for id in (*ids, ids[0].rpartition("-")[0] + "-0", "0", "-1", "x" * 1000):
        for session, token in ((bob, "bob-token"), (other, "alice-token-1")):
            answer = fetch(owned.port, in_session(session, "GET", Last_Event_ID=id, **bearer(token)))
            assert answer.status == 400, id
            assert b"secret" not in answer.body
        assert fetch(owned.port, in_session(alice, "GET", Last_Event_ID=id, **bearer("bob-token"))).status == 404
    with Raw(owned.port) as raw:  # alice can read her own events
        raw.send(in_session(alice, "GET", Last_Event_ID=ids[0], **bearer("alice-token-2")))
        assert b"secret" in raw.answer().body


def test_session_ids_cannot_be_guessed(server: LedgerServer) -> None:
    """docs/guarantees.md G19: similar ids are unknown, and ids have nothing in common."""
    ids = [open_session(server.port) for _ in range(200)]
    assert len(set(ids)) == 200
    assert min(map(len, ids)) >= 32
    assert all(len({id[index] for id in ids}) > 20 for index in range(32)), "a part of the id is predictable"
    id = ids[0]
    near = (
        id[:-1],
        id + "A",
        id.swapcase(),
        id[::-1],
        id[:-1] + chr(ord(id[-1]) ^ 1),
        f"{id}, {id}",
        f'"{id}"',
    )
    for guess in (*near, "*", "..", "../" + id, "%00", "0", "null", "undefined", "x" * 4000):
        for method, body in (("POST", call("record", nonce="harm")), ("GET", b""), ("DELETE", b"")):
            assert fetch(server.port, in_session(guess, method, body)).status in (400, 404), guess
    assert fetch(server.port, in_session(id, "POST", message("ping"))).status == 200
    assert_no_harm(server)


def test_a_session_cannot_cancel_requests_of_another(owned: LedgerServer) -> None:
    """Request ids are unique per session only."""
    alice, bob = (open_session(owned.port, **bearer(token)) for token in ("alice-token-1", "bob-token"))
    with Raw(owned.port) as raw:
        waiting = call("record_and_wait", 7, nonce="not-cancelled", seconds=0.3)
        raw.send(in_session(alice, "POST", waiting, **bearer("alice-token-1")))
        cancel = message("notifications/cancelled", None, requestId=7)
        assert fetch(owned.port, in_session(bob, "POST", cancel, **bearer("bob-token"))).status == 202
        assert fetch(owned.port, in_session(alice, "POST", cancel, **bearer("bob-token"))).status == 404
        assert b"not-cancelled" in raw.answer().body


# --- paths ------------------------------------------------------------------------------------------------------------

PATHS = (
    *(
        "/mcp/../mcp",
        "//mcp",
        "/MCP",
        "/mcp;x",
        "/mcp%2f",
        "/mcp%00",
        "/%6dcp",
        "/mcp/",
        "/mcp//",
        "/./mcp",
        "/mcp/.",
    ),
    *(
        "/health/../mcp",
        "/health/..%2fmcp",
        "/mcp?/health",
        "/mcp/health",
        "/health%2f..%2fmcp",
        "/mcp%3f",
        "/mcp%23",
    ),
    *(
        "/.well-known/oauth-protected-resource/../../mcp",
        "/.well-known/oauth-protected-resource/mcp",
        "mcp",
        "*",
        "",
    ),
    *(
        "http://localhost/mcp",
        "http://evil.example/mcp",
        "//evil.example/mcp",
        "/\\mcp",
        "/mcp\\..\\health",
        "/%2e/mcp",
    ),
)


def test_no_spelling_of_a_path_bypasses_authentication(owned: LedgerServer, subtests: pytest.Subtests) -> None:
    """If a token is required, nothing is served without one, however the path is written."""
    cases: list[str] = ["POST", "GET", "DELETE", "OPTIONS", "HEAD", "PUT", "TRACE", "get"]
    for method in cases:
        with subtests.test(method=method):
            for path in PATHS:
                with Raw(owned.port) as raw:
                    raw.send(harm(method, path=path, Connection="close"))
                    response = raw.rest()
                status = int(response[9:12])
                is_public = path.startswith("/.well-known") or (method in ("GET", "HEAD") and "health" in path)
                assert status in (400, 401, 403, 404, 405, *((200,) if is_public else ())), path
                assert b"harm" not in response
            assert "harm" not in owned.runs


def test_a_mismatch_of_version_header_and_body_is_refused(server: LedgerServer) -> None:
    """Headers and body must agree on the revision and the method."""
    id = open_session(server.port)
    harm = json.loads(call("record", nonce="harm"))
    stateless = json.loads(HARM)
    for body, headers in (
        (harm, {"MCP-Protocol-Version": STATELESS, "Mcp-Method": "tools/call", "Mcp-Name": "record"}),
        (stateless, {"MCP-Protocol-Version": STATELESS, "Mcp-Method": "ping"}),
        (stateless, {"MCP-Protocol-Version": STATELESS, "Mcp-Method": "tools/call", "Mcp-Name": "echo"}),
        (harm, {"MCP-Protocol-Version": "1999-01-01", "Mcp-Session-Id": id}),
    ):
        assert fetch(server.port, request(body=json.dumps(body).encode(), **headers)).status == 400
    assert_no_harm(server)
