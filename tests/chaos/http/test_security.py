"""A server of ours, run as users run it, against bytes that were written to harm it.

Every test speaks HTTP by hand, and each holds the ledger against what came back: what was refused did not run. The server
goes on for everybody else.
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
    OF_ERA,
    TIMEOUT,
    chunked_head,
    harm,
    nothing_harmful,
    still_serves,
)
from chaos.http.process import LedgerServer
from chaos.http.raw import (
    STATELESS,
    Raw,
    ask,
    call,
    fields,
    in_session,
    message,
    open_session,
    request,
    stateless_call,
)


def test_what_would_do_harm_would_run(tmp_path: Path) -> None:
    """The tests below show something: the same request without its fault is served."""
    with LedgerServer(tmp_path, sessions=True, **LIMITS) as server:
        assert ask(server.port, harm()).status == 200
        assert ask(server.port, HIDDEN).status == 200
        assert server.runs == {"harm": 1, "harm-hidden": 1}


# --- names ------------------------------------------------------------------------------------------------------------

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


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE", "PUT"])
def test_a_page_that_rebinds_its_name_to_this_machine_is_refused(server: LedgerServer, method: str) -> None:
    """Foreign Host (2026-07-28 "Security & Endpoint"): whatever is asked, and before anything else is looked at."""
    for host in FOREIGN_HOSTS:
        answer = ask(server.port, harm(method, host=host))
        assert answer.status in (400, 403), host
    nothing_harmful(server)


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE", "PUT"])
def test_a_page_of_somewhere_else_is_refused(server: LedgerServer, method: str) -> None:
    """Foreign Origin: also where it looks like ours from the left or from the right."""
    for origin in FOREIGN_ORIGINS:
        answer = ask(server.port, harm(method, Origin=origin))
        assert answer.status == 403, origin
        assert not [name for name in answer.headers if name.startswith("access-control")]
    assert (
        ask(server.port, stateless_call("echo", text="a", headers={"Origin": "http://localhost:3000"})).status
        == 200
    )
    nothing_harmful(server)


@pytest.mark.parametrize(
    "head",
    [
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: evil.example\r\nHost: localhost\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nOrigin: http://evil.example\r\n",
        b"POST /mcp HTTP/1.1\r\n",
        b"POST /mcp HTTP/1.0\r\n",
        b"POST http://localhost/mcp HTTP/1.1\r\nHost: evil.example\r\n",
    ],
)
def test_a_name_that_is_said_twice_or_not_at_all_is_refused(server: LedgerServer, head: bytes) -> None:
    """A proxy that reads the first line must not see another name than we do."""
    more = {
        "Content-Type": "application/json",
        "Content-Length": str(len(HARM)),
        "Connection": "close",
        **OF_ERA,
    }
    answer = ask(server.port, head + fields(more) + b"\r\n" + HARM)
    assert answer.status in (400, 403, 404)  # h11 takes a whole URL for a path
    nothing_harmful(server)


# --- sizes ------------------------------------------------------------------------------------------------------------


def test_a_body_that_says_it_is_too_large_is_refused_before_it_comes(server: LedgerServer) -> None:
    """And a client that sends it all the same, drop by drop, holds no connection for that."""
    with Raw(server.port) as raw:
        raw.say(request(Content_Length=str(BODY_LIMIT + 1)))
        assert raw.answer().status == 413
        raw.say(b"x")
        assert raw.is_closed()
    for length in ("9" * 30, "0" * 30 + "99999", str(2**63), str(2**64 + 5)):
        assert ask(server.port, request(Content_Length=length)).status in (400, 413)
    still_serves(server)


def test_a_body_that_grows_too_large_is_refused_while_it_comes(server: LedgerServer) -> None:
    """Chunked, so that nothing was said about its length."""
    with Raw(server.port) as raw:
        raw.say(chunked_head())
        raw.say((b"400\r\n" + b"x" * 1024 + b"\r\n") * 5)
        answer = raw.answer()
        assert (answer.status, answer.headers["connection"]) == (413, "close")
        assert raw.is_closed()
    still_serves(server)


@pytest.mark.parametrize("size", [b"FFFFFFFFFFFFFFFFF", b"-1", b"0x10", b"5 5", b"10" + b"0" * 9000, b""])
def test_a_chunk_whose_size_is_a_lie_is_refused(server: LedgerServer, size: bytes) -> None:
    """Numbers that overflow, are signed, or are none."""
    head = chunked_head()
    with Raw(server.port) as raw:
        raw.say(head + size + b"\r\n" + HARM + b"\r\n0\r\n\r\n")
        assert raw.rest().split(b" ")[1] in (b"400", b"413", b"408")  # as too large as it can be
    nothing_harmful(server)


def test_a_body_shorter_than_it_said_never_runs(server: LedgerServer) -> None:
    """It stops (408, and the connection is closed), or its client goes."""
    with Raw(server.port) as raw:
        raw.say(request(Content_Length=str(len(HARM) + 1), **OF_ERA) + HARM)
        answer = raw.answer()
        assert (answer.status, answer.headers["connection"]) == (408, "close")
        assert raw.is_closed()
    with Raw(server.port) as raw:
        raw.say(request(Content_Length=str(len(HARM) + 1), **OF_ERA) + HARM)
        raw.socket.shutdown(socket.SHUT_WR)
        assert b" 200 " not in raw.rest()
    nothing_harmful(server)


@pytest.mark.parametrize(
    "data",
    [
        request(X_Large="x" * HEAD_LIMIT),
        request(**{f"X-{number}": "x" for number in range(HEAD_LIMIT // 6)}),
        request(path="/mcp?" + "x" * HEAD_LIMIT),
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 4 * HEAD_LIMIT,  # which never ends
        b"POST /" + b"x" * 4 * HEAD_LIMIT,
    ],
    ids=["a value", "many lines", "the query", "an endless value", "an endless path"],
)
def test_a_head_that_is_too_large_is_refused(server: LedgerServer, data: bytes) -> None:
    """Oversized headers: 431 or 400, and the connection is closed."""
    with Raw(server.port) as raw:
        raw.say(data)
        said = raw.rest()
        assert said[9:12] in (b"431", b"400")
        assert said.count(b"HTTP/1.1") == 1
    still_serves(server)


@pytest.mark.parametrize("parser", ["httptools", "h11"])
def test_heads_that_never_end_hold_no_connection(tmp_path: Path, parser: str) -> None:
    """Slow headers: from fifty at once; nobody else waits, and all are closed in time."""
    with LedgerServer(tmp_path, parser=parser, **LIMITS) as server:
        slow = [Raw(server.port) for _ in range(50)]
        begun = time.monotonic()
        for number, raw in enumerate(slow):
            # A head, blank lines before one, nothing at all, a body that was refused unread.
            raw.say(
                (b"POST /mcp HTTP/1.1\r\nHo", b"\r\n", b"", request(host="evil", Content_Length="9"))[
                    number % 4
                ]
            )
        still_serves(server)
        for number, raw in enumerate(slow):
            if number % 2 and time.monotonic() - begun < TIMEOUT / 2:
                raw.say(b"\r")  # what moves no clock
            raw.rest()
            raw.socket.close()
        assert time.monotonic() - begun < TIMEOUT + 50
        still_serves(server)


# --- bodies that are not what they seem ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", gzip.compress(HARM)),
        ("deflate", zlib.compress(HARM)),
        ("identity, gzip", gzip.compress(HARM)),
        ("gzip, gzip", gzip.compress(gzip.compress(HARM))),
        ("GZIP", gzip.compress(b"\0" * 10_000_000)[:BODY_LIMIT]),
        ("x-unknown", HARM),
    ],
)
def test_a_compressed_body_is_not_unfolded(server: LedgerServer, coding: str, body: bytes) -> None:
    """A small one could unfold beyond any limit: 415 (413 where it is large as it is)."""
    assert ask(server.port, harm(body=body, Content_Encoding=coding)).status in (413, 415)
    nothing_harmful(server)


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_what_a_page_may_send_without_asking_is_refused(server: LedgerServer, kind: str) -> None:
    """Content types that browsers send anywhere without a preflight: 415."""
    assert ask(server.port, harm(Content_Type=kind)).status == 415
    nothing_harmful(server)


# --- whose session -------------------------------------------------------------------------------------------------------


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_a_token_of_somebody_else_does_not_open_a_session(owned: LedgerServer) -> None:
    """Token replay across sessions: another principal is told 404, as if there were no such session; a guest 401."""
    alice = open_session(owned.port, **bearer("alice-token-1"))
    harm = call("record", nonce="harm-replay")
    for method, body in (("POST", harm), ("POST", message("ping")), ("GET", b""), ("DELETE", b"")):
        unknown = ask(owned.port, in_session("unknown", method, body, **bearer("bob-token")))
        theirs = ask(owned.port, in_session(alice, method, body, **bearer("bob-token")))
        assert theirs.status == unknown.status == 404
        assert theirs.body == unknown.body, "who asks must not learn that there is one"
        for headers in ({}, bearer("alice-token-3"), {"Authorization": "Basic YTpi"}, bearer("")):
            guest = ask(owned.port, in_session(alice, method, body, **headers))
            assert guest.status in (400, 401)
            assert "mcp-session-id" not in guest.headers
    assert "harm-replay" not in owned.runs
    # It was not ended by that; and a new token of hers is hers.
    for token in ("alice-token-1", "alice-token-2"):
        answer = ask(owned.port, in_session(alice, "POST", call("echo", text="hers"), **bearer(token)))
        assert answer.text == "hers"


def test_events_of_another_session_cannot_be_had(owned: LedgerServer) -> None:
    """Last-Event-ID of another session: of another principal, of one's own other session; no event comes of it."""
    alice, other, bob = (
        open_session(owned.port, **bearer(token)) for token in ("alice-token-1", "alice-token-1", "bob-token")
    )
    with Raw(owned.port) as raw:
        raw.say(in_session(alice, "POST", call("record_in_steps", nonce="secret"), **bearer("alice-token-1")))
        events = raw.answer()
    assert events.headers["content-type"] == "text/event-stream"
    ids = [line[4:].decode() for line in events.body.split(b"\n") if line.startswith(b"id: ")]
    assert len(ids) > 3
    for id in (*ids, ids[0].rpartition("-")[0] + "-0", "0", "-1", "x" * 1000):
        for session, token in ((bob, "bob-token"), (other, "alice-token-1")):
            answer = ask(owned.port, in_session(session, "GET", Last_Event_ID=id, **bearer(token)))
            assert answer.status == 400, id
            assert b"secret" not in answer.body
        assert (
            ask(owned.port, in_session(alice, "GET", Last_Event_ID=id, **bearer("bob-token"))).status == 404
        )
    with Raw(owned.port) as raw:  # hers are hers
        raw.say(in_session(alice, "GET", Last_Event_ID=ids[0], **bearer("alice-token-2")))
        assert b"secret" in raw.answer().body


def test_session_ids_cannot_be_guessed(server: LedgerServer) -> None:
    """G19: an id that is nearly right is as unknown as any other; ids have nothing in common."""
    ids = [open_session(server.port) for _ in range(200)]
    assert len(set(ids)) == 200
    assert min(map(len, ids)) >= 32
    assert all(len({id[place] for id in ids}) > 20 for place in range(32)), "a part of it can be foreseen"
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
            assert ask(server.port, in_session(guess, method, body)).status in (400, 404), guess
    assert ask(server.port, in_session(id, "POST", message("ping"))).status == 200
    nothing_harmful(server)


def test_one_session_cannot_answer_or_cancel_for_another(owned: LedgerServer) -> None:
    """The ids of requests are counted by each session for itself."""
    alice, bob = (open_session(owned.port, **bearer(token)) for token in ("alice-token-1", "bob-token"))
    with Raw(owned.port) as raw:
        waiting = call("record_and_wait", 7, nonce="not-cancelled", seconds=0.3)
        raw.say(in_session(alice, "POST", waiting, **bearer("alice-token-1")))
        cancel = message("notifications/cancelled", None, requestId=7)
        assert ask(owned.port, in_session(bob, "POST", cancel, **bearer("bob-token"))).status == 202
        assert ask(owned.port, in_session(alice, "POST", cancel, **bearer("bob-token"))).status == 404
        assert b"not-cancelled" in raw.answer().body


# --- paths ---------------------------------------------------------------------------------------------------------------

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


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE", "OPTIONS", "HEAD", "PUT", "TRACE", "get"])
def test_no_spelling_of_a_path_goes_around_the_guard(owned: LedgerServer, method: str) -> None:
    """Path tricks: where a token is asked for, nothing is served without one, however the place is spelled."""
    for path in PATHS:
        with Raw(owned.port) as raw:
            raw.say(harm(method, path=path, Connection="close"))
            said = raw.rest()
        status = int(said[9:12])
        is_public = path.startswith("/.well-known") or (method in ("GET", "HEAD") and "health" in path)
        assert status in (400, 401, 403, 404, 405, *((200,) if is_public else ())), path
        assert b"harm" not in said
    assert "harm" not in owned.runs


def test_the_version_of_another_era_does_not_go_around_a_session(server: LedgerServer) -> None:
    """A request says its era in headers and body, and both are held against each other."""
    id = open_session(server.port)
    harm = json.loads(call("record", nonce="harm"))
    stateless = json.loads(HARM)
    for body, headers in (
        (harm, {"MCP-Protocol-Version": STATELESS, "Mcp-Method": "tools/call", "Mcp-Name": "record"}),
        (stateless, {"MCP-Protocol-Version": STATELESS, "Mcp-Method": "ping"}),
        (stateless, {"MCP-Protocol-Version": STATELESS, "Mcp-Method": "tools/call", "Mcp-Name": "echo"}),
        (harm, {"MCP-Protocol-Version": "1999-01-01", "Mcp-Session-Id": id}),
    ):
        assert ask(server.port, request(body=json.dumps(body).encode(), **headers)).status == 400
    nothing_harmful(server)
