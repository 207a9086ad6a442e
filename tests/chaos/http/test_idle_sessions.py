"""Idle sessions expire and free their memory; sessions in use do not expire.

`JACKSTAY_PROFILE=soak` uses a realistic TTL; the default profile a short one.
"""

import os
import time
from pathlib import Path

import pytest

from chaos.http.process import LedgerServer
from chaos.http.raw import INITIALIZE, Raw, call, fetch, in_session, message, request

IS_SOAK = os.environ.get("JACKSTAY_PROFILE") == "soak"
TTL = 30.0 if IS_SOAK else 1.0
SESSIONS = 1000


def open_sessions(server: LedgerServer, count: int) -> list[str]:
    found = []
    with Raw(server.port) as raw:
        for _ in range(count):
            raw.send(request(body=INITIALIZE))
            id = raw.answer().headers["mcp-session-id"]
            raw.send(in_session(id, body=message("notifications/initialized", None)))
            assert raw.answer().status == 202
            found.append(id)
    return found


def open_now(server: LedgerServer) -> int:
    found: int = server.request("GET", "/health").json["sessions"]
    return found


def all_expired(server: LedgerServer, but: int = 0) -> float:
    """Wait until at most `but` sessions are left. Returns the seconds it took."""
    started_at = time.monotonic()
    while open_now(server) > but:
        assert time.monotonic() - started_at < TTL + 50, f"{open_now(server)} sessions are left after TTL + 50 s"
        time.sleep(0.05)
    return time.monotonic() - started_at


@pytest.mark.parametrize("events", [True, False] if IS_SOAK else [True])
def test_a_thousand_idle_sessions_expire_in_time_and_leave_nothing(tmp_path: Path, events: bool) -> None:
    """docs/guarantees.md G18: their memory is freed. The allocator keeps it, so the next thousand need no more."""
    with LedgerServer(tmp_path, sessions=True, session_ttl=TTL, events=events, health=True) as server:
        open_sessions(server, SESSIONS)
        all_expired(server)
        before = server.resident_bytes
        for _ in range(3 if IS_SOAK else 1):
            ids = open_sessions(server, SESSIONS)
            peak = server.resident_bytes
            took = all_expired(server)
            after = server.resident_bytes
            print(f"{before >> 10} KiB, {peak >> 10} KiB with them, {after >> 10} KiB {took:.1f} s later")
            assert after <= before * 1.05
            assert fetch(server.port, in_session(ids[-1], body=call("echo", text="a"))).status == 404


def test_a_session_with_activity_does_not_expire(tmp_path: Path) -> None:
    """docs/guarantees.md G18: a request that runs longer than the TTL and an open stream keep their sessions alive."""
    with LedgerServer(tmp_path, sessions=True, session_ttl=TTL, health=True, keepalive=0) as server:
        running, listening, *_ = open_sessions(server, 50)
        with Raw(server.port) as caller, Raw(server.port) as listener:
            caller.socket.settimeout(20 + 3 * TTL)
            waiting = call("record_and_wait", 9, nonce="long", seconds=1.6 * TTL)
            caller.send(in_session(running, body=waiting))
            listener.send(in_session(listening, "GET"))
            assert listener.head().status == 200
            all_expired(server, but=2)
            assert caller.answer().text == "long"
            assert open_now(server) == 2
            for id in (running, listening):
                assert fetch(server.port, in_session(id, body=message("ping"))).status == 200
        all_expired(server)
    assert server.runs == {"long": 1}
