"""The argument parsers of the sub-commands and of the main command. `--help` and shell completion use the same ones."""

import argparse

from jackstay._version import __version__
from jackstay.cli._commands import COMMANDS, Command, CommandRow
from jackstay.cli._exits import exit_codes, short_exit_codes
from jackstay.shell import CommandParser

EXAMPLES = (
    "jackstay tools -- uvx mcp-server-git",
    "jackstay call https://example.org/mcp forecast city=Rome",
)


def command_parser(row: CommandRow, command: Command) -> CommandParser:
    """Return the parser of one sub-command; `command` is its module."""
    parser = CommandParser(
        prog=f"jackstay {row.name}",
        description=row.summary[0].upper() + row.summary[1:] + ".",
        epilog=short_exit_codes(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_arguments(parser)
    return parser


def main_parser() -> CommandParser:
    """Return the parser of `jackstay` itself, for `--help` and `--version`."""
    width = max(len(row.name) for row in COMMANDS)
    rows = "".join(f"  {row.name:<{width}}  {row.summary}\n" for row in COMMANDS)
    examples = "".join(f"  {example}\n" for example in EXAMPLES)
    parser = CommandParser(
        prog="jackstay",
        usage="jackstay [-h] [--version] COMMAND ...",
        description="Use, serve and test MCP servers. See COMMAND --help for options and examples.",
        epilog=f"commands:\n{rows}\nexamples:\n{examples}{exit_codes()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"jackstay {__version__}", help=argparse.SUPPRESS)
    return parser
