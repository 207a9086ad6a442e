"""The table of sub-commands, and their argument parsers.

The command NAME is a row here and the module `_NAME`, which is imported only if the command is used. The module has two
functions: `add_arguments(parser)`, and `run(arguments)`, which writes the result to standard output and returns the
exit code.
"""

import importlib
from argparse import SUPPRESS, ArgumentParser
from collections.abc import Iterable
from types import ModuleType
from typing import NamedTuple

from jackstay._version import __version__
from jackstay.cli._exits import exit_codes, short_exit_codes
from jackstay.shell import CommandParser


class CommandRow(NamedTuple):
    """One sub-command. `has_server`: the words after `--` are the command of a server to start."""

    name: str
    summary: str
    has_server: bool = True


COMMANDS = (
    CommandRow("info", "show the name, revision, capabilities and instructions of a server"),
    CommandRow("tools", "list the tools of a server"),
    CommandRow("resources", "list the resources and resource templates of a server"),
    CommandRow("prompts", "list the prompts of a server, or get one"),
    CommandRow("call", "call a tool and print its result"),
    CommandRow("read", "read a resource and print its contents"),
    CommandRow("complete", "complete an argument of a prompt or resource template"),
    CommandRow("watch", "print notifications and connection states until Ctrl-C"),
    CommandRow("inspect", "open a web page that inspects a server"),
    CommandRow("dev", "run a server, restart it when a file is saved, and inspect it"),
    CommandRow("ping", "send a keepalive request and print the response time"),
    CommandRow("serve", "serve the Server in a file or module over stdio or HTTP", has_server=False),
    CommandRow("record", "record the messages between a client and a server"),
    CommandRow("replay", "serve recorded responses without the server", has_server=False),
    CommandRow("proxy", "keep a server running and serve it over stdio or HTTP"),
    CommandRow("gateway", "serve many servers behind one endpoint", has_server=False),
    CommandRow("generate", "write a Python module with a typed client for a server"),
    CommandRow("pack", "write a bundle (.mcpb) and a registry entry", has_server=False),
    CommandRow("install", "add a server to a host such as Claude Desktop or Cursor"),
    CommandRow("uninstall", "remove a server from a host", has_server=False),
    CommandRow("discover", "list the servers of the hosts on this machine and check them", has_server=False),
    CommandRow("logout", "delete the tokens that --login stored for a server", has_server=False),
    CommandRow("states", "print the state machines of the protocol", has_server=False),
    CommandRow("completion", "print a shell completion script", has_server=False),
)


def load(row: CommandRow) -> ModuleType:
    """Import the module of a command."""
    return importlib.import_module(f"jackstay.cli._{row.name}")


def command_parser(row: CommandRow, command: ModuleType) -> CommandParser:
    """Return the parser of one sub-command; `command` is its module."""
    summary = row.summary[0].upper() + row.summary[1:]
    parser = CommandParser(f"jackstay {row.name}", description=f"{summary}.", epilog=short_exit_codes())
    command.add_arguments(parser)
    return parser


def add_help(parser: ArgumentParser, *usages: str, examples: Iterable[str], more: str = "") -> None:
    """Add usage lines and examples to the help of a command, and `more` to its description."""
    parser.usage = "\n       ".join(f"{parser.prog} [options] {usage}" for usage in usages) or None
    parser.description = f"{parser.description}{more}"
    lines = "".join(f"  {parser.prog} {example}\n" for example in examples)
    parser.epilog = f"examples:\n{lines}{parser.epilog}"


def add_repeatable(parser: ArgumentParser, flag: str, metavar: str, text: str) -> None:
    """Add an option that may be repeated; its value is a list."""
    parser.add_argument(flag, action="append", default=[], metavar=metavar, help=text)


def main_parser() -> CommandParser:
    """Return the parser of `jackstay` itself, for `--help` and `--version`."""
    width = max(len(row.name) for row in COMMANDS)
    rows = "".join(f"  {row.name:<{width}}  {row.summary}\n" for row in COMMANDS)
    parser = CommandParser(
        "jackstay",
        usage="jackstay [-h] [--version] COMMAND ...",
        description="Use, serve and test MCP servers: jackstay tools -- uvx mcp-server-git\n"
        "See COMMAND --help for options and examples.",
        epilog=f"commands:\n{rows}{exit_codes()}",
    )
    parser.add_argument("--version", action="version", version=f"jackstay {__version__}", help=SUPPRESS)
    return parser
