"""What the tests of commands share: a server to start, and a way to run a command and see all that comes of it."""

import json
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from jackstay.cli import main
from scripted.places import TESTS

PEER = [sys.executable, str(TESTS / "peers" / "stdio_server.py")]


class Shown(NamedTuple):
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Jackstay = Callable[..., Shown]


@pytest.fixture
def jackstay(capsys: pytest.CaptureFixture[str]) -> Jackstay:
    """Run a command in this process; with `peer=True` (the default) against the small server, started after `--`."""

    def run(*words: str, peer: bool = True, more: tuple[str, ...] = ()) -> Shown:
        capsys.readouterr()
        code = main([*words, "--", *PEER, *more] if peer else list(words))
        shown = capsys.readouterr()
        return Shown(code, shown.out, shown.err)

    return run


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Make standard output and error look like a terminal of so many columns."""

    def pretend(columns: int) -> None:
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)

    return pretend
