"""A server process against request smuggling, and against injection into response headers and the log.

As in `test_security`, each test writes HTTP byte by byte and compares the responses with the ledger.
"""

import json
import socket
from pathlib import Path

import pytest

from chaos.http.harm import HARM, HIDDEN, STATELESS_HEADERS, assert_no_harm, chunked_head, harm, still_serves
from chaos.http.process import LedgerServer
from chaos.http.raw import (
    META,
    Raw,
    call,
    fetch,
    message,
    request,
    stateless_call,
)

# --- header injection -------------------------------------------------------------------------------------------------

INJECTED = (
    b"a\r\nInjected: yes",
    b"a\nInjected: yes",
    b"a\rInjected: yes",
    b"a\r\n\r\nHTTP/1.1 200 OK\r\nInjected: yes\r\n\r\n",
    b"a%0d%0aInjected:%20yes",
    b"a\x00b",
    b"a\xc4\x8d\xc4\x8aInjected: yes",  # some decoders truncate it to CR LF
    b"=?base64?YQ0KSW5qZWN0ZWQ6IHllcw==?=",  # CR LF in the base64 form of 2026-07-28
    b'a", "Injected": "yes',
    b"\x80\xff",
)
ECHOED = (
    "Mcp-Session-Id",
    "MCP-Protocol-Version",
    "Mcp-Method",
    "Mcp-Name",
    "Last-Event-ID",
    "Origin",
    "Authorization",
)
HARMLESS = message("tools/call", 1, name="record", arguments={"nonce": "plain"}, _meta=META)
EXPECTED_HEADERS = {
    *("date", "content-type", "content-length", "connection", "allow", "cache-control", "retry-after"),
    *("x-accel-buffering", "transfer-encoding", "www-authenticate", "mcp-session-id", "vary"),
}


def test_no_header_of_a_request_is_injected_into_the_response(server: LedgerServer, subtests: pytest.Subtests) -> None:
    for name in ECHOED:
        with subtests.test(name=name):
            for value in INJECTED:
                for method in ("POST", "GET", "DELETE"):
                    others = {key: value for key, value in STATELESS_HEADERS.items() if key != name}
                    body = HARMLESS if method == "POST" else b""
                    head, _, rest = request(method, body, Connection="close", **others).partition(b"\r\n\r\n")
                    with Raw(server.port) as raw:
                        raw.send(head + b"\r\n" + name.encode() + b": " + value + b"\r\n\r\n" + rest)
                        response = raw.rest()
                    first, _, _ = response.partition(b"\r\n\r\n")
                    names = {line.partition(b":")[0].decode().lower() for line in first.split(b"\r\n")[1:]}
                    assert names <= EXPECTED_HEADERS, (value, first)
                    assert response.count(b"HTTP/1.1 ") == 1, (value, response)
                    assert b"\r" not in first.replace(b"\r\n", b"")
            still_serves(server)


def test_no_value_of_a_request_is_injected_into_the_log(tmp_path: Path) -> None:
    """Logged values are escaped, so that one line cannot look like two."""
    with LedgerServer(tmp_path, log_level="DEBUG", sessions=True) as server:
        for value in ("\u2028FORGED", "\x1b[2KFORGED", "\x85FORGED"):
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": f"x\nFORGED {value}\rFORGED"}).encode()
            fetch(server.port, request(body=body))
            fetch(server.port, request(body=call(f"x\nFORGED {value}")))
            fetch(server.port, request(body=call("echo", **{f"x\nFORGED {value}": 1})))
        still_serves(server)
        forged = [line for line in server.lines if line.startswith("FORGED") or "\x1b" in line]
        assert forged == []


# --- smuggling --------------------------------------------------------------------------------------------------------

CHUNKED_HARM = b"%x\r\n%b\r\n" % (len(HARM), HARM)
ECHO = call("echo", text="a")
SHAPES = {
    "a length and chunks": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
    "chunks and a length": b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
    "two lengths": b"Content-Length: 5\r\nContent-Length: %d\r\n" % (5 + len(HIDDEN)),
    "two lengths, the larger first": b"Content-Length: %d\r\nContent-Length: 5\r\n" % (5 + len(HIDDEN)),
    "a list of lengths": b"Content-Length: 5, %d\r\n" % (5 + len(HIDDEN)),
    "a list of the same length": b"Content-Length: 5, 5\r\n",
    "a signed length": b"Content-Length: +5\r\n",
    "a length in hexadecimal": b"Content-Length: 0x5\r\n",
    "a length with an underscore": b"Content-Length: 0_5\r\n",
    "a length in another script": "Content-Length: \u0665\r\n".encode(),
    "a negative length": b"Content-Length: -5\r\n",
    "no length at all": b"Content-Length:\r\n",
    "space before the colon": b"Content-Length : 5\r\n",
    "tab before the colon": b"Transfer-Encoding\t: chunked\r\n",
    "an unknown coding": b"Transfer-Encoding: xchunked\r\n",
    "chunked twice": b"Transfer-Encoding: chunked, chunked\r\n",
    "chunked and then not": b"Transfer-Encoding: chunked, identity\r\n",
    "not chunked": b"Transfer-Encoding: identity\r\n",
    "a quoted coding": b'Transfer-Encoding: "chunked"\r\n',
    "a vertical tab": b"Transfer-Encoding: \x0bchunked\r\n",
    "two codings": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
    "a folded coding": b"Transfer-Encoding:\r\n chunked\r\n",
    "a folded length": b"Content-Length:\r\n 5\r\n",
    "a folded line": b"Content-Length: 5\r\nX: a\r\n b\r\n",
    "a folded first line": b" Content-Length: 5\r\n",
    "a bare line feed": b"X: a\nTransfer-Encoding: chunked\r\n",
    "bare line feeds": b"Content-Length: 5\nX: a\n",
    "a bare carriage return": b"X: a\rTransfer-Encoding: chunked\r\n",
    "a name with a null": b"Content-Length\x00: 5\r\n",
    "a value with a null": b"Content-Length: 5\r\nX: a\x00b\r\n",
    "a name without a colon": b"Content-Length: 5\r\nX\r\n",
    "an empty name": b"Content-Length: 5\r\n: x\r\n",
}  # fmt: skip


# h11 accepts these in the one way that the specification allows (RFC 9112 sections 2.2 and 5.2, RFC 9110 section 8.6),
# so the second request is not hidden. httptools refuses them.
ACCEPTED_BY_H11 = {
    "a list of the same length",
    *("a folded coding", "a folded length", "a folded line", "a folded first line"),
    *("a bare line feed", "bare line feeds"),
}


def assert_hides_nothing(server: LedgerServer, shape: bytes) -> None:
    """Send five bytes of body, or an empty chunked one, and a second request, which must not be served."""
    head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + shape
    with Raw(server.port) as raw:
        raw.send(head + b"\r\n0\r\n\r\n" + HIDDEN)
        raw.socket.shutdown(socket.SHUT_WR)
        response = raw.rest()
    assert_no_harm(server)
    assert b"HTTP/1.1 200 " not in response, response


def test_an_ambiguous_request_hides_no_other(server: LedgerServer, subtests: pytest.Subtests) -> None:
    """RFC 9112 sections 6.3 and 11.2."""
    for shape in [shape for shape in SHAPES if shape not in ACCEPTED_BY_H11]:
        with subtests.test(shape=shape):
            assert_hides_nothing(server, SHAPES[shape])


@pytest.mark.parametrize("server", ["httptools"], indirect=True)
def test_lenient_syntax_hides_no_request(server: LedgerServer, subtests: pytest.Subtests) -> None:
    """Folded lines and bare line feeds, which some proxies accept and others do not, are refused."""
    for shape in sorted(ACCEPTED_BY_H11):
        with subtests.test(shape=shape):
            assert_hides_nothing(server, SHAPES[shape])


def test_an_upgrade_hides_no_request(server: LedgerServer, subtests: pytest.Subtests) -> None:
    """The upgrade is declined: the body belongs to the request, as the response shows to a proxy."""
    for upgrade in ("websocket", "h2c", "TLS/1.0", "HTTP/2.0, websocket"):
        with subtests.test(upgrade=upgrade):
            with Raw(server.port) as raw:
                raw.send(stateless_call("echo", text="whole", headers={"Connection": "Upgrade", "Upgrade": upgrade}))
                answer = raw.answer()
                assert answer.status == 200
                assert answer.text == "whole"
                assert "upgrade" not in answer.headers
            still_serves(server)


@pytest.mark.parametrize("server", ["httptools"], indirect=True)  # h11 accepts most of these
def test_malformed_chunk_ends_hide_no_request(server: LedgerServer, subtests: pytest.Subtests) -> None:
    """Bare line feeds and broken extensions, which some parsers accept as the end of the body."""
    for end in (b"0\n\n", b"0\r\n\n", b"0;x=\n\r\n\r\n", b"0;\rx\r\n\r\n", b"0\r\r\n\r\n"):
        with subtests.test(end=end):
            with Raw(server.port) as raw:
                raw.send(chunked_head() + CHUNKED_HARM + end + HIDDEN)
                raw.socket.shutdown(socket.SHUT_WR)
                assert raw.rest().count(b"HTTP/1.1 ") <= 1
            assert "harm-hidden" not in server.runs
            server.forget_runs()
            still_serves(server)


def test_the_next_request_on_a_connection_gets_its_own_response(server: LedgerServer) -> None:
    """The first request may be refused, have an unread body, or get another kind of response."""
    with Raw(server.port) as raw:
        for number in range(3):
            for first in (
                harm(host="evil.example"),
                harm(Content_Type="text/plain"),
                harm(body=b"{"),
                harm(path="/nowhere"),
                request("OPTIONS"),
                request(body=ECHO, Mcp_Session_Id="unknown"),
            ):
                text = f"after {number}"
                raw.send(first + stateless_call("echo", text=text))
                assert raw.answer().status != 200
                answer = raw.answer()
                assert answer.status == 200, first
                assert answer.text == text
    assert_no_harm(server)
