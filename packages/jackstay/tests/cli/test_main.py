"""The `jackstay` command: help, usage errors, exit codes, closed pipes and signals."""

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
from jackstay.cli._commands import COMMANDS, load
from jackstay.cli._exits import exit_codes, short_exit_codes
from scripted.places import PYTHONPATH

SOURCE = PYTHONPATH
# Without PYTHONUNBUFFERED and the like, which change where a write fails.
INHERITED = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
ENVIRONMENT = {**INHERITED, "PYTHONPATH": str(SOURCE)}


class Raising:
    """A command that raises."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def add_arguments(self, parser: ArgumentParser) -> None:
        pass

    def run(self, arguments: Namespace) -> int:
        print("started")
        raise self.error


def start(*arguments: str, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "jackstay", *arguments],
        **{"stderr": subprocess.PIPE, "text": True, "env": ENVIRONMENT, **options},  # type: ignore[call-overload] # any Popen option
    )


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"jackstay {__version__}\n"


def test_help_fits_a_terminal_and_ends_with_the_exit_codes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """80 columns, and at most 32 lines for a command."""
    monkeypatch.setenv("COLUMNS", "80")
    for arguments in (["--help"], *([row.name, "--help"] for row in COMMANDS)):
        assert main(arguments) == 0, arguments
        text = capsys.readouterr().out
        assert len(text.splitlines()) <= (40 if arguments == ["--help"] else 32), arguments
        assert [line for line in text.splitlines() if len(line) > 80] == [], arguments
        assert text.endswith(exit_codes() if arguments == ["--help"] else f"{short_exit_codes()}\n"), arguments


def test_help_has_valid_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for row in COMMANDS:
        main([row.name, "--help"])
        lines = capsys.readouterr().out.partition("examples:\n")[2].splitlines()
        examples = [shlex.split(line.partition("|")[0]) for line in lines if line.startswith("  jackstay ")]
        assert examples, row.name
        assert all(example[:2] == ["jackstay", row.name] for example in examples), row.name
        # `dev` runs programs only.
        has_url = row.has_server and row.name != "dev"
        assert not has_url or any("https://example.org/mcp" in example for example in examples), row.name


def test_help_explains_one_command(capsys: pytest.CaptureFixture[str]) -> None:
    main(["help", "tools"])
    assert capsys.readouterr().out.startswith("usage: jackstay tools [options] URL")


def test_options_must_follow_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-v", "tools", "https://example.org/mcp"]) == 2
    assert "options must follow the command: jackstay tools -v ..." in capsys.readouterr().err


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--help"], ["help"], ["help", "--help"], ["help", "help"]):
        assert main(words) == 0, words
        text = capsys.readouterr().out
        assert "servers: jackstay tools -- uvx mcp-server-git\n" in text, words
        for row in COMMANDS:
            assert row.name in text, words
            assert row.summary in " ".join(text.split()), words


def test_every_command_has_a_module() -> None:
    for row in COMMANDS:
        command = load(row)
        assert callable(command.add_arguments), row.name
        assert callable(command.run), row.name


# arguments -> text in the last line of standard error
USAGE_ERRORS = [
    ([], "a COMMAND is required"),
    (["nonsense"], "unknown command 'nonsense'; valid commands: info, tools, resources"),
    (["Tool"], "unknown command 'Tool'; did you mean 'tools'? See jackstay --help"),
    (["login"], "sign in with an option of a command: jackstay info --login URL"),
    (
        ["tools", "--jsno", "--", "x"],
        "unknown option '--jsno'; did you mean '--json'? See jackstay tools --help",
    ),
    (
        ["serve", "x.py", "--port=8000"],
        "unknown option '--port=8000'; did you mean '--http'? See jackstay serve --help",
    ),
    (["help", "prxy"], "unknown command 'prxy'; did you mean 'proxy'? See jackstay --help"),
    (["--nonsense"], "--nonsense"),
    (["states", "unknown"], "unknown"),
    (["states", "--format", "png"], "png"),
    (["states", "--format"], "--format"),
    (["states", "client", "server"], "server"),
    (["states", "--nonsense"], "--nonsense"),
    (["states", "--", "server"], "this command starts no server"),
    (["--nonsense", "states"], "--nonsense"),
    (["-v", "tools", "--", "x"], "-v"),
    (["tools", "--"], "the command of a server"),
    (["tools", "--time", "3", "--", "x"], "--time"),
    (["--", "tools"], "a COMMAND is required"),
]


def test_usage_errors(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, text in USAGE_ERRORS:
        assert main(arguments) == 2, arguments
        done = capsys.readouterr()
        assert done.out == "", arguments
        assert "usage: jackstay" in done.err, arguments
        assert text in done.err.splitlines()[-1], arguments


# exception -> exit code, beginning of standard error
EXCEPTIONS: list[tuple[BaseException, int, str]] = [
    (McpError("the server refused"), 1, "jackstay: the server refused"),
    (McpError("text \x1b[31m"), 1, "jackstay: text \\x1b[31m\n"),
    (UsageError("no such thing"), 2, "jackstay: no such thing"),
    (TransportError("gone", stderr_tail="one line\n"), 3, "jackstay: gone [stderr: one line]\n"),
    (
        ClosedError(TransportError("gone", stderr_tail="  first\nlast\n")),
        3,
        "jackstay: the connection is closed: gone\nlast lines of the server's standard error:\n    first\n  last\n",
    ),
    (OutcomeUnknownError("lost"), 4, "jackstay: lost; it may have run"),
    (
        TimeoutError(2, sent=True),
        4,
        "jackstay: no response within 2 s; the request was cancelled, but it may have run\n",
    ),
    (
        TransportError("not trusted; pass the CA's certificate as ca=FILE"),
        3,
        "jackstay: not trusted; pass the CA's certificate with --ca FILE\n",
    ),
    (FileNotFoundError(2, "No such file", "mcp.json"), 1, "jackstay: [Errno 2] No such file: 'mcp.json'"),
    (KeyboardInterrupt(), 130, ""),
    (BrokenPipeError(), 0, ""),
]


def test_exit_code_and_message_of_an_exception(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for error, code, message in EXCEPTIONS:
        monkeypatch.setattr("jackstay.cli._main.load", lambda row, error=error: Raising(error))
        assert main(["states"]) == code, repr(error)
        done = capsys.readouterr()
        assert done.out == "started\n", repr(error)
        assert done.err.startswith(message), repr(error)
        assert bool(done.err) == bool(message), repr(error)


def test_an_unexpected_exception_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jackstay.cli._main.load", lambda row: Raising(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        main(["states"])


def test_argv_defaults_to_sys_argv(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["jackstay", "--version"])
    before = signal.getsignal(signal.SIGINT)
    assert main() == 0
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("jackstay", run_name="__main__")
    signal.signal(signal.SIGINT, before)
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"jackstay {__version__}\n" * 2


def test_output_to_a_closed_pipe_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert main(["--version"]) == 0
        print("more")  # like the flush of the interpreter at exit


def test_standard_output_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["--version"]) == 0


@pytest.mark.parametrize("arguments", [["states"], ["--help"], ["--version"]])
def test_a_closed_pipe_is_silent(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with start(*arguments, stdout=writing) as process:
        os.close(writing)
        _, stderr = process.communicate(timeout=240)
    assert (process.returncode, stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize("arguments", [["states"], ["--version"]])
def test_a_full_disk_is_exit_code_1(arguments: list[str]) -> None:
    with open("/dev/full", "w") as full, start(*arguments, stdout=full) as process:
        _, stderr = process.communicate(timeout=240)
    assert process.returncode == 1
    assert stderr == "jackstay: [Errno 28] No space left on device\n"


def test_a_closed_standard_output_is_silent() -> None:
    done = subprocess.run(
        ["sh", "-c", '"$0" -m jackstay states >&-', sys.executable],
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_an_ascii_terminal_gets_escapes() -> None:
    environment = {**ENVIRONMENT, "PYTHONIOENCODING": "ascii"}
    with start("states", stdout=subprocess.PIPE, env=environment) as process:
        done, stderr = process.communicate(timeout=240)
    assert (process.returncode, stderr) == (0, "")
    assert done.isascii()


def test_sigint_in_a_command_is_exit_code_130() -> None:
    waiting = (
        "import signal, sys, threading, jackstay.cli._main as cli\n"
        "from jackstay.cli import main\n"
        # A parent that ignores SIGINT (a background job of a shell) passes that on.
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
        _, stderr = process.communicate(timeout=240)
    assert (process.returncode, stderr) == (130, "")
