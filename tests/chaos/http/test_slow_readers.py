"""Slow readers: their memory is bounded, they are disconnected, and other clients do not wait for them."""

import select
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from chaos.http.process import LedgerServer
from chaos.http.raw import META, call, fetch, in_session, message, open_session, request, stateless_call

STREAMS = 100
PER_STREAM = 256 * 1024
LOG = {"io.modelcontextprotocol/logLevel": "info"}


def chatter(server: LedgerServer, session: str | None) -> socket.socket:
    """Return a client that requested an endless stream and has a small receive buffer."""
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    peer.settimeout(120)
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
    """Read about one kilobyte per second from each peer."""
    end = time.monotonic() + seconds
    while (now := time.monotonic()) < end:
        for peer in select.select(peers, [], [], 0)[0]:
            peer.recv(100)
        time.sleep(max(0.0, now + 0.1 - time.monotonic()))


@pytest.mark.parametrize("era", ["stateless", "handshake"])
def test_a_hundred_slow_streams_are_bounded_and_closed(tmp_path: Path, era: str) -> None:
    """Less than 256 KiB per stream; then the stream is closed, which is logged, and other clients are served."""
    with LedgerServer(tmp_path, sessions=True, health=True) as server:
        fetch(server.port, stateless_call("echo", text="warm"))
        before = server.resident_bytes
        # One session per stream, so that they do not affect each other.
        peers = [chatter(server, None if era == "stateless" else open_session(server.port)) for _ in range(STREAMS)]
        try:
            peak, slowest = before, 0.0
            while sum("reads too slowly" in line for line in server.lines) < STREAMS:
                slowly_read(peers, 0.2)
                peak = max(peak, server.resident_bytes)
                sent_at = time.monotonic()
                assert fetch(server.port, stateless_call("echo", text="other")).status == 200
                slowest = max(slowest, time.monotonic() - sent_at)
            print(f"{(peak - before) / STREAMS / 1024:.0f} KiB per stream, others waited up to {slowest:.2f} s")
            assert peak - before < STREAMS * PER_STREAM
            assert sum("reads too slowly" in line for line in server.lines) == STREAMS
            # All connections are closed, although their clients have read almost nothing.
            started_at = time.monotonic()
            while len(server.descriptors) > 30:
                assert time.monotonic() - started_at < 200, f"{len(server.descriptors)} descriptors are open"
                time.sleep(0.1)
        finally:
            for peer in peers:
                peer.close()
