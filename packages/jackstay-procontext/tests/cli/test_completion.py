"""`procontext completion`: every command and option, for every shell."""

from pathlib import Path

import pytest

from jackstay.shell import SHELLS
from procontext.cli import main
from procontext.cli._commands import COMMANDS
from scripted.terminal import bash_answers

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
