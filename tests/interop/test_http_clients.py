"""Third-party clients with our server over HTTP, with sessions and an event store: each uses all features.

One URL serves both eras. Each client has its own server, which must exit cleanly on a signal.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from interop.known_clients import EVERYTHING, ROWS, Row, seen_by
from interop.listening import listening

PROGRAM_SECONDS = 250.0


def everything(port: int) -> list[str | Path]:
    return [sys.executable, EVERYTHING, "--port", str(port)]


# SDK 1.x represents the clients that support the transport of 2024-11-05.
CASES = [*((row, "/mcp") for row in ROWS), (ROWS[0], "/sse")]


@pytest.mark.parametrize(("row", "path"), CASES, ids=[f"{row.id}{path.replace('/', '-')}" for row, path in CASES])
def test_client_uses_all_features(row: Row, path: str, tmp_path: Path) -> None:
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
