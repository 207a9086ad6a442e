"""The official client gets the same messages from `jackstay replay` as from the recorded server."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from interop.known_clients import EVERYTHING, ROWS
from scripted.cassettes import messages

JACKSTAY = [sys.executable, "-m", "jackstay"]
PROGRAM_SECONDS = 45.0


def seen(*command: str | Path) -> Any:
    """What the official SDK 1.x makes of the server that this command starts: all of it is used."""
    (row,) = [row for row in ROWS if "sdk1.py" in str(row.command())]
    done = subprocess.run(
        [str(word) for word in (*row.command(), *command)],
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
    received = seen(*JACKSTAY, "record", first, "--", sys.executable, EVERYTHING)
    assert len(received["progress"]) == 3
    assert seen(*JACKSTAY, "record", second, "--", *JACKSTAY, "replay", first) == received
    assert messages(second, "client") == messages(first, "client")
    assert messages(second, "server") == messages(first, "server")
