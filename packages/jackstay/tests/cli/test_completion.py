"""`jackstay completion`: generated scripts, and names from a configuration file."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jackstay.cli import main
from jackstay.cli._commands import COMMANDS, command_parser, load
from jackstay.cli._completion import names_in, program
from jackstay.shell import SHELLS, Program
from scripted.places import PYTHONPATH
from scripted.terminal import StatusTerminal, bash_answers

SOURCE = PYTHONPATH


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_has_every_command_and_option(jackstay: Callable, shell: str) -> None:
    done = jackstay("completion", shell, peer=False)
    assert (done.code, done.err) == (0, "")
    for row in COMMANDS:
        assert row.name in done.out
        help_text = command_parser(row, load(row)).format_help()
        for word in re.findall(r"^  (?:-\w, )?--([\w-]+)", help_text, re.MULTILINE):
            assert (f"-l {word} " if shell == "fish" else f"--{word}") in done.out


def test_a_terminal_shows_what_takes_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The modules of all commands are imported."""
    terminal = StatusTerminal()

    def read() -> Program:
        terminal.wait_for("reading the options")
        return program()

    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr("jackstay.shell._status_line.QUIET_SECONDS", 0.0)
    monkeypatch.setattr("jackstay.cli._completion.program", read)
    assert main(["completion", "bash"]) == 0


def test_the_shell_is_required(jackstay: Callable) -> None:
    done = jackstay("completion", peer=False)
    assert (done.code, done.out) == (2, "")
    assert "SHELL is missing; use one of bash, zsh, fish" in done.err
    assert "invalid choice: 'tcsh'" in jackstay("completion", "tcsh", peer=False).err


def test_commands_with_a_server_complete_names() -> None:
    for command in program().commands:
        row = next(row for row in COMMANDS if row.name == command.name)
        assert command.has_server is row.has_server


# line -> completions
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


def test_bash_completes_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The script runs the command itself for names."""
    servers = {"git": {"command": "false"}, "the notes": {"url": "https://example.org/mcp"}, "a\nb": {}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    command = tmp_path / "jackstay"
    command.write_text(f'#!/bin/sh\nPYTHONPATH={SOURCE} exec {sys.executable} -m jackstay "$@"\n')
    command.chmod(0o755)
    assert main(["completion", "bash"]) == 0
    answers = bash_answers(capsys.readouterr().out, "jackstay", LINES, tmp_path)
    assert dict(zip(LINES, map(sorted, answers), strict=True)) == LINES


def test_names_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell passes the path as it was typed. A file that cannot be read has no names."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("FOLDER", str(tmp_path))
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"b": {}, "a": {}, "": {}, "\\u001b[31m": {}}}')
    assert names_in("~/mcp.json") == names_in("$FOLDER/mcp.json") == ["b", "a"]
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


def test_names_are_printed_one_per_line(tmp_path: Path, jackstay: Callable) -> None:
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"b": {}, "a": {}}}')
    assert jackstay("completion", "--names", str(tmp_path / "mcp.json"), peer=False) == (0, "b\na\n", "")
