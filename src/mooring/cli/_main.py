"""The entry point: arguments in, exit code out, and the manners every command shares.

Manners: results go to standard output and everything else to standard error; a reader that closes the pipe early and
a Ctrl-C end the program quietly; a wrong argument is told in one line. This file knows no command by name.
"""

import argparse
import io
import os
import sys
from collections.abc import Sequence

from mooring._version import __version__
from mooring.cli._commands import COMMANDS, load
from mooring.errors import McpError

EXIT_CODES = """\
exit codes:
  0    done (also when the reader of our output closed the pipe early)
  1    the command was understood and failed; the reason is on standard error
  2    the command was not understood: unknown command, option or value
  130  interrupted (Ctrl-C)
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the `mooring` command and return its exit code; nothing is raised. `argv` defaults to what was typed."""
    # A terminal that cannot show a character gets its escape, never a traceback.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            code = _dispatch(sys.argv[1:] if argv is None else list(argv))
        except SystemExit as ended:
            # argparse leaves this way after --help, --version and a usage error, always with a number.
            code = int(ended.code or 0)
        if sys.stdout is not None:  # None when the program was started with standard output closed
            # Flushed here, where a closed pipe can still be met quietly; at interpreter exit it is too late.
            sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        return 0
    except KeyboardInterrupt:
        return 130
    except (McpError, OSError) as error:
        print(f"mooring: {error}", file=sys.stderr)
        _discard_output()
        return 1
    return code


def _dispatch(argv: list[str]) -> int:
    """Find the row that was typed, let its file declare its arguments, and run it."""
    parser = argparse.ArgumentParser(
        prog="mooring",
        description="Mooring holds MCP connections.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"mooring {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    # Options before the command take no value, so the first word without a dash is the command.
    typed = next((word for word in argv if not word.startswith("-")), None)
    command = None
    for row in COMMANDS:
        sub_parser = commands.add_parser(
            row.name,
            help=row.summary,
            description=row.summary[0].upper() + row.summary[1:] + ".",
            epilog=EXIT_CODES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if row.name == typed:
            command = load(row)
            command.add_arguments(sub_parser)
    arguments = parser.parse_args(argv)
    if command is None:
        # Not left to argparse, which would report the missing command and hide a misspelt option before it.
        parser.error("a COMMAND is required; mooring --help lists them")
    return command.run(arguments)


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
