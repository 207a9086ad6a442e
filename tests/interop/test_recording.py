"""The official client gets the same messages from `jackstay replay` as from the recorded server."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from interop.known_clients import EVERYTHING, ROWS
from scripted.cassettes import messages

JACKSTAY = [sys.executable, "-m", "jackstay"]
PROGRAM_SECONDS = 250.0


def run_client(*command: str | Path) -> Any:
    """Return the results of the official SDK 1.x, which uses all features of the server of this command."""
    (row,) = [row for row in ROWS if "sdk1.py" in str(row.command())]
    done = subprocess.run(
        [str(argument) for argument in (*row.command(), *command)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {key: value for key, value in json.loads(done.stdout).items() if key != "closing"}


def test_a_recording_is_equivalent_to_the_server(tmp_path: Path) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    received = run_client(*JACKSTAY, "record", first, "--", sys.executable, EVERYTHING)
    assert len(received["progress"]) == 3
    assert run_client(*JACKSTAY, "record", second, "--", *JACKSTAY, "replay", first) == received
    assert messages(second, "client") == messages(first, "client")
    assert messages(second, "server") == messages(first, "server")
