"""The argument parsers of the command and its subcommands, used for parsing, `--help` and completion."""

from argparse import SUPPRESS

from jackstay.shell import CommandParser
from procontext._version import __version__
from procontext.cli._commands import COMMANDS, Command, CommandRow

EXIT_CODES = "exit codes: 0 done, 1 failed or not found, 2 usage error, 130 interrupted"


def command_parser(row: CommandRow, command: Command) -> CommandParser:
    """Return the parser of one subcommand; `command` is its module."""
    examples = "".join(f"  procontext {row.name} {example}".rstrip() + "\n" for example in row.examples)
    parser = CommandParser(
        prog=f"procontext {row.name}",
        description=row.summary[0].upper() + row.summary[1:] + ".",
        epilog=f"examples:\n{examples}{EXIT_CODES}",
    )
    command.add_arguments(parser)
    return parser


def main_parser() -> CommandParser:
    """Return the parser of `procontext` without a command."""
    width = max(len(row.name) for row in COMMANDS)
    listed = "".join(f"  {row.name:<{width}}  {row.summary}\n" for row in COMMANDS)
    parser = CommandParser(
        prog="procontext",
        usage="procontext [-h] [--version] [COMMAND ...]",
        description="A documentation server for coding agents. Help: procontext COMMAND --help",
        epilog=f"commands:\n{listed}\nexamples:\n  procontext docs fastapi\n  procontext fetch fastapi httpx\n"
        f"settings: procontext.yaml, --config, PROCONTEXT__ variables; procontext doctor\n{EXIT_CODES}",
    )
    parser.add_argument("-V", "--version", action="version", version=f"procontext {__version__}", help=SUPPRESS)
    return parser


__all__ = ["EXIT_CODES", "command_parser", "main_parser"]
