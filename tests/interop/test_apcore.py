"""The apcore bridge with the official SDK 2.x as its client: both eras, over stdio, Streamable HTTP and HTTP+SSE.

SDK 1.x is tested in `packages/jackstay-apcore/tests/end_to_end`; the modules are the same.
"""

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from interop.listening import listening
from interop.peers import BY_NAME, ROOT

CLIENT = Path(__file__).parent / "clients" / "bridge.py"
PROGRAM = ROOT / "packages" / "jackstay-apcore" / "tests" / "end_to_end" / "program.py"

# (mode, path, negotiated revision); without a path, the client starts the program over stdio.
ROWS = (
    ("auto", "", "2026-07-28"),
    ("legacy", "", "2025-11-25"),
    ("auto", "/mcp", "2026-07-28"),
    ("legacy", "/mcp", "2025-11-25"),
    ("legacy", "/sse", "2025-11-25"),
)

SEEN = {
    "tools": ["math.add", "text.count", "user.remove", "x.grow", "x.slow", "x.status"],
    "added": ['{"total": 3}', {"total": 3}, False],
    "wrong": ["Input validation failed:\n- a: Field required (required)", True],
    "unknown": [-32602, "Module not found: nope"],
    "docs": "Adds.",
    "progress": [[number + 1, {"text": str(number)}] for number in range(3)],
    "counted": {"text": "2"},
    "approved": False,
    "cancelled": {"started": True, "cancelled": True},
    "grown": {"total": 42},
}
SUMS = {base: list(range(5)) for base in ("100", "200")}


def server_command(port: int) -> list[str | Path]:
    return [sys.executable, PROGRAM, "--port", str(port)]


def test_official_client_uses_all_features_over_every_transport(tmp_path: Path) -> None:
    """Lists, calls, progress, approval, cancellation, changes; over HTTP also concurrent clients with equal ids."""
    with ExitStack() as servers:
        arguments: list[str] = []
        for number, (mode, path, _) in enumerate(ROWS):
            url = servers.enter_context(listening(server_command, tmp_path / f"{number}.log")) if path else PROGRAM
            arguments += [mode, f"{url}{path}"]
        done = subprocess.run(
            [str(BY_NAME["sdk2"].python), str(CLIENT), *arguments],
            env={**os.environ, "SERVER_PYTHON": sys.executable},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=250,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    for (_, path, revision), line in zip(ROWS, done.stdout.splitlines(), strict=True):
        check(json.loads(line), revision, is_http=bool(path))


def check(seen: dict[str, Any], revision: str, *, is_http: bool) -> None:
    (message,) = seen.pop("responses")
    assert message.startswith("Run user.remove?")
    assert "hunter2" not in message
    if is_http:
        assert seen.pop("declined") == "Approval denied: user.remove was not run."
        assert seen.pop("cannot").startswith("Approval required: user.remove requires the approval of a user")
    assert seen == {**SEEN, "revision": revision, "sums": SUMS if is_http else {}}
