"""A server of ours, run as users run it, against trailers: fields after the last chunk of a body.

They are never read as headers (RFC 9110, section 6.5.1), and they cost the server no more than a head may. As in
`test_security`, each test writes HTTP by hand and compares the ledger with the response.
"""

import socket
from collections.abc import Iterator

import pytest

from chaos.http.harm import HARM, HEAD_LIMIT, OF_ERA, nothing_harmful, still_serves
from chaos.http.process import LedgerServer
from chaos.http.raw import META, STATELESS, Raw, fields, message, request, stateless_call

CHUNK = b"%x\r\n%b\r\n0\r\n" % (len(HARM), HARM)
FLOOD = 16 * 1024 * 1024  # far more than a head may have


@pytest.fixture(scope="module", params=["httptools", "h11"])
def closed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LedgerServer]:
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
    """What the server responds with, in one read or with the trailers in a later one."""
    with Raw(server.port) as raw:
        end = data.index(b"\r\n0\r\n") if split else len(data)
        raw.say(data[:end])
        if split:
            raw.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            raw.say(data[end:])
        raw.socket.shutdown(socket.SHUT_WR)
        return raw.rest()


@pytest.mark.parametrize("split", [False, True])
def test_credentials_in_a_trailer_are_none(closed: LedgerServer, split: bool) -> None:
    bearer = {"Authorization": "Bearer alice-token"}
    answer = in_reads(closed, chunked(HARM, OF_ERA, bearer), split=split)
    assert answer.startswith(b"HTTP/1.1 401 "), answer
    assert "harm" not in closed.runs


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("missing", [*OF_ERA, "all"])
def test_what_a_gateway_did_not_see_in_the_head_is_not_read_from_a_trailer(
    server: LedgerServer, missing: str, split: bool
) -> None:
    """A router decides by these fields of the head, so the server must not accept them from elsewhere."""
    late = OF_ERA if missing == "all" else {missing: OF_ERA[missing]}
    head = {name: value for name, value in OF_ERA.items() if name not in late}
    answer = in_reads(server, chunked(HARM, head, late), split=split)
    assert b"HTTP/1.1 200 " not in answer, answer
    nothing_harmful(server)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("field", ["Host", "Origin", "Content-Type", "Mcp-Session-Id", "Mcp-Name"])
def test_a_trailer_changes_nothing_of_a_request(server: LedgerServer, field: str, split: bool) -> None:
    nonce = f"plain-{field}-{split}"
    body = message("tools/call", 1, name="record", arguments={"nonce": nonce}, _meta=META)
    answer = in_reads(server, chunked(body, OF_ERA, {field: "http://evil.example"}), split=split)
    assert answer.startswith(b"HTTP/1.1 200 "), answer
    assert server.runs[nonce] == 1


@pytest.mark.parametrize(
    "line", [b"a: b\r\n", b"x: " + b"y" * 4096 + b"\r\n", b"y" * 4096], ids=["small", "large", "one"]
)
@pytest.mark.parametrize("is_known", [False, True])
def test_a_flood_of_trailers_costs_no_more_than_a_head(
    closed: LedgerServer, line: bytes, is_known: bool
) -> None:
    """With a token and without one: then the response is sent before any of it is read."""
    headers = {**OF_ERA, **({"Authorization": "Bearer alice-token"} if is_known else {})}
    head = request(Transfer_Encoding="chunked", **headers).replace(b"Content-Length: 0\r\n", b"")
    before = closed.resident_bytes
    sent = 0
    with Raw(closed.port) as raw:
        raw.say(head + CHUNK + b"x: ")
        try:
            while sent < FLOOD:
                raw.say(line * (65_536 // len(line)))
                sent += 65_536
        except ConnectionError:
            pass
        answer = raw.rest()
    assert sent < FLOOD, "all of it was read"
    assert answer.count(b"HTTP/1.1 ") <= 1
    assert b"HTTP/1.1 200 " not in answer
    assert closed.resident_bytes - before < 8 * 1024 * 1024
    assert "harm" not in closed.runs


def test_the_connection_goes_on_after_trailers(server: LedgerServer) -> None:
    body = message("tools/call", 1, name="echo", arguments={"text": "x"}, _meta=META)
    named = {"MCP-Protocol-Version": STATELESS, "Mcp-Method": "tools/call", "Mcp-Name": "echo"}
    with Raw(server.port) as raw:
        for number in range(3):
            raw.say(chunked(body, named, {"X-Some": "y" * (HEAD_LIMIT // 2)}))
            assert raw.answer().text == "x"
            raw.say(stateless_call("echo", text=f"after {number}"))
            assert raw.answer().text == f"after {number}"
    still_serves(server)
