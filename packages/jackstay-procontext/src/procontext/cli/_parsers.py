"""The parser of each sub-command, and of what stands in front of them: one place, so that `--help` and completion say the same.

Above: `_main`, `_completion`. Below: `_commands`, and the file of the command that is asked for.
"""

import argparse

from jackstay.shell import CommandParser
from procontext._version import __version__
from procontext.cli._commands import COMMANDS, Command, CommandRow

EXIT_CODES = "exit codes: 0 done, 1 failed or not found, 2 not understood, 130 interrupted"


def parser_of(row: CommandRow, command: Command) -> CommandParser:
    """The parser of one sub-command, `command` being its file."""
    examples = "".join(f"  procontext {row.name} {example}".rstrip() + "\n" for example in row.examples)
    parser = CommandParser(
        prog=f"procontext {row.name}",
        description=row.summary[0].upper() + row.summary[1:] + ".",
        epilog=f"examples:\n{examples}{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_arguments(parser)
    return parser


def front() -> CommandParser:
    """What is shown for `procontext --help`."""
    width = max(len(row.name) for row in COMMANDS)
    listed = "".join(f"  {row.name:<{width}}  {row.summary}\n" for row in COMMANDS)
    parser = CommandParser(
        prog="procontext",
        usage="procontext [-h] [--version] [COMMAND ...]",
        description="The documentation server for coding agents. COMMAND --help explains one.",
        epilog=f"commands:\n{listed}\nexamples:\n  procontext docs fastapi\n  procontext fetch fastapi httpx\n"
        f"settings: procontext.yaml, --config, PROCONTEXT__ variables; procontext doctor\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "-V", "--version", action="version", version=f"procontext {__version__}", help=argparse.SUPPRESS
    )
    return parser


__all__ = ["EXIT_CODES", "front", "parser_of"]
