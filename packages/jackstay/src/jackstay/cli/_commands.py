"""The table of sub-commands: name, summary and module; and their argument parsers.

A row contains the module as a string, so that `jackstay --help` imports no command. A new command is a row here and a
module with the two functions of `Command`.
"""

import argparse
import importlib
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from typing import NamedTuple, Protocol, cast

from jackstay._version import __version__
from jackstay.cli._exits import exit_codes, short_exit_codes
from jackstay.shell import CommandParser


class Command(Protocol):
    """The functions that the module of a command provides."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the arguments of this command."""

    def run(self, arguments: Namespace) -> int:
        """Run the command, write the result to standard output, and return the exit code."""


class CommandRow(NamedTuple):
    """One sub-command. `module` is imported only if the command is used.

    `has_server`: the words after `--` are the command of a server to start.
    """

    name: str
    summary: str
    module: str
    has_server: bool = True


COMMANDS = (
    CommandRow("info", "show the name, revision, capabilities and instructions of a server", "jackstay.cli._info"),
    CommandRow("tools", "list the tools of a server", "jackstay.cli._tools"),
    CommandRow("resources", "list the resources and resource templates of a server", "jackstay.cli._resources"),
    CommandRow("prompts", "list the prompts of a server, or get one", "jackstay.cli._prompts"),
    CommandRow("call", "call a tool and print its result", "jackstay.cli._call"),
    CommandRow("read", "read a resource and print its contents", "jackstay.cli._read"),
    CommandRow("complete", "complete an argument of a prompt or resource template", "jackstay.cli._complete"),
    CommandRow("watch", "print notifications and connection states until Ctrl-C", "jackstay.cli._watch"),
    CommandRow("inspect", "open a web page that inspects a server", "jackstay.cli._inspect"),
    CommandRow("dev", "run a server, restart it when a file is saved, and inspect it", "jackstay.cli._dev"),
    CommandRow("ping", "send a keepalive request and print the response time", "jackstay.cli._ping"),
    CommandRow(
        "serve",
        "serve the Server in a file or module over stdio or HTTP",
        "jackstay.cli._serve",
        has_server=False,
    ),
    CommandRow("record", "record the messages between a client and a server", "jackstay.cli._record"),
    CommandRow(
        "replay",
        "serve recorded responses without the server",
        "jackstay.cli._replay",
        has_server=False,
    ),
    CommandRow("proxy", "keep a server running and serve it over stdio or HTTP", "jackstay.cli._proxy"),
    CommandRow(
        "gateway",
        "serve many servers behind one endpoint",
        "jackstay.cli._gateway",
        has_server=False,
    ),
    CommandRow("generate", "write a Python module with a typed client for a server", "jackstay.cli._generate"),
    CommandRow("pack", "write a bundle (.mcpb) and a registry entry", "jackstay.cli._pack", has_server=False),
    CommandRow("install", "add a server to a host such as Claude Desktop or Cursor", "jackstay.cli._install"),
    CommandRow("uninstall", "remove a server from a host", "jackstay.cli._uninstall", has_server=False),
    CommandRow(
        "discover",
        "list the servers of the hosts on this machine and check them",
        "jackstay.cli._discover",
        has_server=False,
    ),
    CommandRow(
        "logout",
        "delete the tokens that --login stored for a server",
        "jackstay.cli._logout",
        has_server=False,
    ),
    CommandRow(
        "states",
        "print the state machines of the protocol",
        "jackstay.cli._states",
        has_server=False,
    ),
    CommandRow(
        "completion",
        "print a shell completion script",
        "jackstay.cli._completion",
        has_server=False,
    ),
)


def load(row: CommandRow) -> Command:
    """Import the module of a command."""
    # The cast: a module with these two functions is a Command, but import_module returns only a module type.
    return cast("Command", importlib.import_module(row.module))


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


def add_help(parser: ArgumentParser, *usages: str, examples: Iterable[str], more: str = "") -> None:
    """Add usage lines and examples to the help of a command, and `more` to its description."""
    parser.usage = "\n       ".join(f"{parser.prog} [options] {usage}" for usage in usages)
    parser.description = f"{parser.description}{more}"
    lines = "".join(f"  {parser.prog} {example}\n" for example in examples)
    parser.epilog = f"examples:\n{lines}{parser.epilog}"


def main_parser() -> CommandParser:
    """Return the parser of `jackstay` itself, for `--help` and `--version`."""
    width = max(len(row.name) for row in COMMANDS)
    rows = "".join(f"  {row.name:<{width}}  {row.summary}\n" for row in COMMANDS)
    parser = CommandParser(
        prog="jackstay",
        usage="jackstay [-h] [--version] COMMAND ...",
        description="Use, serve and test MCP servers: jackstay tools -- uvx mcp-server-git\n"
        "See COMMAND --help for options and examples.",
        epilog=f"commands:\n{rows}{exit_codes()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"jackstay {__version__}", help=argparse.SUPPRESS)
    return parser
