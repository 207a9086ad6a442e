"""`procontext completion`: every command and option, for every shell."""

from pathlib import Path

import pytest

from jackstay.shell import SHELLS, Program
from procontext.cli import main
from procontext.cli._commands import COMMANDS
from procontext.cli._completion import program
from scripted.terminal import StatusTerminal, bash_answers

# The command line and its completions.
LINES = {
    "procontext do": ["docs", "doctor"],
    "procontext --tr": ["--transport"],
    "procontext --transport ''": ["http", "stdio"],
    "procontext serve --transport h": ["http"],
    "procontext docs --off": ["--offline", "--offset"],
    "procontext docs ''": [],
    "procontext completion ''": ["bash", "fish", "zsh"],
}


def test_a_terminal_shows_what_takes_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The modules of all commands are imported."""
    terminal = StatusTerminal()

    def read() -> Program:
        terminal.wait_for("reading the options")
        return program()

    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr("jackstay.shell._status_line.QUIET_SECONDS", 0.0)
    monkeypatch.setattr("procontext.cli._completion.program", read)
    assert main(["completion", "bash"]) == 0


@pytest.mark.parametrize("shell", SHELLS)
def test_script_contains_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert [row.name for row in COMMANDS if row.name not in out] == []


def test_bash_completion(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    completions = bash_answers(capsys.readouterr().out, "procontext", LINES, tmp_path)
    assert dict(zip(LINES, map(sorted, completions), strict=True)) == LINES
