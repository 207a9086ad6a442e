"""The table of sub-commands: name, summary and module.

A row contains the module as a string, so that `jackstay --help` imports no command. A new command is a row here and a
module with the two functions of `Command`.
"""

import importlib
from argparse import ArgumentParser, Namespace
from typing import NamedTuple, Protocol, cast


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
    CommandRow("tools", "list the tools of a server", "jackstay.cli._tools"),
    CommandRow("resources", "list the resources and resource templates of a server", "jackstay.cli._resources"),
    CommandRow("prompts", "list the prompts of a server", "jackstay.cli._prompts"),
    CommandRow("call", "call a tool and print its result", "jackstay.cli._call"),
    CommandRow("read", "read a resource and print its contents", "jackstay.cli._read"),
    CommandRow("watch", "print notifications and connection states until Ctrl-C", "jackstay.cli._watch"),
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
