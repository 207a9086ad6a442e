"""The parser of each sub-command, and of what stands in front of them: one place, so that `--help` and completion say the same.

Above: `_main`, `_completion`. Below: `_commands`, and the file of the command that is asked for.
"""

import argparse

from mooring._version import __version__
from mooring.cli._commands import COMMANDS, Command, CommandRow
from mooring.cli._exits import exit_codes, short_exit_codes
from mooring.shell import CommandParser

EXAMPLES = (
    "mooring tools -- uvx mcp-server-git",
    "mooring call https://example.org/mcp forecast city=Rome",
)


def parser_of(row: CommandRow, command: Command) -> CommandParser:
    """The parser of one sub-command, `command` being its file."""
    parser = CommandParser(
        prog=f"mooring {row.name}",
        description=row.summary[0].upper() + row.summary[1:] + ".",
        epilog=short_exit_codes(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_arguments(parser)
    return parser


def front() -> CommandParser:
    """What is shown for `mooring --help`."""
    width = max(len(row.name) for row in COMMANDS)
    rows = "".join(f"  {row.name:<{width}}  {row.summary}\n" for row in COMMANDS)
    examples = "".join(f"  {example}\n" for example in EXAMPLES)
    parser = CommandParser(
        prog="mooring",
        usage="mooring [-h] [--version] COMMAND ...",
        description="Mooring holds MCP connections. COMMAND --help has options and examples.",
        epilog=f"commands:\n{rows}\nexamples:\n{examples}{exit_codes()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action="version", version=f"mooring {__version__}", help=argparse.SUPPRESS
    )
    return parser
