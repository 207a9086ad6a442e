"""Requests that would do harm if they were let in, the servers they are sent to, and whether any of them ran.

Above: tests of what a server refuses. Below: `chaos.http.process`, `chaos.http.raw`.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.http.process import LedgerServer
from chaos.http.raw import (
    META,
    STATELESS,
    ask,
    message,
    request,
    stateless_call,
)

BODY_LIMIT = 4096
HEAD_LIMIT = 8192
TIMEOUT = 1
LIMITS = {
    "max_body_bytes": BODY_LIMIT,
    "max_header_bytes": HEAD_LIMIT,
    "header_timeout": TIMEOUT / 2,
    "body_timeout": TIMEOUT / 2,
    "keepalive_timeout": TIMEOUT,
}


@pytest.fixture(scope="module", params=["httptools", "h11"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LedgerServer]:
    """A server with sessions and small limits, on each parser."""
    directory: Path = tmp_path_factory.mktemp("ledger")
    with LedgerServer(
        directory, parser=request.param, sessions=True, events=True, health=True, **LIMITS
    ) as serving:
        assert serving.port
        yield serving


@pytest.fixture(scope="module")
def owned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LedgerServer]:
    """A server that asks for tokens: two of alice's, one of bob's."""
    tokens = {"alice-token-1": "alice", "alice-token-2": "alice", "bob-token": "bob"}
    directory: Path = tmp_path_factory.mktemp("ledger")
    with LedgerServer(directory, sessions=True, events=True, health=True, tokens=tokens) as serving:
        assert serving.port
        yield serving


def still_serves(server: LedgerServer) -> None:
    """Somebody else is served as ever."""
    nonce = f"other-{time.monotonic_ns()}"
    assert ask(server.port, stateless_call("record", nonce=nonce)).status == 200
    assert server.runs[nonce] == 1


def nothing_harmful(server: LedgerServer) -> None:
    """Nothing ran that would have done harm, and the server goes on."""
    harmful = [nonce for nonce in server.runs if nonce.startswith("harm")]
    server.forget_runs()  # the next test is about something else
    assert harmful == [], "what should have been refused ran"
    still_serves(server)


def harm(method: str = "POST", body: bytes = b"", **headers: str) -> bytes:
    """A request that would run, and leave its mark in the ledger, if it were let in."""
    return request(method, body or (HARM if method == "POST" else b""), **{**OF_ERA, **headers})


HARM = message("tools/call", 1, name="record", arguments={"nonce": "harm"}, _meta=META)
OF_ERA = {"MCP-Protocol-Version": STATELESS, "Mcp-Method": "tools/call", "Mcp-Name": "record"}
HIDDEN = stateless_call("record", nonce="harm-hidden")


def chunked_head() -> bytes:
    """The head of a request that would run, whose body comes in chunks."""
    return request(Transfer_Encoding="chunked", **OF_ERA).replace(b"Content-Length: 0\r\n", b"")
