"""The manners of the `jackstay` command: exit codes, messages, closed pipes, Ctrl-C. Any command will do as a subject."""

import os
import runpy
import shlex
import signal
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

import pytest

from jackstay import (
    ClosedError,
    McpError,
    OutcomeUnknownError,
    TimeoutError,
    TransportError,
    UsageError,
    __version__,
)
from jackstay.cli import main
from jackstay.cli._commands import COMMANDS, CommandRow, load
from jackstay.cli._exits import exit_codes, short_exit_codes
from scripted.places import PYTHONPATH

SOURCE = PYTHONPATH
# Without PYTHONUNBUFFERED and the like, which change where a write fails.
INHERITED = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
ENVIRONMENT = {**INHERITED, "PYTHONPATH": str(SOURCE)}


class Planted:
    """A command that raises."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def add_arguments(self, parser: ArgumentParser) -> None:
        pass

    def run(self, arguments: Namespace) -> int:
        print("begun")
        raise self.error


def start(*arguments: str, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "jackstay", *arguments],
        **{"stderr": subprocess.PIPE, "text": True, "env": ENVIRONMENT, **options},  # type: ignore[call-overload] # any Popen option
    )


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"jackstay {__version__}\n"


@pytest.mark.parametrize("arguments", [["--help"], *([row.name, "--help"] for row in COMMANDS)], ids=str)
def test_help_fits_a_terminal_and_ends_with_the_exit_codes(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """80 columns, 24 lines: who asks for help should not have to scroll."""
    monkeypatch.setenv("COLUMNS", "80")
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert len(shown.splitlines()) <= 24
    assert [line for line in shown.splitlines() if len(line) > 80] == []
    assert shown.endswith(exit_codes() if arguments == ["--help"] else f"{short_exit_codes()}\n")


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.name)
def test_help_shows_an_example_that_is_understood(
    row: CommandRow, capsys: pytest.CaptureFixture[str]
) -> None:
    main([row.name, "--help"])
    shown = capsys.readouterr().out.partition("examples:\n")[2].splitlines()
    examples = [shlex.split(line.partition("|")[0]) for line in shown if line.startswith("  jackstay ")]
    assert examples
    for example in examples:
        assert example[:2] == ["jackstay", row.name]
    assert not row.has_server or any("https://example.org/mcp" in example for example in examples)


def test_help_explains_one_command(capsys: pytest.CaptureFixture[str]) -> None:
    main(["help", "tools"])
    assert capsys.readouterr().out.startswith("usage: jackstay tools [options] URL")


def test_an_option_before_the_command_is_told_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-v", "tools", "https://example.org/mcp"]) == 2
    assert "options come after the command: jackstay tools -v ..." in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--help"], ["help"], ["help", "--help"], ["help", "help"]], ids=str)
def test_help_lists_every_command(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "\nexamples:\n  jackstay tools -- uvx mcp-server-git\n" in shown
    for row in COMMANDS:
        assert row.name in shown
        assert row.summary in " ".join(shown.split())


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.name)
def test_every_row_has_its_file(row: object) -> None:
    command = load(row)  # type: ignore[arg-type] # a CommandRow
    assert callable(command.add_arguments)
    assert callable(command.run)


# arguments -> what standard error must name
MISUSES = [
    ([], "a COMMAND is required"),
    (["nonsense"], "there is no command 'nonsense'; there are tools, resources"),
    (["Tool"], "there is no command 'Tool'; did you mean tools? See jackstay --help"),
    (
        ["tools", "--jsno", "--", "x"],
        "there is no option --jsno; did you mean --json? See jackstay tools --help",
    ),
    (["help", "prxy"], "there is no command 'prxy'; did you mean proxy? See jackstay --help"),
    (["--nonsense"], "--nonsense"),
    (["states", "nobody"], "nobody"),
    (["states", "--format", "png"], "png"),
    (["states", "--format"], "--format"),
    (["states", "client", "server"], "server"),
    (["states", "--nonsense"], "--nonsense"),
    (["states", "--", "server"], "nothing to start here"),
    (["--nonsense", "states"], "--nonsense"),
    (["-v", "tools", "--", "x"], "-v"),
    (["tools", "--"], "the command of a server"),
    (["tools", "--time", "3", "--", "x"], "--time"),
    (["--", "tools"], "a COMMAND is required"),
]


@pytest.mark.parametrize(("arguments", "named"), MISUSES)
def test_a_misuse_is_exit_code_2_and_names_the_word(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "usage: jackstay" in shown.err
    assert named in shown.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (McpError("the server said no"), 1, "jackstay: the server said no"),
        (McpError("it said \x1b[31m"), 1, "jackstay: it said \\x1b[31m\n"),
        (UsageError("no such thing"), 2, "jackstay: no such thing"),
        (TransportError("gone", stderr_tail="one line\n"), 3, "jackstay: gone [stderr: one line]\n"),
        (
            ClosedError(TransportError("gone", stderr_tail="  first\nlast\n")),
            3,
            "jackstay: the connection is closed: gone [stderr: last]\n"
            "its last words on standard error were:\n    first\n  last\n",
        ),
        (OutcomeUnknownError("lost"), 4, "jackstay: lost; it may have run"),
        (
            TimeoutError(2, sent=True),
            4,
            "jackstay: no answer within 2 s; it was cancelled, but it may have run\n",
        ),
        (
            TransportError("not trusted: give the authority's in ca=FILE, or as SSL_CERT_FILE"),
            3,
            "jackstay: not trusted: give the authority's with --ca FILE, or as SSL_CERT_FILE\n",
        ),
        (FileNotFoundError(2, "No such file", "mcp.json"), 1, "jackstay: [Errno 2] No such file: 'mcp.json'"),
        (KeyboardInterrupt(), 130, ""),
        (BrokenPipeError(), 0, ""),
    ],
)
def test_how_a_command_ends_decides_the_exit_code(
    error: BaseException,
    code: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("jackstay.cli._main.load", lambda row: Planted(error))
    assert main(["states"]) == code
    shown = capsys.readouterr()
    assert shown.out == "begun\n"
    assert shown.err.startswith(said)
    assert bool(shown.err) == bool(said)


def test_a_defect_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jackstay.cli._main.load", lambda row: Planted(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        main(["states"])


def test_what_was_typed_is_the_default(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["jackstay", "--version"])
    before = signal.getsignal(signal.SIGINT)
    assert main() == 0
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("jackstay", run_name="__main__")
    signal.signal(signal.SIGINT, before)  # that process was the command's own
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"jackstay {__version__}\n" * 2


def test_the_rest_of_the_output_is_dropped_when_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert main(["--version"]) == 0
        print("more")  # as the interpreter's own last flush would


def test_without_a_standard_output_nothing_is_flushed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["--version"]) == 0


@pytest.mark.parametrize("arguments", [["states"], ["--help"], ["--version"]])
def test_a_reader_that_left_is_met_quietly(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with start(*arguments, stdout=writing) as process:
        os.close(writing)
        _, complaint = process.communicate(timeout=30)
    assert (process.returncode, complaint) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize("arguments", [["states"], ["--version"]])
def test_output_that_cannot_be_written_is_exit_code_1_and_one_line(arguments: list[str]) -> None:
    with open("/dev/full", "w") as full, start(*arguments, stdout=full) as process:
        _, complaint = process.communicate(timeout=30)
    assert process.returncode == 1
    assert complaint == "jackstay: [Errno 28] No space left on device\n"


def test_a_closed_standard_output_is_no_traceback() -> None:
    done = subprocess.run(
        ["sh", "-c", '"$0" -m jackstay states >&-', sys.executable],
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_terminal_without_unicode_gets_escapes() -> None:
    environment = {**ENVIRONMENT, "PYTHONIOENCODING": "ascii"}
    with start("states", stdout=subprocess.PIPE, env=environment) as process:
        shown, complaint = process.communicate(timeout=30)
    assert (process.returncode, complaint) == (0, "")
    assert shown.isascii()


def test_ctrl_c_in_a_running_command_is_exit_code_130_without_a_traceback() -> None:
    waiting = (
        "import signal, sys, threading, jackstay.cli._main as cli\n"
        "from jackstay.cli import main\n"
        # A parent that ignores SIGINT (a background job of a shell) hands that down.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Waiting:\n"
        "    def add_arguments(self, parser): pass\n"
        "    def run(self, arguments):\n"
        "        print('waiting', flush=True)\n"
        "        threading.Event().wait(30)\n"
        "cli.load = lambda row: Waiting()\n"
        "sys.exit(main(['states']))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", waiting],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=30)
    assert (process.returncode, complaint) == (130, "")
