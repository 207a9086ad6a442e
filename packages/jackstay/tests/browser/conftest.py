"""Fixtures: the command `inspect` with the example that has every feature. `scripted.chromium` has the browser."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from scripted.chromium import browser, page
from scripted.places import ROOT

__all__ = ["browser", "page"]

SERVER = ROOT / "examples" / "everything.py"


@pytest.fixture(scope="session")
def start_inspector() -> Iterator[Callable[..., str]]:
    """Starts `jackstay inspect` or another command that serves the page, and returns its URL."""
    programs: list[subprocess.Popen[str]] = []

    def start(*words: str) -> str:
        program = subprocess.Popen(
            [sys.executable, "-m", "jackstay", *words], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        )
        programs.append(program)
        assert program.stderr is not None
        line = program.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/#key=\S+", line)
        assert found is not None, line
        return found[0]

    yield start
    for program in programs:
        program.terminate()
        program.communicate(timeout=60)
        assert program.returncode == 0


@pytest.fixture(scope="session")
def url(start_inspector: Callable[..., str]) -> str:
    """The page of the example, for all tests."""
    return start_inspector("inspect", "--no-browser", "--", sys.executable, str(SERVER))
