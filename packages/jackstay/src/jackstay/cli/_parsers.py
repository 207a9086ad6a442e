"""The parser of each sub-command, and of what stands in front of them: one place, so that `--help` and completion say the same.

Above: `_main`, `_completion`. Below: `_commands`, and the file of the command that is asked for.
"""

import argparse

from jackstay._version import __version__
from jackstay.cli._commands import COMMANDS, Command, CommandRow
from jackstay.cli._exits import exit_codes, short_exit_codes
from jackstay.shell import CommandParser

EXAMPLES = (
    "jackstay tools -- uvx mcp-server-git",
    "jackstay call https://example.org/mcp forecast city=Rome",
)


def parser_of(row: CommandRow, command: Command) -> CommandParser:
    """The parser of one sub-command, `command` being its file."""
    parser = CommandParser(
        prog=f"jackstay {row.name}",
        description=row.summary[0].upper() + row.summary[1:] + ".",
        epilog=short_exit_codes(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_arguments(parser)
    return parser


def front() -> CommandParser:
    """What is shown for `jackstay --help`."""
    width = max(len(row.name) for row in COMMANDS)
    rows = "".join(f"  {row.name:<{width}}  {row.summary}\n" for row in COMMANDS)
    examples = "".join(f"  {example}\n" for example in EXAMPLES)
    parser = CommandParser(
        prog="jackstay",
        usage="jackstay [-h] [--version] COMMAND ...",
        description="Jackstay holds MCP connections. COMMAND --help has options and examples.",
        epilog=f"commands:\n{rows}\nexamples:\n{examples}{exit_codes()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action="version", version=f"jackstay {__version__}", help=argparse.SUPPRESS
    )
    return parser
