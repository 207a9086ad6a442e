"""The client examples run and print the expected output."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripted.places import PYTHONPATH

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples"

EXPECTED = {
    "client_first_call.py": "['echo']\nhello\n",
    "client_in_memory.py": "the server requests: Which seat?\nbooked 3A\n",
    "client_survives.py": "three\n  ready -> closing\n  closing -> closed\n",
}


@pytest.mark.parametrize("name", EXPECTED)
def test_an_example_prints_the_expected_output(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(EXPECTED[name]), done.stdout


def test_every_client_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("client_*.py")} == set(EXPECTED)
