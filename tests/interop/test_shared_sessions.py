"""The official SDKs with two server processes that share sessions, behind a proxy that alternates between them."""

import json
import subprocess
from pathlib import Path

import pytest

from interop.known_clients import PROGRAMS
from interop.peers import BY_NAME
from peers.shared_processes import SharedServers, shared_servers

PROGRAM_SECONDS = 150.0


@pytest.mark.parametrize(
    ("peer", "mode", "revision"),
    [("sdk1", "", "2025-11-25"), ("sdk2", "legacy", "2025-11-25"), ("sdk2", "auto", "2026-07-28")],
)
def test_any_process_serves_any_request(peer: str, mode: str, revision: str, tmp_path: Path) -> None:
    """Responses, cancellations and changes reach the process or the client that they concern."""
    with shared_servers(tmp_path) as servers:
        use_client(servers, peer, mode, revision)


def use_client(servers: SharedServers, peer: str, mode: str, revision: str) -> None:
    cancelled = [serving.lines.count("cancelled") for serving in servers.processes]
    command = [BY_NAME[peer].python, PROGRAMS / f"shared_{peer}.py", *([mode] if mode else []), servers.proxy.url]
    done = subprocess.run(
        list(map(str, command)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["revision"] == revision
    assert seen["pids"] == sorted(str(serving.process.pid) for serving in servers.processes)
    assert seen["confirmed"] == {f"delete {number}": f"delete {number}: delete {number}" for number in range(8)}
    assert seen["changes"] >= 4
    assert seen["updates"] >= 4
    began = servers.wait_for_next("begun")
    servers.processes[began].wait_for_line("cancelled", cancelled[began] + 1)
