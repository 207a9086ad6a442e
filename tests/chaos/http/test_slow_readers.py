"""Clients that hardly read: what they cost is bounded, they are left, and nobody else waits for them."""

import select
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from chaos.http.process import LedgerServer
from chaos.http.raw import META, ask, call, in_session, message, open_session, request, stateless_call

STREAMS = 100
PER_STREAM = 256 * 1024
LOG = {"io.modelcontextprotocol/logLevel": "info"}


def chatter(server: LedgerServer, session: str | None) -> socket.socket:
    """A client that asks for an endless stream, and has little room for it."""
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    peer.settimeout(20)
    peer.connect(("127.0.0.1", server.port))
    if session is None:
        body = message("tools/call", 1, name="chatter", arguments={"size": 32000}, _meta={**META, **LOG})
        head: dict[str, Any] = {
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": "chatter",
        }
        peer.sendall(request(body=body, **head))
    else:
        peer.sendall(in_session(session, body=call("chatter", size=32_000)))
    return peer


def slowly_read(peers: list[socket.socket], seconds: float) -> None:
    """For so long, about a kilobyte each second from each."""
    end = time.monotonic() + seconds
    while (now := time.monotonic()) < end:
        for peer in select.select(peers, [], [], 0)[0]:
            peer.recv(100)
        time.sleep(max(0.0, now + 0.1 - time.monotonic()))


@pytest.mark.guard(120)
@pytest.mark.parametrize("era", ["stateless", "handshake"])
def test_a_client_that_reads_a_kilobyte_a_second_from_a_hundred_streams_is_left(
    tmp_path: Path, era: str
) -> None:
    """Under 256 KiB per stream in our process; then that stream is closed with a log line, and others notice nothing."""
    with LedgerServer(tmp_path, sessions=True, health=True) as server:
        ask(server.port, stateless_call("echo", text="warm"))
        before = server.resident_bytes
        # A session each: what one stream's client does must not be the others' fate.
        peers = [
            chatter(server, None if era == "stateless" else open_session(server.port)) for _ in range(STREAMS)
        ]
        try:
            most, slowest = before, 0.0
            begun = time.monotonic()
            while sum("reads too slowly" in line for line in server.lines) < STREAMS:
                assert time.monotonic() - begun < 60, server.stderr[-2000:]
                slowly_read(peers, 0.2)
                most = max(most, server.resident_bytes)
                asked = time.monotonic()
                assert ask(server.port, stateless_call("echo", text="other")).status == 200
                slowest = max(slowest, time.monotonic() - asked)
            print(
                f"{(most - before) / STREAMS / 1024:.0f} KiB per stream, others waited {slowest:.2f} s at most"
            )
            assert most - before < STREAMS * PER_STREAM
            assert sum("reads too slowly" in line for line in server.lines) == STREAMS
            # Nothing of them is left, though their clients have read next to nothing.
            begun = time.monotonic()
            while len(server.descriptors) > 30:
                assert time.monotonic() - begun < 20, f"{len(server.descriptors)} descriptors are held"
                time.sleep(0.1)
        finally:
            for peer in peers:
                peer.close()
