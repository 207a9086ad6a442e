"""The apcore bridge with the official SDK 2.x as its client: both eras, over stdio, Streamable HTTP and HTTP+SSE.

SDK 1.x is installed beside the tests and has its own in `tests/apcore_mcp/end_to_end`; the modules are the same.
"""

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from interop.listening import listening
from interop.peers import BY_NAME, ROOT

CLIENT = Path(__file__).parent / "clients" / "bridge.py"
PROGRAM = ROOT / "tests" / "apcore_mcp" / "end_to_end" / "program.py"

# (its mode, where, the revision it settles on)
ROWS = (
    ("auto", "", "2026-07-28"),
    ("legacy", "", "2025-11-25"),
    ("auto", "/mcp", "2026-07-28"),
    ("legacy", "/mcp", "2025-11-25"),
    ("legacy", "/sse", "2025-11-25"),
)

TOOLS = ["math.add", "text.count", "user.remove", "x.grow", "x.slow", "x.told"]


def served(port: int) -> list[str | Path]:
    return [sys.executable, PROGRAM, "--port", str(port)]


@pytest.mark.parametrize(("mode", "path", "revision"), ROWS)
def test_it_uses_all_of_the_bridge(mode: str, path: str, revision: str, tmp_path: Path) -> None:
    """Lists, calls, progress, approval, cancelling, changes; several clients at once with equal ids, and again later."""
    server: Any = listening(served, tmp_path / "server.log") if path else nullcontext(str(PROGRAM))
    with server as place:
        done = subprocess.run(
            [str(BY_NAME["sdk2"].python), str(CLIENT), mode, place + path],
            env={**os.environ, "SERVER_PYTHON": sys.executable},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    (asked,) = seen.pop("asked")
    assert asked.startswith("Run user.remove?")
    assert "hunter2" not in asked
    if path:
        assert seen.pop("cannot").startswith("Approval required: user.remove needs a person's approval")
        assert seen.pop("declined") == "Approval denied: user.remove was not run."
    assert seen == {
        "revision": revision,
        "tools": TOOLS,
        "added": ['{"total": 3}', {"total": 3}, False],
        "wrong": ["Input validation failed:\n- a: Field required (required)", True],
        "unknown": [-32602, "Module not found: nope"],
        "docs": "Adds.",
        "progress": [[number + 1, {"text": str(number)}] for number in range(3)],
        "counted": {"text": "2"},
        "approved": False,
        "cancelled": {"began": True, "told": True},
        "grown": {"total": 42},
        "sums": {base: list(range(5)) for base in ("100", "200")},
    }
