"""Dispatch of the command line to the subcommands.

Results go to standard output, everything else to standard error. A wrong setting, a wrong argument and a failed request
print a message, never a traceback.
"""

from typing import NoReturn

from jackstay.shell import StatusLine, did_you_mean
from procontext.cli._commands import COMMANDS, DEFAULT, load
from procontext.cli._parsers import command_parser, main_parser

DONE = 0
FAILED = 1
USAGE = 2
TERMINATED = 143


def run(argv: list[str]) -> int:
    """Run the command line and return the exit code. Raises: SystemExit (from argparse), KeyboardInterrupt, OSError."""
    if argv[:1] == ["help"]:
        argv = [*argv[1:2], "--help"]
    row = next((row for row in COMMANDS if argv[:1] == [row.name]), None)
    if row is None:
        if argv and argv[0] in ("-h", "--help", "-V", "--version"):
            main_parser().parse_args(argv[:1])
        if argv and not argv[0].startswith("-"):
            _reject(argv[0])
        row = next(row for row in COMMANDS if row.name == DEFAULT)
        argv = [DEFAULT, *argv]
    with StatusLine("starting"):
        command = load(row)
    return command.run(command_parser(row, command).parse_args(argv[1:]))


def _reject(name: str) -> NoReturn:
    names = [row.name for row in COMMANDS]
    hint = did_you_mean(name.lower(), names) or f"; valid commands: {', '.join(names)}"
    main_parser().error(f"unknown command {name!r}{hint}")


__all__ = ["DONE", "FAILED", "TERMINATED", "USAGE", "run"]
