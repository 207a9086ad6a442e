"""Fixtures for the tests of commands: a small server, and a function that runs a command."""

import json
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from jackstay.cli import main
from scripted.places import TESTS

PEER = [sys.executable, str(TESTS / "peers" / "stdio_server.py")]


class Result(NamedTuple):
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Jackstay = Callable[..., Result]


@pytest.fixture
def jackstay(capsys: pytest.CaptureFixture[str]) -> Jackstay:
    """Run a command in this process, by default with the small server after `--`."""

    def run(*words: str, peer: bool = True, more: tuple[str, ...] = ()) -> Result:
        capsys.readouterr()
        code = main([*words, "--", *PEER, *more] if peer else list(words))
        done = capsys.readouterr()
        return Result(code, done.out, done.err)

    return run


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Make standard output and error look like a terminal with this width."""

    def pretend(columns: int) -> None:
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)

    return pretend
