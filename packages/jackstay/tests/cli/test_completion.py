"""`jackstay completion`: scripts from the parsers, tried in bash with the command itself; names out of a file, and nothing else."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jackstay.cli import main
from jackstay.cli._commands import COMMANDS, load
from jackstay.cli._completion import names_in, program
from jackstay.cli._parsers import parser_of
from jackstay.shell import SHELLS
from scripted.places import PYTHONPATH
from scripted.terminal import bash_answers

SOURCE = PYTHONPATH


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_has_every_command_and_option(jackstay: Callable, shell: str) -> None:
    """A new option is completed because it is there."""
    shown = jackstay("completion", shell, peer=False)
    assert (shown.code, shown.err) == (0, "")
    for row in COMMANDS:
        assert row.name in shown.out
        explained = parser_of(row, load(row)).format_help()
        for word in re.findall(r"^  (?:-\w, )?--([\w-]+)", explained, re.MULTILINE):
            assert (f"-l {word} " if shell == "fish" else f"--{word}") in shown.out


def test_which_shell_is_asked(jackstay: Callable) -> None:
    shown = jackstay("completion", peer=False)
    assert (shown.code, shown.out) == (2, "")
    assert "which shell? There are bash, zsh, fish" in shown.err
    assert "invalid choice: 'tcsh'" in jackstay("completion", "tcsh", peer=False).err


def test_every_command_about_a_server_completes_names_and_the_servers_command() -> None:
    for command in program().commands:
        row = next(row for row in COMMANDS if row.name == command.name)
        assert command.has_server is row.has_server


# what is typed -> what comes
LINES = {
    "jackstay to": ["tools"],
    "jackstay tools --log-level ''": ["debug", "error", "info", "warning"],
    "jackstay tools --config mcp": ["mcp.json"],
    "jackstay tools --config mcp.json ''": ["git", "the\\ notes"],
    "jackstay call --config mcp.json git ''": [],
    "jackstay ping --ca mc": ["mcp.json"],
    "jackstay serve mcp": ["mcp.json"],
    "jackstay states ''": ["client", "exchange", "server"],
    "jackstay states --format m": ["mermaid"],
    "jackstay completion z": ["zsh"],
}


def test_bash_completes_our_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the command itself, which is asked for names alone."""
    servers = {"git": {"command": "false"}, "the notes": {"url": "https://example.org/mcp"}, "a\nb": {}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    command = tmp_path / "jackstay"
    command.write_text(f'#!/bin/sh\nPYTHONPATH={SOURCE} exec {sys.executable} -m jackstay "$@"\n')
    command.chmod(0o755)
    assert main(["completion", "bash"]) == 0
    answers = bash_answers(capsys.readouterr().out, "jackstay", LINES, tmp_path)
    assert dict(zip(LINES, map(sorted, answers), strict=True)) == LINES


def test_names_are_those_of_the_file_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell hands the path over as it was typed; what cannot be read has no names, and no complaint either."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PLACE", str(tmp_path))
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"b": {}, "a": {}, "": {}, "\\u001b[31m": {}}}')
    assert names_in("~/mcp.json") == names_in("$PLACE/mcp.json") == ["b", "a"]
    for text in (
        "",
        "[]",
        "{}",
        '{"mcpServers": 3}',
        "[" * 100_000,
        '"\ud800"'.encode("utf-8", "replace").decode(),
    ):
        file.write_text(text)
        assert names_in(str(file)) == []
    assert names_in(str(tmp_path / "absent")) == names_in(str(tmp_path)) == []


def test_names_are_printed_a_line_each(tmp_path: Path, jackstay: Callable) -> None:
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"b": {}, "a": {}}}')
    assert jackstay("completion", "--names", str(tmp_path / "mcp.json"), peer=False) == (0, "b\na\n", "")
