"""Clients nobody here wrote against our server over HTTP, with sessions and events: each uses all of it, as over stdio.

One URL serves both eras. Each client has a server of its own, which must exit cleanly on a signal.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from interop.known_clients import EVERYTHING, ROWS, Row, seen_by
from interop.listening import listening

PROGRAM_SECONDS = 45.0


def everything(port: int) -> list[str | Path]:
    return [sys.executable, EVERYTHING, "--port", str(port)]


# SDK 1.x speaks for all that know the transport of 2024-11-05.
PLACES = [*((row, "/mcp") for row in ROWS), (ROWS[0], "/sse")]


@pytest.mark.parametrize(("row", "path"), PLACES, ids=[f"{row.id}{path.replace('/', '-')}" for row, path in PLACES])
def test_it_sees_all_that_our_server_offers(row: Row, path: str, tmp_path: Path) -> None:
    with listening(everything, tmp_path / "server.log") as url:
        done = subprocess.run(
            [*map(str, row.command()), url + path],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PROGRAM_SECONDS,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    del seen["closing"]
    assert seen == seen_by(row)
