"""Malicious requests, the servers they are sent to, and checks that none of them ran."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.http.process import LedgerServer
from chaos.http.raw import (
    META,
    STATELESS,
    fetch,
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
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LedgerServer]:
    """A server with sessions and small limits, on each parser."""
    directory: Path = tmp_path_factory.mktemp("ledger")
    with LedgerServer(directory, parser=request.param, sessions=True, events=True, health=True, **LIMITS) as serving:
        assert serving.port
        yield serving


@pytest.fixture(scope="module")
def owned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LedgerServer]:
    """A server that requires tokens: alice has two, bob has one."""
    tokens = {"alice-token-1": "alice", "alice-token-2": "alice", "bob-token": "bob"}
    directory: Path = tmp_path_factory.mktemp("ledger")
    with LedgerServer(directory, sessions=True, events=True, health=True, tokens=tokens) as serving:
        assert serving.port
        yield serving


def still_serves(server: LedgerServer) -> None:
    """Check that another client is served."""
    nonce = f"other-{time.monotonic_ns()}"
    assert fetch(server.port, stateless_call("record", nonce=nonce)).status == 200
    assert server.runs[nonce] == 1


def assert_no_harm(server: LedgerServer) -> None:
    """Check that no malicious call ran, and that another client is served."""
    harmful = [nonce for nonce in server.runs if nonce.startswith("harm")]
    server.forget_runs()  # for the next test
    assert harmful == [], "a call that should have been refused ran"
    still_serves(server)


def harm(method: str = "POST", body: bytes = b"", **headers: str) -> bytes:
    """Return a request that is recorded in the ledger if it is not refused."""
    return request(method, body or (HARM if method == "POST" else b""), **{**STATELESS_HEADERS, **headers})


HARM = message("tools/call", 1, name="record", arguments={"nonce": "harm"}, _meta=META)
STATELESS_HEADERS = {"MCP-Protocol-Version": STATELESS, "Mcp-Method": "tools/call", "Mcp-Name": "record"}
HIDDEN = stateless_call("record", nonce="harm-hidden")


def chunked_head() -> bytes:
    """Return the head of such a request with a chunked body."""
    return request(Transfer_Encoding="chunked", **STATELESS_HEADERS).replace(b"Content-Length: 0\r\n", b"")
