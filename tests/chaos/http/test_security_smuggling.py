"""A server of ours, run as users run it, against requests that two readers would read differently.

No value becomes a line of an answer or of the log, and no request hides another. As in `test_security`, each test speaks HTTP
by hand and holds the ledger against what came back.
"""

import json
import socket
from pathlib import Path

import pytest

from chaos.http.harm import HARM, HIDDEN, OF_ERA, chunked_head, harm, nothing_harmful, still_serves
from chaos.http.process import LedgerServer
from chaos.http.raw import (
    META,
    Raw,
    ask,
    call,
    message,
    request,
    stateless_call,
)

# --- header injection ----------------------------------------------------------------------------------------------------

INJECTED = (
    b"a\r\nInjected: yes",
    b"a\nInjected: yes",
    b"a\rInjected: yes",
    b"a\r\n\r\nHTTP/1.1 200 OK\r\nInjected: yes\r\n\r\n",
    b"a%0d%0aInjected:%20yes",
    b"a\x00b",
    b"a\xc4\x8d\xc4\x8aInjected: yes",  # which some decoders cut down to CR LF
    b"=?base64?YQ0KSW5qZWN0ZWQ6IHllcw==?=",  # the same in the coding that 2026-07-28 has for values
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
OUR_HEADERS = {
    *("date", "content-type", "content-length", "connection", "allow", "cache-control", "retry-after"),
    *("x-accel-buffering", "transfer-encoding", "www-authenticate", "mcp-session-id", "vary"),
}


@pytest.mark.parametrize("name", ECHOED)
def test_no_value_of_a_request_becomes_a_line_of_the_answer(server: LedgerServer, name: str) -> None:
    """Header injection: in every value that we read, whatever is made of it."""
    for value in INJECTED:
        for method in ("POST", "GET", "DELETE"):
            others = {key: value for key, value in OF_ERA.items() if key != name}
            body = HARMLESS if method == "POST" else b""
            head, _, rest = request(method, body, Connection="close", **others).partition(b"\r\n\r\n")
            with Raw(server.port) as raw:
                raw.say(head + b"\r\n" + name.encode() + b": " + value + b"\r\n\r\n" + rest)
                said = raw.rest()
            first, _, _ = said.partition(b"\r\n\r\n")
            names = {line.partition(b":")[0].decode().lower() for line in first.split(b"\r\n")[1:]}
            assert names <= OUR_HEADERS, (value, first)
            assert said.count(b"HTTP/1.1 ") == 1, (value, said)
            assert b"\r" not in first.replace(b"\r\n", b"")
    still_serves(server)


def test_no_value_becomes_a_line_of_the_log(tmp_path: Path) -> None:
    """What a client says is quoted where it is logged: one line cannot look like two."""
    with LedgerServer(tmp_path, log_level="DEBUG", sessions=True) as server:
        for value in ("\u2028FORGED", "\x1b[2KFORGED", "\x85FORGED"):
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": f"x\nFORGED {value}\rFORGED"}).encode()
            ask(server.port, request(body=body))
            ask(server.port, request(body=call(f"x\nFORGED {value}")))
            ask(server.port, request(body=call("echo", **{f"x\nFORGED {value}": 1})))
        still_serves(server)
        forged = [line for line in server.lines if line.startswith("FORGED") or "\x1b" in line]
        assert forged == []


# --- smuggling -----------------------------------------------------------------------------------------------------------

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
    "a coding that is none": b"Transfer-Encoding: xchunked\r\n",
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


# What h11 reads in the one way that the specification allows (RFC 9112, 2.2 and 5.2; RFC 9110, 8.6): then the request behind it
# is not hidden. httptools, which servers run on, refuses these as well.
READ_BY_H11 = {
    "a list of the same length",
    *("a folded coding", "a folded length", "a folded line", "a folded first line"),
    *("a bare line feed", "bare line feeds"),
}


def hides_nothing(server: LedgerServer, shape: bytes) -> None:
    """Five bytes of body, or an empty chunked one, and then a whole request: who sees the other end serves two."""
    head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + shape
    with Raw(server.port) as raw:
        raw.say(head + b"\r\n0\r\n\r\n" + HIDDEN)
        raw.socket.shutdown(socket.SHUT_WR)
        said = raw.rest()
    nothing_harmful(server)
    assert b"HTTP/1.1 200 " not in said, said


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape not in READ_BY_H11])
def test_a_request_that_two_readers_would_read_differently_hides_nothing(
    server: LedgerServer, shape: str
) -> None:
    """Request smuggling (RFC 9112, 6.3 and 11.2): what is hidden behind the first end, for some, is never served."""
    hides_nothing(server, SHAPES[shape])


@pytest.mark.parametrize("server", ["httptools"], indirect=True)
@pytest.mark.parametrize("shape", sorted(READ_BY_H11))
def test_what_only_careless_readers_take_hides_nothing(server: LedgerServer, shape: str) -> None:
    """Folded lines and bare line feeds, which some in front of us may take and others not: refused."""
    hides_nothing(server, SHAPES[shape])


@pytest.mark.parametrize("offer", ["websocket", "h2c", "TLS/1.0", "HTTP/2.0, websocket"])
def test_an_offer_of_another_protocol_hides_nothing(server: LedgerServer, offer: str) -> None:
    """It is not taken: the body is the request's, and a proxy that thinks otherwise learns so from the answer."""
    with Raw(server.port) as raw:
        raw.say(stateless_call("echo", text="whole", headers={"Connection": "Upgrade", "Upgrade": offer}))
        answer = raw.answer()
        assert answer.status == 200
        assert answer.text == "whole"
        assert "upgrade" not in answer.headers
    still_serves(server)


@pytest.mark.parametrize("server", ["httptools"], indirect=True)  # h11 takes most of these for an end
@pytest.mark.parametrize("end", [b"0\n\n", b"0\r\n\n", b"0;x=\n\r\n\r\n", b"0;\rx\r\n\r\n", b"0\r\r\n\r\n"])
def test_chunks_that_end_in_a_way_of_their_own_hide_nothing(server: LedgerServer, end: bytes) -> None:
    """Bare line feeds and broken extensions: what some readers take for the end, and a request behind it."""
    head = chunked_head()
    with Raw(server.port) as raw:
        raw.say(head + CHUNKED_HARM + end + HIDDEN)
        raw.socket.shutdown(socket.SHUT_WR)
        assert raw.rest().count(b"HTTP/1.1 ") <= 1
    assert "harm-hidden" not in server.runs
    server.forget_runs()
    still_serves(server)


def test_the_next_request_on_a_connection_is_answered_as_itself(server: LedgerServer) -> None:
    """Nothing that came before poisons it: not a refusal, a body nobody read, nor an answer of another kind."""
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
                raw.say(first + stateless_call("echo", text=text))
                assert raw.answer().status != 200
                answer = raw.answer()
                assert answer.status == 200, first
                assert answer.text == text
    nothing_harmful(server)
