"""The entry point: arguments in, exit code out, and the manners every command shares.

Manners: results go to standard output and everything else to standard error; a reader that closes the pipe early and
a Ctrl-C end the program quietly; a wrong argument is told in one line. This file knows no command by name.

Everything after the first `--` is the command of a server, and no argument of ours: it is taken away before arguments
are read, so that no option of a server's can be mistaken for one of ours.
"""

import argparse
import io
import json
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from mooring._version import __version__
from mooring.cli._commands import COMMANDS, CommandRow, load
from mooring.cli._exits import DONE, FAILED, INTERRUPTED, code_of, exit_codes, short_exit_codes
from mooring.errors import McpError

# Of what a server that died said last: enough for the end of a traceback.
LAST_WORDS = 10


def main(argv: Sequence[str] | None = None) -> int:
    """Run the `mooring` command and return its exit code; nothing is raised. `argv` defaults to what was typed."""
    # A terminal that cannot show a character gets its escape, never a traceback.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        try:
            code = _dispatch(words)
        except SystemExit as ended:
            # argparse leaves this way after --help, --version and a usage error, always with a number.
            code = int(ended.code or 0)
        if sys.stdout is not None:  # None when the program was started with standard output closed
            # Flushed here, where a closed pipe can still be met quietly; at interpreter exit it is too late.
            sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        return DONE
    except KeyboardInterrupt:
        _discard_output()
        return INTERRUPTED
    except McpError as error:
        _tell(error, as_json="--json" in _ours(words))
        _discard_output()
        return code_of(error)
    except OSError as error:
        print(f"mooring: {error}", file=sys.stderr)
        _discard_output()
        return FAILED
    return code


def _dispatch(words: list[str]) -> int:
    """Find the row that was typed, let its file declare its arguments, and run it."""
    ours = _ours(words)
    # Options before the command take no value, so the first word without a dash is the command.
    typed = next((word for word in ours if not word.startswith("-")), None)
    row = next((row for row in COMMANDS if row.name == typed), None)
    if row is None:
        _refuse(ours)
    place = ours.index(row.name)
    if place > 0:
        front = _front()
        _, unknown = front.parse_known_args(ours[:place])  # --help and --version end here
        front.error(f"options come after the command: mooring {row.name} {' '.join(unknown)} ...")
    command = load(row)
    parser = argparse.ArgumentParser(
        prog=f"mooring {row.name}",
        description=row.summary[0].upper() + row.summary[1:] + ".",
        epilog=short_exit_codes(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,  # an option that is added later must not change what a script means
        add_help=False,
    )
    _take_help(parser)
    command.add_arguments(parser)
    arguments = parser.parse_intermixed_args(ours[place + 1 :])
    _take_server(row, parser, arguments, words[len(ours) :])
    return command.run(arguments)


def _ours(words: list[str]) -> list[str]:
    return words[: words.index("--")] if "--" in words else words


def _take_server(
    row: CommandRow, parser: argparse.ArgumentParser, arguments: argparse.Namespace, rest: list[str]
) -> None:
    """Put the words after `--` where the command finds them: None if there was no `--`."""
    if rest and not row.has_server:
        parser.error("there is nothing to start here: no words after --")
    if rest == ["--"]:
        parser.error("after -- there must be the command of a server")
    arguments.server = rest[1:] or None


def _take_help(parser: argparse.ArgumentParser) -> None:
    """Without a line of its own: who reads it has found it, and a screen has 24."""
    parser.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)


def _front() -> argparse.ArgumentParser:
    """What is shown for `mooring --help`."""
    front = argparse.ArgumentParser(
        prog="mooring",
        usage="mooring [-h] [--version] COMMAND ...",
        description="Mooring holds MCP connections. COMMAND --help has options and examples.",
        epilog=f"{_rows_of_commands()}\n{exit_codes()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        add_help=False,
    )
    _take_help(front)
    front.add_argument(
        "--version", action="version", version=f"mooring {__version__}", help=argparse.SUPPRESS
    )
    return front


def _rows_of_commands() -> str:
    width = max(len(row.name) for row in COMMANDS)
    return "commands:\n" + "".join(f"  {row.name:<{width}}  {row.summary}\n" for row in COMMANDS)


def _refuse(words: list[str]) -> NoReturn:
    """No command was typed, or none that exists. Options are read first: one may be `--help`, or the real mistake."""
    front = _front()
    _, unknown = front.parse_known_args(words)
    options = [word for word in unknown if word.startswith("-")]
    if options:
        front.error(f"unrecognized arguments: {' '.join(options)}")
    if unknown:
        names = ", ".join(row.name for row in COMMANDS)
        front.error(f"there is no command {unknown[0]!r}; there are {names}")
    front.error("a COMMAND is required; mooring --help lists them")


def _tell(error: McpError, *, as_json: bool) -> None:
    """Say what went wrong on standard error: a sentence for people, an object for programs."""
    if as_json:
        said = {
            "type": error.type,
            "message": str(error),
            "code": error.code,
            "mayHaveRun": error.may_have_run,
            "retryable": error.retryable,
            "details": error.details,
        }
        print(json.dumps({"error": said}, default=str), file=sys.stderr)
        return
    from mooring.cli._screen import clean  # noqa: PLC0415  # only where there is something to clean

    print(f"mooring: {clean(str(error))}", file=sys.stderr)
    tail = getattr(error, "stderr_tail", "") or getattr(getattr(error, "reason", None), "stderr_tail", "")
    lines = tail.strip("\n").splitlines()[-LAST_WORDS:]
    if len(lines) > 1:  # the last one is in the sentence
        print("its last words on standard error were:", file=sys.stderr)
        print("\n".join(f"  {clean(line)}" for line in lines), file=sys.stderr)


def _discard_output() -> None:
    """Write what is left; if it cannot be written, point standard output at nothing.

    Otherwise the interpreter tries once more on its way out, and ends with a complaint and an exit code of its own.
    """
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
