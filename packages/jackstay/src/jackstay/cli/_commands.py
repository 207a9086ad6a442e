"""The sub-commands, as rows: what each is called, what it does in one line, and which file holds it.

A row names its file as text, so that `jackstay --help` lists every command and loads none. A new command is a row here
and a file beside this one with the two functions of `Command`.
"""

import importlib
from argparse import ArgumentParser, Namespace
from typing import NamedTuple, Protocol, cast


class Command(Protocol):
    """What the file of a command provides."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the arguments of this command."""

    def run(self, arguments: Namespace) -> int:
        """Do it, write the result to standard output, and return the exit code."""


class CommandRow(NamedTuple):
    """One sub-command. `home` is imported when the command is the one that was typed.

    `has_server`: words after `--` are the command of a server to start.
    """

    name: str
    summary: str
    home: str
    has_server: bool = True


COMMANDS = (
    CommandRow("tools", "list the tools of a server", "jackstay.cli._tools"),
    CommandRow(
        "resources", "list the resources and resource templates of a server", "jackstay.cli._resources"
    ),
    CommandRow("prompts", "list the prompts of a server", "jackstay.cli._prompts"),
    CommandRow("call", "call a tool and print what it answers", "jackstay.cli._call"),
    CommandRow("read", "read a resource and print what is in it", "jackstay.cli._read"),
    CommandRow("watch", "print notifications and changes of state until Ctrl-C", "jackstay.cli._watch"),
    CommandRow(
        "ping", "ask a server for a sign of life, as keepalive does, and time it", "jackstay.cli._ping"
    ),
    CommandRow(
        "serve",
        "serve the Server of a file or module, over stdio or HTTP",
        "jackstay.cli._serve",
        has_server=False,
    ),
    CommandRow("record", "record what a client and a server say, between them", "jackstay.cli._record"),
    CommandRow(
        "replay",
        "answer as a recorded server did, without that server",
        "jackstay.cli._replay",
        has_server=False,
    ),
    CommandRow("proxy", "hold a server and serve it again, over stdio or HTTP", "jackstay.cli._proxy"),
    CommandRow(
        "states",
        "print the state machines, drawn from the tables that run",
        "jackstay.cli._states",
        has_server=False,
    ),
    CommandRow(
        "completion",
        "print what completes these commands in your shell",
        "jackstay.cli._completion",
        has_server=False,
    ),
)


def load(row: CommandRow) -> Command:
    """The file of that row."""
    # A module with these two functions is a Command; import_module can only promise a module.
    return cast("Command", importlib.import_module(row.home))
