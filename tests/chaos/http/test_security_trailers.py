"""A server process against trailers: fields after the last chunk of a body.

They are never read as headers (RFC 9110 section 6.5.1) and have the size limit of a head. As in `test_security`, each
test writes HTTP byte by byte and compares the responses with the ledger.
"""

import socket
from collections.abc import Iterator

import pytest

from chaos.http.harm import HARM, HEAD_LIMIT, STATELESS_HEADERS, assert_no_harm, still_serves
from chaos.http.process import LedgerServer
from chaos.http.raw import META, STATELESS, Raw, fields, message, request, stateless_call

CHUNK = b"%x\r\n%b\r\n0\r\n" % (len(HARM), HARM)
FLOOD = 16 * 1024 * 1024  # far above the limit


@pytest.fixture(scope="module", params=["httptools", "h11"])
def closed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LedgerServer]:
    """A server that requires tokens, with the default limits, on each parser."""
    directory = tmp_path_factory.mktemp("ledger")
    tokens = {"alice-token": "alice"}
    with LedgerServer(directory, parser=request.param, sessions=True, tokens=tokens) as serving:
        assert serving.port
        yield serving


def chunked(body: bytes, headers: dict[str, str], trailers: dict[str, str]) -> bytes:
    head = request(Transfer_Encoding="chunked", **headers).replace(b"Content-Length: 0\r\n", b"")
    return head + b"%x\r\n%b\r\n0\r\n" % (len(body), body) + fields(trailers) + b"\r\n"


def in_reads(server: LedgerServer, data: bytes, *, split: bool) -> bytes:
    """Return the response to a request that arrives in one read, or with the trailers in a later one."""
    with Raw(server.port) as raw:
        end = data.index(b"\r\n0\r\n") if split else len(data)
        raw.send(data[:end])
        if split:
            raw.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            raw.send(data[end:])
        raw.socket.shutdown(socket.SHUT_WR)
        return raw.rest()


def test_credentials_in_a_trailer_are_ignored(closed: LedgerServer, subtests: pytest.Subtests) -> None:
    for split in (False, True):
        with subtests.test(split=split):
            bearer = {"Authorization": "Bearer alice-token"}
            answer = in_reads(closed, chunked(HARM, STATELESS_HEADERS, bearer), split=split)
            assert answer.startswith(b"HTTP/1.1 401 "), answer
            assert "harm" not in closed.runs


def test_routing_headers_are_not_read_from_trailers(server: LedgerServer, subtests: pytest.Subtests) -> None:
    """A gateway routes by these headers, so the server must not accept them from trailers."""
    for missing in (*STATELESS_HEADERS, "all"):
        for split in (False, True):
            with subtests.test(missing=missing, split=split):
                late = STATELESS_HEADERS if missing == "all" else {missing: STATELESS_HEADERS[missing]}
                head = {name: value for name, value in STATELESS_HEADERS.items() if name not in late}
                answer = in_reads(server, chunked(HARM, head, late), split=split)
                assert b"HTTP/1.1 200 " not in answer, answer
                assert_no_harm(server)


def test_a_trailer_does_not_change_a_request(server: LedgerServer, subtests: pytest.Subtests) -> None:
    fields: list[str] = ["Host", "Origin", "Content-Type", "Mcp-Session-Id", "Mcp-Name"]
    for field in fields:
        for split in (False, True):
            with subtests.test(field=field, split=split):
                nonce = f"plain-{field}-{split}"
                body = message("tools/call", 1, name="record", arguments={"nonce": nonce}, _meta=META)
                answer = in_reads(server, chunked(body, STATELESS_HEADERS, {field: "http://evil.example"}), split=split)
                assert answer.startswith(b"HTTP/1.1 200 "), answer
                assert server.runs[nonce] == 1


def test_a_flood_of_trailers_is_limited_like_a_head(closed: LedgerServer, subtests: pytest.Subtests) -> None:
    """With and without a token; without one the response is sent before the trailers are read."""
    for is_known in (False, True):
        for line in (b"a: b\r\n", b"x: " + b"y" * 4096 + b"\r\n", b"y" * 4096):
            with subtests.test(is_known=is_known, line=line):
                headers = {**STATELESS_HEADERS, **({"Authorization": "Bearer alice-token"} if is_known else {})}
                head = request(Transfer_Encoding="chunked", **headers).replace(b"Content-Length: 0\r\n", b"")
                before = closed.resident_bytes
                sent = 0
                with Raw(closed.port) as raw:
                    raw.send(head + CHUNK + b"x: ")
                    try:
                        while sent < FLOOD:
                            raw.send(line * (65_536 // len(line)))
                            sent += 65_536
                    except ConnectionError:
                        pass
                    answer = raw.rest()
                assert sent < FLOOD, "all of it was read"
                assert answer.count(b"HTTP/1.1 ") <= 1
                assert b"HTTP/1.1 200 " not in answer
                assert closed.resident_bytes - before < 8 * 1024 * 1024
                assert "harm" not in closed.runs


def test_a_connection_can_be_reused_after_trailers(server: LedgerServer) -> None:
    body = message("tools/call", 1, name="echo", arguments={"text": "x"}, _meta=META)
    named = {"MCP-Protocol-Version": STATELESS, "Mcp-Method": "tools/call", "Mcp-Name": "echo"}
    with Raw(server.port) as raw:
        for number in range(3):
            raw.send(chunked(body, named, {"X-Some": "y" * (HEAD_LIMIT // 2)}))
            assert raw.answer().text == "x"
            raw.send(stateless_call("echo", text=f"after {number}"))
            assert raw.answer().text == f"after {number}"
    still_serves(server)
